# ruff: noqa: ANN401, PTH118, SLF001 - torch is not imported here, and a program calls anything; frames are what this is about
"""Ranges around the calls of PyTorch's C functions, which say the line and the module that made them.

``sys.monitoring`` shows each call of a C function with its end, and each line that begins. A line is wanted for its
operators: ``a + b`` and ``a[0]`` are no calls. Nothing is replaced, and no hook is added::

    model.py:31    |linear|                      called: a range from its start to its end
    model.py:32             |x + y            |  a line with an operator: until the next one, or the end of its function

The module is the innermost object with ``torch.nn.Module`` among its classes whose call has not ended. Its path is
looked up in the outermost one. Attributes of a program's objects are not read, because that may run its code. Classes,
code and modules are known by weak references, so that they live no longer than without this.
"""

import opcode
import os
import sys
import weakref
from _thread import get_ident
from collections.abc import Callable, Iterator, Sequence
from types import BuiltinFunctionType, ClassMethodDescriptorType, CodeType, FrameType, MethodDescriptorType, MethodType
from typing import Any, NamedTuple

from .monitoring import take_tool
from .nvtx_calls import GRAY, Sink

# The text of a range, before the number of its site.
TEXT = "nsyswrap xray"
COMPILED = "a function was compiled in the step"
# How many frames of a site are kept, and how far up they are looked for.
MOST_KEPT, MOST_FRAMES = 12, 200

# Operators that may work on tensors. Python has special instructions in their place where the operands were numbers,
# texts, lists or dicts so far; those are not among them. Source: PEP 659.
_OPERATORS = frozenset(
    opcode.opmap[name]
    for name in (
        *("BINARY_OP", "BINARY_SUBSCR", "BINARY_SLICE", "COMPARE_OP", "STORE_SLICE", "STORE_SUBSCR"),
        *("TO_BOOL", "UNARY_INVERT", "UNARY_NEGATIVE"),
    )
    if name in opcode.opmap
)
# Hides the instruction with which a line begins again, after the call of another line of its statement.
_LINE_BEGINS = opcode.opmap.get("INSTRUMENTED_LINE")
# Functions of Python that call methods of tensors, unless they get one of the types after them.
_REACHING = frozenset(map(id, (abs, all, any, bool, complex, divmod, float, int, max, min, pow, round, sum)))
_C_FUNCTIONS = frozenset({BuiltinFunctionType, MethodDescriptorType, ClassMethodDescriptorType})
_PLAIN = frozenset({int, float, bool, str, bytes, complex})
# Modules whose C functions start no work on a GPU.
_INERT = frozenset({*sys.stdlib_module_names, "numpy"})
# What compiled functions call to check sizes and to allocate.
_INERT_PART = "torch._C._dynamo"
# Files of PyTorch whose code runs while a function is compiled. Its tensors without data are not for observers.
_COMPILING = (os.path.join("_dynamo", "convert_frame.py"), os.path.join("_subclasses", "fake_tensor.py"))
# Functions of PyTorch that each call of a module or of a function makes, and that start no work either.
_CHECKS = ("_get_tracing_state", "_has_torch_function", "_are_functorch_transforms_active", "is_grad_enabled")

_OTHER, _CLASS, _C_FUNCTION, _MODULE = range(4)
# Where the memory is read: at the bounds of the step, of calls of modules and of backward passes; with their ends.
STEP, MODULE, BACKWARD, END = 0, 1, 2, 3
RUN_BACKWARD, MOST_READ = "run_backward", 20_000
# The place of a range that begins with a line, and not with a call.
_LINE = -1


class _Code(NamedTuple):
    """What is known of some code.

    Attributes:
        code: Weak reference to it.
        number: Its number: after its end other code may have its id.
        lines: Its lines with operators that may work on tensors.
        is_left_out: Whether its frames are in no stack: they are between the call of a module and its ``forward``.
        is_own: Whether it is the program's, or of a library other than PyTorch.
        is_compiling: Whether it runs while a function is compiled.
    """

    code: "weakref.ref[CodeType]"
    number: int
    lines: frozenset[int]
    is_left_out: bool
    is_own: bool
    is_compiling: bool


class _Thread:
    """What is open on a thread.

    Attributes:
        modules: The modules whose calls have not ended.
        ranges: Of each range: its frame, where in the code it was called (``_LINE`` for none), and its number.
        path: A hash of the sites so far, in their order.
    """

    __slots__ = ("modules", "path", "ranges")

    def __init__(self) -> None:
        self.modules: list[Any] = []
        self.ranges: list[tuple[int, int, int]] = []
        self.path = 0


class Sites:
    """Makes the ranges, from each ``start`` to ``stop``. Its callbacks do not raise.

    Args:
        torch: The module, completely imported.
        sink: Takes the ranges.
        guarded: Ids of functions before whose call ``leave`` is called.
        leave: Called before such a call, after an error, and when ``is_over`` says so; it calls ``stop``.
        is_over: Returns whether it has lasted too long.
    """

    def __init__(
        self,
        torch: Any,
        sink: Sink,
        guarded: "frozenset[int]",
        leave: Callable[[str], object],
        is_over: Callable[[], bool],
    ) -> None:
        self._sink, self._start, self._end, self._domain = sink, sink.start, sink.end, sink.domain
        self._guarded, self._leave, self._is_over, self._cuda = guarded, leave, is_over, torch.cuda
        self._memory: list[tuple[int, int | None, int]] = []
        self._module: type = torch.nn.Module
        calls = (getattr(self._module, name, None) for name in ("_call_impl", "_wrapped_call_impl"))
        self._between = {getattr(each, "__code__", None) for each in calls}
        folder = os.path.dirname(torch.__file__)  # noqa: PTH120 - see recording
        self._compiling = frozenset(os.path.join(folder, each) for each in _COMPILING)
        self._library = (f"{folder}{os.sep}", f"{os.path.dirname(folder)}{os.sep}triton{os.sep}")  # noqa: PTH120
        # Code that Inductor has written runs in frames that its own code calls.
        self._inductor, self._written = os.path.join(folder, "_inductor", ""), set[str]()
        self._standard = f"{os.path.dirname(os.__file__)}{os.sep}"  # noqa: PTH120
        self._threads: dict[int, _Thread] = {}
        self._kinds: dict[int, tuple[weakref.ref[type], int]] = {}
        self._functions: dict[int, tuple[Any, bool]] = {}
        self._codes: dict[int, _Code] = {}
        self._code_count = 0
        self._known: dict[tuple[int, ...], Any] = {}
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._modules = _Modules()
        self._monitoring: Any = vars(sys)["monitoring"]
        self._tool = -1

    def reserve(self) -> None:
        """Take a number for tools.

        Raises:
            LookupError: Other tools monitor the calls.
        """
        self._tool = take_tool(self._monitoring)

    def start(self) -> None:
        """Observe all calls of this process."""
        events = self._monitoring.events
        for event, callback in self._callbacks(events):
            self._monitoring.register_callback(self._tool, event, callback)
        self._threads.clear()
        self._read_memory(STEP)
        self._monitoring.set_events(self._tool, sum(event for event, _ in self._callbacks(events)))

    def path_of(self, number: int) -> int:
        """Return what a thread called since the last start: equal numbers for equal sites in equal order."""
        thread = self._threads.get(number)
        return 0 if thread is None else thread.path

    def stop(self) -> None:
        """Observe nothing any more, end what is open, and give the number for tools back."""
        self._monitoring.set_events(self._tool, 0)
        self._read_memory(STEP + END)
        for event, _ in self._callbacks(self._monitoring.events):
            self._monitoring.register_callback(self._tool, event, None)
        self._monitoring.free_tool_id(self._tool)
        for thread in list(self._threads.values()):
            for _, _, number in reversed(thread.ranges):
                self._end(self._domain, number)
            thread.ranges.clear()
            thread.modules.clear()

    def tables(self) -> "dict[str, list[Any]]":
        """Return the sites by their numbers, the modules, the roots and the memory, as `xray.json` holds them."""
        sites = []
        for module, stack in self._numbers:
            own = next((each for each in stack if each[3] and each[0] not in self._written), stack[0])
            file, line, function, _ = own
            kept = [list(each[:3]) for each in stack]
            sites.append({"file": file, "line": line, "function": function, "stack": kept, "module": module})
        modules, roots = self._modules.modules, self._modules.roots
        return {"sites": sites, "modules": modules, "roots": roots, "memory": list(self._memory)}

    def _callbacks(self, events: Any) -> "list[tuple[int, Callable[..., Any]]]":
        # Ends of calls come with the calls.
        return [
            (events.CALL, self._called),
            (events.C_RETURN, self._call_ended),
            (events.C_RAISE, self._call_ended),
            (events.LINE, self._line_began),
            (events.PY_RETURN, self._frame_ended),
            (events.PY_YIELD, self._frame_ended),
            (events.PY_UNWIND, self._frame_ended),
        ]

    def _called(self, _code: CodeType, offset: int, called: Any, first: Any) -> None:
        try:
            kind = self._kind(called)
            if id(called) in self._guarded:
                self._leave("the program uses a profiler itself")
            elif kind == _OTHER:
                return
            elif kind == _MODULE:
                modules = self._thread().modules
                modules.append(called)
                self._read_memory(MODULE, modules)
            elif self._reaches(called, kind, first):
                if called.__name__ == RUN_BACKWARD:
                    self._read_memory(BACKWARD)
                self._begin(sys._getframe(1), offset)
        except Exception as error:  # noqa: BLE001 - no error here may end the program
            self._fail(error)

    def _call_ended(self, _code: CodeType, offset: int, called: Any, _first: Any) -> None:
        try:
            kind = self._kind(called)
            if kind == _OTHER:
                return
            thread = self._thread()
            if kind == _MODULE:
                if thread.modules and thread.modules[-1] is called:
                    self._read_memory(MODULE + END, thread.modules)
                    thread.modules.pop()
            elif thread.ranges:
                frame = id(sys._getframe(1))
                if any(each[0] == frame and each[1] == offset for each in thread.ranges):
                    if called.__name__ == RUN_BACKWARD:
                        self._read_memory(BACKWARD + END)
                    while self._end_last(thread)[:2] != (frame, offset):
                        pass
        except Exception as error:  # noqa: BLE001 - see _called
            self._fail(error)

    def _line_began(self, code: CodeType, line: int) -> Any:
        try:
            known = self._know(code)
            if known.is_compiling:
                self._leave(COMPILED)
                return None
            if line not in known.lines:
                return self._monitoring.DISABLE
            frame, thread = sys._getframe(1), self._thread()
            if thread.ranges and thread.ranges[-1][:2] == (id(frame), _LINE):
                self._end_last(thread)
            self._begin(frame, _LINE)
        except Exception as error:  # noqa: BLE001 - see _called
            self._fail(error)
        return None

    def _frame_ended(self, _code: CodeType, _offset: int, _value: Any) -> None:
        try:
            thread = self._threads.get(get_ident())
            if thread is not None and thread.ranges:
                frame = id(sys._getframe(1))
                while thread.ranges and thread.ranges[-1][0] == frame:
                    self._end_last(thread)
        except Exception as error:  # noqa: BLE001 - see _called
            self._fail(error)

    def _begin(self, frame: FrameType, offset: int) -> None:
        if self._is_over():
            self._leave("the step took too long")
            return
        thread = self._thread()
        described = self._site(frame, thread)
        thread.path = hash((thread.path, id(described)))
        thread.ranges.append((id(frame), offset, self._start(self._domain, described)))

    def _end_last(self, thread: _Thread) -> tuple[int, int, int]:
        ended = thread.ranges.pop()
        self._end(self._domain, ended[2])
        return ended

    def _read_memory(self, where: int, modules: "Sequence[Any]" = ()) -> None:
        """Read how much memory tensors take on the current GPU; the allocator's peaks stay as they are."""
        if self._cuda.is_initialized() and len(self._memory) < MOST_READ:
            self._memory.append((where, self._modules.index(modules), int(self._cuda.memory_allocated())))

    def _thread(self) -> _Thread:
        number = get_ident()
        return self._threads.get(number) or self._threads.setdefault(number, _Thread())

    def _fail(self, error: Exception) -> None:
        self._leave(f"{type(error).__name__}: {error}")

    def _kind(self, called: Any) -> int:
        """Return what kind of object is called, by its class alone."""
        cls = type(called)
        if cls is MethodType:
            return _C_FUNCTION if type(called.__func__) is BuiltinFunctionType else _OTHER
        known = self._kinds.get(id(cls))
        if known is None or known[0]() is not cls:
            if cls in _C_FUNCTIONS:
                kind = _C_FUNCTION
            elif cls is type:
                kind = _CLASS
            else:
                kind = _MODULE if self._module in type.mro(cls) else _OTHER
            known = self._kinds[id(cls)] = weakref.ref(cls), kind
        return known[1]

    def _reaches(self, called: Any, kind: int, first: Any) -> bool:
        """Return whether a call may start work on a GPU."""
        if id(called) in _REACHING:
            return type(first) not in _PLAIN
        if kind == _CLASS:
            return False
        function = called.__func__ if type(called) is MethodType else called
        known = self._functions.get(id(function))
        if known is None:
            known = function, not function.__name__.startswith(_CHECKS) and _is_foreign(function)
            # Others are made for one call, and hold what they are bound to.
            if type(function) is not BuiltinFunctionType or function.__module__ is not None:
                self._functions[id(function)] = known
        return known[1]

    def _is_written(self, frame: FrameType) -> bool:
        """Return whether a frame runs code that Inductor has written."""
        caller, file = frame.f_back, frame.f_code.co_filename
        if caller is not None and caller.f_code.co_filename.startswith(self._inductor):
            self._written.add(file)
        return file in self._written

    def _know(self, code: CodeType) -> _Code:
        known = self._codes.get(id(code))
        if known is not None and known.code() is code:
            return known
        name = code.co_filename
        is_standard = name.startswith((self._standard, "<frozen")) and "-packages" not in name
        is_own = not is_standard and not name.startswith((*self._library, "<"))
        lines: frozenset[int] = frozenset() if is_standard else frozenset(_operator_lines(code))
        self._code_count += 1
        is_left_out, is_compiling = code in self._between, name in self._compiling
        known = _Code(weakref.ref(code), self._code_count, lines, is_left_out, is_own, is_compiling)
        self._codes[id(code)] = known
        return known

    def _site(self, frame: FrameType, thread: _Thread) -> Any:
        """Return what describes the ranges of a site."""
        module = self._modules.index(thread.modules)
        kept: list[tuple[FrameType, _Code]] = []
        key, is_own_kept = [-1 if module is None else module], False
        each: FrameType | None = frame
        for _ in range(MOST_FRAMES):
            if each is None or (is_own_kept and len(kept) >= MOST_KEPT):
                break
            code = each.f_code
            known = self._know(code)
            # The innermost frame of the program is kept, however deep PyTorch is in its own.
            if not known.is_left_out and (len(kept) < MOST_KEPT or known.is_own):
                kept.append((each, known))
                key += (known.number, each.f_lasti)
                is_own_kept = is_own_kept or (known.is_own and not self._is_written(each))
            each = each.f_back
        found = self._known.get(tuple(key))
        if found is None:
            stack = tuple(
                (each.f_code.co_filename, each.f_lineno or each.f_code.co_firstlineno, _name(each.f_code), known.is_own)
                for each, known in kept
            )
            number = self._numbers.setdefault((module, stack), len(self._numbers))
            found = self._known[tuple(key)] = self._sink.described(f"{TEXT} {number}", GRAY)
        return found


class _Modules:
    """The modules that were called, and their models."""

    def __init__(self) -> None:
        self.modules: list[dict[str, Any]] = []
        self.roots: list[dict[str, Any]] = []
        self._indexes: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._paths: dict[int, tuple[weakref.ref[Any], int, dict[int, str]]] = {}

    def index(self, called: "Sequence[Any]") -> "int | None":
        """Return the index of the last of the modules that are being called; None for none."""
        if not called:
            return None
        root, module = called[0], called[-1]
        known = self._indexes.get(id(module))
        if known is None or known[0]() is not module:
            _, number, paths = self._root(root)
            known = self._indexes[id(module)] = weakref.ref(module), len(self.modules)
            self.modules.append({"path": paths.get(id(module), ""), "class": _class_name(module), "root": number})
        return known[1]

    def _root(self, root: Any) -> "tuple[weakref.ref[Any], int, dict[int, str]]":
        """Return the number of a model, and the paths of its modules by their ids."""
        known = self._paths.get(id(root))
        if known is None or known[0]() is not root:
            named = list(_named(root, "", set()))
            known = weakref.ref(root), len(self.roots), {id(each): path for path, each in named}
            self._paths[id(root)] = known
            compiled = vars(root).get("_modules", {}).get("_orig_mod") or root  # by torch.compile
            self.roots.append({"class": _class_name(compiled), **_parameters(each for _, each in named)})
        return known


def _named(module: Any, path: str, seen: "set[int]") -> "Iterator[tuple[str, Any]]":
    """Yield a module and those in it with their paths, as ``named_modules`` does, which a program may override."""
    if module is None or id(module) in seen:
        return
    seen.add(id(module))
    yield path, module
    for name, inner in list(vars(module).get("_modules", {}).items()):
        yield from _named(inner, f"{path}.{name}" if path else name, seen)


def _parameters(modules: "Iterator[Any]") -> "dict[str, int]":
    found = {id(each): each for module in modules for each in vars(module).get("_parameters", {}).values()}
    sizes = [(_size(each), each.requires_grad) for each in found.values() if each is not None]
    return {"parameters": sum(size for size, _ in sizes), "trainable": sum(size for size, trains in sizes if trains)}


def _size(parameter: Any) -> int:
    """Return how many elements a parameter has; 0 where it has no shape yet."""
    try:
        return int(parameter.numel())
    except (RuntimeError, ValueError):
        return 0


def _class_name(module: Any) -> str:
    cls = type(module)
    return f"{cls.__module__}.{cls.__qualname__}"


def _name(code: CodeType) -> str:
    return getattr(code, "co_qualname", code.co_name)


def _operator_lines(code: CodeType) -> "Iterator[int]":
    """Yield the lines of code with an operator that may work on tensors."""
    # The first has no special instructions, the second has numbers of Python's own between the instructions.
    plain = code.co_code
    if _OPERATORS.isdisjoint(plain[::2]):
        return
    adapted = getattr(code, "_co_code_adaptive", plain)
    for start, end, line in code.co_lines():
        places = range(start, end, 2)
        operators = (each for each in places if plain[each] in _OPERATORS)
        if line is not None and any(adapted[each] in {plain[each], _LINE_BEGINS} for each in operators):
            yield line


def _is_foreign(function: Any) -> bool:
    """Return whether a C function is neither Python's own nor of another module that starts no work on a GPU."""
    if type(function) is not BuiltinFunctionType:
        module = function.__objclass__.__module__
    elif function.__module__ is not None:
        module = function.__module__
    else:
        bound = function.__self__
        classes = type.mro(bound if isinstance(bound, type) else type(bound))
        module = next((each.__module__ for each in classes if function.__name__ in vars(each)), None)
    if not isinstance(module, str) or module.startswith(_INERT_PART):
        return False
    return module.partition(".")[0] not in _INERT
