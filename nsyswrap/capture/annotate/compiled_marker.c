/* The marks of marker.py in compiled code: the same ranges in less time.
 *
 * Between two marks a program evicts the marker from the CPU caches, so a mark costs what it touches. Here that is one
 * structure for each thread, and the profiler is called directly. marker.py says what the methods do; its tests run on
 * both. nsyswrap compiles this file before a run, with any C compiler, for the stable interface of Python 3.10 and newer.
 */
#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The order of COLORS in marker.py. */
enum { DATA, COPY, FORWARD, BACKWARD, OPTIMIZER, WORKER, PHASES };
enum { NO_STEP, STEP, BATCH };
#define BIT(phase) (1u << (phase))
#define LONGEST_TEXT 48
#define CAPSULE "nsyswrap.thread_state"

/* nvtxEventAttributes_t of nvToolsExt.h. */
typedef struct {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const char *message;
} Attributes;

typedef int (*Push)(void *domain, const Attributes *attributes);
typedef int (*Pop)(void *domain);

/* ThreadState of marker.py. References are weak ones, None for an object without weak references, NULL for none. */
typedef struct {
    uint8_t open, depth, step, due, moving, reads, had_forward, had_backward;
    uint8_t stack[PHASES];
    uint8_t last_training, trained_training;
    long steps, batches;
    PyObject *root, *last, *trained, *owner, *others;
} State;

typedef struct {
    PyObject_HEAD
    Push push;
    Pop pop;
    void *domain;
    uint64_t number;
    long backwards;
    Attributes phases[PHASES];
    Attributes gray;
    char texts[PHASES][LONGEST_TEXT];
    PyObject *names[PHASES];
    PyObject *key, *warn, *training;
    int failed;
} Marker;

/* The wrapper around Module.__call__. It binds to a module as a function does. */
typedef struct {
    PyObject_HEAD
    PyObject *dict, *call, *grad, *compiled_name, *plain_name;
    Marker *marker;
    uint64_t number;
    int direct;
} ModuleCall;

static uint64_t markers;
static PyObject *module_call_type;

/* The state of this thread that was used last, and its open phases: inside a module no more is read. */
static __thread struct {
    uint64_t number;
    State *state;
    uint8_t open;
} cached __attribute__((tls_model("initial-exec")));

static void clear_state(State *state)
{
    PyObject *held[] = {state->root, state->last, state->trained, state->owner, state->others};
    memset(state, 0, sizeof *state);
    for (size_t each = 0; each < sizeof held / sizeof *held; each++)
        Py_XDECREF(held[each]);
}

/* The thread ends: its dict of Python objects goes. */
static void free_state(PyObject *capsule)
{
    State *state = PyCapsule_GetPointer(capsule, CAPSULE);
    if (cached.state == state)
        cached.number = 0;
    clear_state(state);
    free(state);
}

static State *other_state(Marker *self)
{
    PyObject *dict = PyThreadState_GetDict();
    if (dict == NULL)
        return NULL;
    PyObject *capsule = PyDict_GetItemWithError(dict, self->key);
    State *state = capsule ? PyCapsule_GetPointer(capsule, CAPSULE) : NULL;
    if (capsule == NULL && !PyErr_Occurred()) {
        state = calloc(1, sizeof *state);
        capsule = state ? PyCapsule_New(state, CAPSULE, free_state) : PyErr_NoMemory();
        if (capsule == NULL) {
            free(state);
            return NULL;
        }
        int put = PyDict_SetItem(dict, self->key, capsule);
        Py_DECREF(capsule);
        if (put < 0)
            return NULL;
    }
    if (state != NULL) {
        cached.number = self->number;
        cached.state = state;
        cached.open = state->open;
    }
    return state;
}

static inline State *state_of(Marker *self)
{
    return cached.number == self->number ? cached.state : other_state(self);
}

/* Print a warning once, send no more ranges, and return None: the program goes on. */
static PyObject *fail(Marker *self)
{
    PyObject *kind, *error, *trace;
    PyErr_Fetch(&kind, &error, &trace);
    PyErr_NormalizeException(&kind, &error, &trace);
    if (!self->failed) {
        self->failed = 1;
        PyObject *done = PyObject_CallFunctionObjArgs(self->warn, error ? error : Py_None, NULL);
        Py_XDECREF(done);
        PyErr_Clear();
    }
    Py_XDECREF(kind);
    Py_XDECREF(error);
    Py_XDECREF(trace);
    Py_RETURN_NONE;
}

static void set(PyObject **place, PyObject *value)
{
    PyObject *old = *place;
    *place = value;
    Py_XDECREF(old);
}

/* Return a weak reference to an object, or None if it does not support them; NULL for another error. */
static PyObject *reference(PyObject *target)
{
    PyObject *made = PyWeakref_NewRef(target, NULL);
    if (made == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        made = Py_NewRef(Py_None);
    }
    return made;
}

/* Return the object of a reference, borrowed, or NULL. */
static PyObject *referent(PyObject *made)
{
    PyObject *found = made == NULL || made == Py_None ? NULL : PyWeakref_GetObject(made);
    return found == Py_None ? NULL : found;
}

/* Return whether a module is in training mode; -1 for an error. */
static int in_training(Marker *self, PyObject *module)
{
    PyObject *value = PyObject_GetAttr(module, self->training);
    if (value == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError))
            return -1;
        PyErr_Clear();
        return 1;
    }
    int found = PyObject_IsTrue(value);
    Py_DECREF(value);
    return found;
}

/* Return whether the trained module has been switched to evaluation mode; -1 for an error. */
static int left_training(Marker *self, State *state)
{
    PyObject *module = state->trained_training ? referent(state->trained) : NULL;
    if (module == NULL)
        return 0;
    Py_INCREF(module);
    int training = in_training(self, module);
    Py_DECREF(module);
    return training < 0 ? -1 : !training;
}

static void open_phase(Marker *self, State *state, int phase)
{
    cached.open = state->open |= BIT(phase);
    state->stack[state->depth++] = (uint8_t)phase;
    if (!self->failed)
        self->push(self->domain, &self->phases[phase]);
}

static void open_step(Marker *self, State *state, int kind)
{
    char text[LONGEST_TEXT], *start = text + sizeof text - 1;
    const char *name = kind == STEP ? "step " : "batch ";
    size_t length = strlen(name);
    long number = kind == STEP ? state->steps : state->batches;

    state->step = (uint8_t)kind;
    state->had_forward = state->had_backward = 0;
    set(&state->root, NULL);
    set(&state->others, NULL);
    *start = 0;
    do
        *--start = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    start -= length;
    memcpy(start, name, length);
    Attributes attributes = self->gray;
    attributes.message = start;
    if (!self->failed)
        self->push(self->domain, &attributes);
}

static void close_step(Marker *self, State *state, int done)
{
    if (state->step == NO_STEP)
        return;
    if (!self->failed)
        self->pop(self->domain);
    if (state->step == BATCH)
        state->batches++;
    else if (done)
        state->steps++;
    state->step = NO_STEP;
}

/* Ensure that the right "step" or "batch" range is open before a phase begins. */
static void ensure_step(Marker *self, State *state, int evaluating, int new_batch)
{
    int wanted = evaluating ? BATCH : STEP;
    int untrained = evaluating || state->trained == NULL;
    int over = new_batch && state->had_forward && !state->had_backward && untrained;
    if (state->step != NO_STEP && (state->step != wanted || over))
        close_step(self, state, state->step == wanted);
    if (state->step == NO_STEP)
        open_step(self, state, wanted);
}

static void end_phase(Marker *self, State *state)
{
    int phase = state->stack[--state->depth];
    cached.open = state->open &= (uint8_t)~BIT(phase);
    if (phase == BACKWARD)
        self->backwards--;
    if (!self->failed)
        self->pop(self->domain);
    if (state->due && state->depth == 0) {
        state->due = 0;
        close_step(self, state, 1);
        open_step(self, state, STEP);
    }
}

static PyObject *begin_data(Marker *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    State *state = state_of(self);
    if (count + (names ? PyTuple_Size(names) : 0) != 1) {
        PyErr_SetString(PyExc_TypeError, "begin_data(*, grad)");
        return NULL;
    }
    if (state == NULL)
        return fail(self);
    if (state->depth == 0) {
        int left = args[0] == Py_True ? left_training(self, state) : 1;
        if (left < 0)
            return fail(self);
        if (left || state->had_forward || state->step != STEP)
            ensure_step(self, state, left, 1);
    }
    else if (state->open & BIT(DATA))
        Py_RETURN_NONE;
    state->reads = 1;
    open_phase(self, state, DATA);
    return Py_NewRef(Py_True);
}

static PyObject *begin_forward(Marker *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    State *state = state_of(self);
    if (count + (names ? PyTuple_Size(names) : 0) != 2) {
        PyErr_SetString(PyExc_TypeError, "begin_forward(module, *, grad)");
        return NULL;
    }
    if (state == NULL)
        return fail(self);
    if (self->backwards || state->open & BIT(FORWARD))
        Py_RETURN_NONE;
    PyObject *module = args[0];
    int grad = args[1] == Py_True;
    if (state->depth == 0 && !(state->reads && state->step)) {
        int same = state->trained == NULL || referent(state->trained) == module;
        ensure_step(self, state, !grad && same, state->root != NULL && referent(state->root) == module);
    }
    PyObject *made = reference(module);
    if (made == NULL)
        return fail(self);
    if (state->root == NULL)
        state->root = Py_NewRef(made);
    if (grad) {
        int training = in_training(self, module);
        if (training < 0) {
            Py_DECREF(made);
            return fail(self);
        }
        state->last_training = (uint8_t)training;
        set(&state->last, made);
    }
    else
        Py_DECREF(made);
    state->had_forward = 1;
    open_phase(self, state, FORWARD);
    return Py_NewRef(Py_True);
}

static PyObject *begin_backward(Marker *self, PyObject *ignored)
{
    State *state = state_of(self);
    if (state == NULL)
        return fail(self);
    if (state->open & BIT(BACKWARD))
        Py_RETURN_NONE;
    state->had_backward = 1;
    if (state->last != NULL) {
        state->trained_training = state->last_training;
        set(&state->trained, Py_NewRef(state->last));
    }
    self->backwards++;
    open_phase(self, state, BACKWARD);
    return Py_NewRef(Py_True);
}

static PyObject *begin_numbered(Marker *self, int phase)
{
    State *state = state_of(self);
    if (state == NULL)
        return fail(self);
    if (state->open & BIT(phase))
        Py_RETURN_NONE;
    open_phase(self, state, phase);
    return Py_NewRef(Py_True);
}

static PyObject *begin(Marker *self, PyObject *name)
{
    int phase = 0;
    while (phase < PHASES && self->names[phase] != name)
        phase++;
    if (phase == PHASES)
        for (phase = 0; phase < PHASES && PyUnicode_Compare(self->names[phase], name) != 0; phase++)
            if (PyErr_Occurred())
                return fail(self);
    if (phase == PHASES) {
        PyErr_SetObject(PyExc_KeyError, name);
        return fail(self);
    }
    return begin_numbered(self, phase);
}

static PyObject *begin_copy(Marker *self, PyObject *ignored)
{
    State *state = state_of(self);
    if (state != NULL && state->moving)
        Py_RETURN_NONE;
    return begin_numbered(self, COPY);
}

static PyObject *begin_move(Marker *self, PyObject *ignored)
{
    State *state = state_of(self);
    if (state == NULL)
        return fail(self);
    if (state->moving)
        Py_RETURN_NONE;
    state->moving = 1;
    return Py_NewRef(Py_True);
}

static PyObject *end_move(Marker *self, PyObject *ignored)
{
    State *state = state_of(self);
    if (state == NULL)
        return fail(self);
    state->moving = 0;
    Py_RETURN_NONE;
}

static PyObject *inside(Marker *self, PyObject *ignored)
{
    State *state = state_of(self);
    if (state == NULL)
        fail(self);
    return PyBool_FromLong(state != NULL && state->open & BIT(FORWARD));
}

/* Record an optimizer that is not the one of the last step; return 1 if steps end with it, -1 for an error. */
static int takes_over(State *state, PyObject *optimizer)
{
    if (referent(state->owner) != NULL) {
        if (state->others == NULL && (state->others = PySet_New(NULL)) == NULL)
            return -1;
        PyObject *address = PyLong_FromVoidPtr(optimizer);
        int known = address ? PySet_Contains(state->others, address) : -1;
        if (known == 0)
            known = PySet_Add(state->others, address);
        else if (known > 0)
            known = 2;
        Py_XDECREF(address);
        if (known <= 0)
            return known;
    }
    PyObject *made = reference(optimizer);
    if (made == NULL)
        return -1;
    set(&state->owner, made);
    return 1;
}

static PyObject *note_optimizer_step(Marker *self, PyObject *const *args, Py_ssize_t count)
{
    State *state = state_of(self);
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "note_optimizer_step(state, optimizer)");
        return NULL;
    }
    if (state == NULL)
        return fail(self);
    if (self->backwards)
        Py_RETURN_NONE;
    PyObject *owner = referent(state->owner);
    int ends = owner != NULL && owner == args[1] ? 1 : takes_over(state, args[1]);
    if (ends < 0)
        return fail(self);
    if (ends)
        state->due = 1;
    Py_RETURN_NONE;
}

static PyObject *end(Marker *self, PyObject *ignored)
{
    State *state = state_of(self);
    if (state == NULL)
        return fail(self);
    if (state->depth)
        end_phase(self, state);
    Py_RETURN_NONE;
}

static PyObject *finish(Marker *self, PyObject *ignored)
{
    State *state = state_of(self);
    if (state == NULL)
        return fail(self);
    while (state->depth)
        end_phase(self, state);
    close_step(self, state, 0);
    Py_RETURN_NONE;
}

static PyObject *reset(Marker *self, PyObject *ignored)
{
    State *state = state_of(self);
    if (state == NULL)
        return fail(self);
    clear_state(state);
    cached.open = 0;
    self->backwards = 0;
    Py_RETURN_NONE;
}

static void fill(Attributes *attributes, uint32_t color, const char *text)
{
    memset(attributes, 0, sizeof *attributes);
    attributes->version = 3;
    attributes->size = sizeof *attributes;
    attributes->color_type = attributes->message_type = 1;
    attributes->color = 0xFF000000u | color;
    attributes->message = text;
}

/* Marker(push, pop, domain, phases, gray, warn): addresses, pairs of name and colour, a colour, a function. */
static int init(Marker *self, PyObject *args, PyObject *named)
{
    unsigned long long push, pop, domain;
    unsigned gray;
    PyObject *phases, *warn;
    if (!PyArg_ParseTuple(args, "KKKOIO", &push, &pop, &domain, &phases, &gray, &warn))
        return -1;
    if (self->key != NULL || PyTuple_Size(phases) != PHASES) {
        PyErr_SetString(PyExc_ValueError, "six phases, once");
        return -1;
    }
    self->push = (Push)(uintptr_t)push;
    self->pop = (Pop)(uintptr_t)pop;
    self->domain = (void *)(uintptr_t)domain;
    self->number = ++markers;
    fill(&self->gray, gray, NULL);
    for (int phase = 0; phase < PHASES; phase++) {
        const char *text;
        unsigned color;
        if (!PyArg_ParseTuple(PyTuple_GetItem(phases, phase), "sI", &text, &color))
            return -1;
        self->names[phase] = Py_NewRef(PyTuple_GetItem(PyTuple_GetItem(phases, phase), 0));
        strncpy(self->texts[phase], text, LONGEST_TEXT - 1);
        fill(&self->phases[phase], color, self->texts[phase]);
    }
    self->warn = Py_NewRef(warn);
    self->training = PyUnicode_InternFromString("training");
    self->key = PyUnicode_FromFormat("nsyswrap.marker.%llu", (unsigned long long)self->number);
    return self->training && self->key ? 0 : -1;
}

static void dealloc(PyObject *object)
{
    Marker *self = (Marker *)object;
    PyTypeObject *type = Py_TYPE(object);
    for (int phase = 0; phase < PHASES; phase++)
        Py_XDECREF(self->names[phase]);
    Py_XDECREF(self->key);
    Py_XDECREF(self->warn);
    Py_XDECREF(self->training);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

#define CALL(function) ((PyCFunction)(void (*)(void))(function))

/* Call a module's compiled implementation or its normal one, as its own __call__ does. */
static PyObject *call_inner(ModuleCall *self, PyObject *args, PyObject *named)
{
    PyObject *module = PyTuple_GetItem(args, 0);
    PyObject *target = PyObject_GetAttr(module, self->compiled_name);
    if (target == Py_None) {
        Py_DECREF(target);
        target = PyObject_GetAttr(module, self->plain_name);
    }
    PyObject *rest = target ? PyTuple_GetSlice(args, 1, PyTuple_Size(args)) : NULL;
    PyObject *result = rest ? PyObject_Call(target, rest, named) : NULL;
    Py_XDECREF(rest);
    Py_XDECREF(target);
    return result;
}

/* Call the module in a range; without one if none may begin. */
static PyObject *call_outer(ModuleCall *self, PyObject *args, PyObject *named)
{
    PyObject *grad = PyObject_CallNoArgs(self->grad);
    PyObject *given[] = {PyTuple_GetItem(args, 0), grad};
    PyObject *state = grad ? begin_forward(self->marker, given, 2, NULL) : NULL;
    Py_XDECREF(grad);
    if (state == NULL)
        return NULL;
    PyObject *result = PyObject_Call(self->call, args, named);
    if (state != Py_None) {
        PyObject *kind, *error, *trace;
        PyErr_Fetch(&kind, &error, &trace);
        Py_XDECREF(end(self->marker, NULL));
        PyErr_Restore(kind, error, trace);
    }
    Py_DECREF(state);
    return result;
}

static PyObject *call_module(PyObject *object, PyObject *args, PyObject *named)
{
    ModuleCall *self = (ModuleCall *)object;
    if (PyTuple_Size(args) == 0)
        return PyObject_Call(self->call, args, named);
    if (self->direct && cached.number == self->number && cached.open & BIT(FORWARD))
        return call_inner(self, args, named);
    return call_outer(self, args, named);
}

/* Bind to a module, for those who get the call as an attribute. Python's own call of a module does not. */
static PyObject *bind(PyObject *self, PyObject *module, PyObject *type)
{
    if (module == NULL || module == Py_None)
        return Py_NewRef(self);
    PyObject *types = PyImport_ImportModule("types");
    PyObject *method = types ? PyObject_GetAttrString(types, "MethodType") : NULL;
    PyObject *bound = method ? PyObject_CallFunctionObjArgs(method, self, module, NULL) : NULL;
    Py_XDECREF(method);
    Py_XDECREF(types);
    return bound;
}

/* module_call(call, grad, direct): the wrapper, from what _forward in torch_calls.py has by these names. */
static PyObject *module_call(Marker *marker, PyObject *args)
{
    PyObject *call, *grad;
    int direct;
    if (!PyArg_ParseTuple(args, "OOp", &call, &grad, &direct))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot((PyTypeObject *)module_call_type, Py_tp_alloc);
    ModuleCall *made = (ModuleCall *)allocate((PyTypeObject *)module_call_type, 0);
    if (made == NULL)
        return NULL;
    made->call = Py_NewRef(call);
    made->grad = Py_NewRef(grad);
    made->marker = (Marker *)Py_NewRef((PyObject *)marker);
    made->number = marker->number;
    made->direct = direct;
    made->compiled_name = PyUnicode_InternFromString("_compiled_call_impl");
    made->plain_name = PyUnicode_InternFromString("_call_impl");
    if (made->compiled_name && made->plain_name)
        return (PyObject *)made;
    Py_DECREF(made);
    return NULL;
}

static void dealloc_call(PyObject *object)
{
    ModuleCall *self = (ModuleCall *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject *held[] = {self->dict, self->call, self->grad, self->compiled_name, self->plain_name,
                        (PyObject *)self->marker};
    for (size_t each = 0; each < sizeof held / sizeof *held; each++)
        Py_XDECREF(held[each]);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

/* A pickle holds the name, as for a function. */
static PyObject *reduce(PyObject *self, PyObject *ignored)
{
    return PyObject_GetAttrString(self, "__qualname__");
}

static PyMethodDef call_methods[] = {{"__reduce__", reduce, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};

static PyMemberDef call_members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(ModuleCall, dict), READONLY, NULL}, {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef call_attributes[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot call_slots[] = {
    {Py_tp_dealloc, dealloc_call}, {Py_tp_call, call_module}, {Py_tp_descr_get, bind},
    {Py_tp_methods, call_methods}, {Py_tp_members, call_members}, {Py_tp_getset, call_attributes},
    {0, NULL},
};

static PyType_Spec call_spec = {"compiled_marker.ModuleCall", sizeof(ModuleCall), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_METHOD_DESCRIPTOR, call_slots};

static PyMethodDef methods[] = {
    {"begin_data", CALL(begin_data), METH_FASTCALL | METH_KEYWORDS, NULL},
    {"begin_forward", CALL(begin_forward), METH_FASTCALL | METH_KEYWORDS, NULL},
    {"begin_backward", CALL(begin_backward), METH_NOARGS, NULL},
    {"begin", CALL(begin), METH_O, NULL},
    {"begin_copy", CALL(begin_copy), METH_NOARGS, NULL},
    {"begin_move", CALL(begin_move), METH_NOARGS, NULL},
    {"end_move", CALL(end_move), METH_O, NULL},
    {"inside", CALL(inside), METH_NOARGS, NULL},
    {"module_call", CALL(module_call), METH_VARARGS, NULL},
    {"note_optimizer_step", CALL(note_optimizer_step), METH_FASTCALL, NULL},
    {"end", CALL(end), METH_O, NULL},
    {"finish", CALL(finish), METH_NOARGS, NULL},
    {"reset", CALL(reset), METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_init, init}, {Py_tp_dealloc, dealloc}, {Py_tp_methods, methods}, {Py_tp_new, PyType_GenericNew}, {0, NULL},
};

static PyType_Spec spec = {"compiled_marker.Marker", sizeof(Marker), 0, Py_TPFLAGS_DEFAULT, slots};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "compiled_marker", NULL, -1, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_compiled_marker(void)
{
    PyObject *made = PyModule_Create(&module);
    PyObject *type = made ? PyType_FromSpec(&spec) : NULL;
    if (module_call_type == NULL)
        module_call_type = PyType_FromSpec(&call_spec);
    if (module_call_type == NULL || type == NULL || PyModule_AddObject(made, "Marker", type) < 0) {
        Py_XDECREF(type);
        Py_XDECREF(made);
        return NULL;
    }
    return made;
}
