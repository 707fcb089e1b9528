# ruff: noqa: ANN401, PLC0415, PTH105, PTH110, PTH116, PTH118, PTH120, PTH123, SLF001 - torch is not imported here
"""What a process of the program computes, in a run of `nsyswrap verify` that is neither profiled nor timed.

It runs in the program's process and observes through what PyTorch and Python offer; nothing is replaced:

- a ``TorchDispatchMode`` sees each operator, in each thread that ``threading`` starts;
- hooks of all modules and optimizers show the batches, the outputs and the updates;
- an audit hook shows the files that are opened.

The record is a list of events: a batch that enters a model, a backward pass, an optimizer step, the end. Each has the
work since the event before it. ``nsyswrap.experiments.verify`` judges two records.

A compiled model is not compiled here: PyTorch does not compile under a dispatch mode. So its operators are counted.
"""

import atexit
import ctypes
import hashlib
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

# The folder of the records, and the relative rounding error that is put into the parameters at the start; 0 for none.
FOLDER_VARIABLE, ROUNDING_VARIABLE = "NSYSWRAP_WORK_FOLDER", "NSYSWRAP_WORK_ROUNDING"
SUFFIX = ".work.json"
SEED = 0
# What a hyperparameter of an optimizer says about how it computes, and not about what.
HOW = frozenset({"foreach", "fused", "capturable", "differentiable"})
# Operators that no fix computes in another way: their number of elements is work, as products are.
KINDS: Mapping[str, frozenset[str]] = {
    "sorting": frozenset({"sort", "topk", "argsort", "kthvalue", "msort", "unique_dim", "_unique2", "searchsorted"}),
    "random numbers": frozenset({
        *("native_dropout", "bernoulli_", "bernoulli", "rand", "randn", "randint", "randperm", "normal_", "uniform_"),
        *("random_", "multinomial", "rand_like", "randn_like", "exponential_", "bernoulli_.float"),
    }),
    "Fourier transforms": frozenset({"_fft_r2c", "_fft_c2r", "_fft_c2c"}),
    "scans": frozenset({"cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"}),
    "embeddings": frozenset({"embedding", "_embedding_bag"}),
    "decompositions": frozenset({
        *("linalg_svd", "_linalg_svd", "_linalg_eigh", "linalg_qr", "linalg_inv_ex", "linalg_cholesky_ex"),
        *("_linalg_solve_ex", "linalg_lu_factor_ex"),
    }),
}  # fmt: skip
_KIND_OF = {name: kind for kind, names in KINDS.items() for name in names}
# Operators without arithmetic, and those of PyTorch's own bookkeeping.
_VIEWS = frozenset({
    *("t", "view", "detach", "expand", "transpose", "permute", "slice", "select", "unsqueeze", "squeeze", "alias"),
    *("_unsafe_view", "as_strided", "split", "unbind", "empty", "empty_like", "new_empty", "new_empty_strided"),
    *("_local_scalar_dense", "lift_fresh", "_to_copy", "copy_", "clone", "is_same_size"),
})  # fmt: skip
# The files of Python, of the system and of libraries, which are opened once and are not data.
_CODE = (".py", ".pyc", ".pyi", ".so", ".pth", ".json.new", SUFFIX)
_MOST_FILES = 4000


def start(after_import: Callable[[str, Callable[[Any], object]], object]) -> None:
    """Record this process from the import of torch on.

    Args:
        after_import: Calls a function with a module after its import.
    """
    random.seed(SEED)
    record = WorkRecord(os.environ[FOLDER_VARIABLE], float(os.environ.get(ROUNDING_VARIABLE, "0")))
    sys.addaudithook(record.note_call)
    after_import("numpy", lambda numpy: numpy.random.seed(SEED))
    after_import("torch", record.watch)


class _OfThread(threading.local):
    """What is open on a thread: hooks of ours, modules, optimizer steps."""

    def __init__(self) -> None:
        self.is_ours = False
        self.depth = self.updates = 0


class WorkRecord:
    """The record of this process.

    Args:
        folder: Where it is written.
        rounding: Relative rounding error that is put into the parameters at the start; 0 for none.
    """

    def __init__(self, folder: str, rounding: float) -> None:
        self._folder, self._rounding = folder, rounding
        self._torch: Any = None
        self._formulas: dict[Any, Any] = {}
        self._own = _OfThread()
        self._tasks: set[int] = set()
        self._ended = False
        self._ours = (
            folder,
            *(os.path.realpath(each) for each in (sys.prefix, sys.base_prefix, os.path.dirname(__file__))),
        )
        self._forget(is_child=False)

    def _forget(self, *, is_child: bool) -> None:
        self._is_child, self._pid = is_child, os.getpid()
        self._is_training, self._loop_thread = False, threading.get_ident()
        self._events: list[dict[str, Any]] = []
        self._work: dict[str, float] = {}
        self._began = time.perf_counter_ns()
        self._optimizers: dict[int, int] = {}
        self._models: list[dict[str, Any]] = []
        self._first_norms: dict[int, list[float]] = {}
        self._norms: dict[int, list[float]] = {}
        self._shapes: dict[int, list[str]] = {}
        self._read: dict[str, int] = {}
        self._written: set[str] = set()
        self._longest = 1

    # -- the start and the end

    def watch(self, torch: Any) -> None:
        """Observe operators, modules and optimizers from now on."""
        from torch.utils._python_dispatch import TorchDispatchMode
        from torch.utils.flop_counter import flop_registry, sdpa_flop_count

        self._torch = torch
        self._formulas = {**flop_registry, **_more_formulas(torch, sdpa_flop_count)}
        record = self

        class Observed(TorchDispatchMode):  # type: ignore[misc]
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                result = func(*args, **(kwargs or {}))
                if not record._own.is_ours:
                    record._own.is_ours = True
                    try:
                        record._note_operator(func, args, kwargs or {}, result)
                    finally:
                        record._own.is_ours = False
                return result

        def begin(*_call: object) -> None:
            sys.setprofile(None)
            Observed().__enter__()

        modules, optimizers = torch.nn.modules.module, sys.modules["torch.optim.optimizer"]
        numbers = torch.utils.hooks.RemovableHandle
        number = numbers.next_id
        for hooks, register, hook in (
            ("_global_forward_pre_hooks", modules.register_module_forward_pre_hook, self._before_module),
            ("_global_optimizer_pre_hooks", optimizers.register_optimizer_step_pre_hook, self._before_step),
            ("_global_optimizer_post_hooks", optimizers.register_optimizer_step_post_hook, self._after_step),
        ):
            _without_number(sys.modules[register.__module__], hooks, register(hook), hook)
        handle = modules.register_module_forward_hook(self._after_module, always_call=True)
        _without_number(modules, "_global_forward_hooks", handle, self._after_module)
        _without_number(modules, "_global_forward_hooks_always_called", handle, hook=True)
        numbers.next_id = number
        torch.manual_seed(SEED)
        threading.setprofile(begin)
        Observed().__enter__()
        atexit.register(self.write)
        os.register_at_fork(after_in_child=lambda: self._forget(is_child=True))
        _at_end_of_children(self)

    def write(self) -> None:
        """Write the record of this process; once."""
        if self._ended or (self._pid != os.getpid() and not self._is_child):
            return
        self._ended = True
        self._own.is_ours = True
        self._add("end")
        torch = self._torch
        found = {
            "pid": os.getpid(),
            "is_child": self._is_child,
            "torch": str(torch.__version__),
            "events": self._events,
            "parameters": {
                key: {"shapes": shapes, "before": self._first_norms.get(key), "after": self._norms.get(key)}
                for key, shapes in self._shapes.items()
            },
            "longest_sum": self._longest,
            "precision": _precision(torch),
            "read": self._read,
            "written": {path: _size(path) for path in sorted(self._written) if os.path.exists(path)},
        }
        path = os.path.join(self._folder, f"{os.getpid()}{SUFFIX}")
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            json.dump(found, file)
        os.replace(f"{path}.new", path)

    def _add(self, kind: str, **fields: Any) -> None:
        """Add an event, with the work since the one before."""
        now = time.perf_counter_ns()
        work, self._work = self._work, {}
        self._events.append({"kind": kind, **fields, "work": work, "ns": now - self._began})

    def _count(self, name: str, amount: float) -> None:
        self._work[name] = self._work.get(name, 0) + amount

    # -- operators

    def _note_operator(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Count an operator, and note the start of a backward pass."""
        torch = self._torch
        task = torch._C._current_graph_task_id()
        if task >= 0 and task not in self._tasks:
            self._tasks.add(task)
            self._note_backward()
        packet = func.overloadpacket
        name = packet.__name__
        if func.namespace != "aten" or name in _VIEWS:
            return
        part = self._part(task)
        formula = self._formulas.get(packet)
        if formula is not None:
            self._count_product(packet, part, formula(*args, **kwargs, out_val=result), args)
            return
        elements = max((each.numel() for each in _tensors((result, args))), default=0)
        kind = _KIND_OF.get(name)
        self._count(f"{part}|{kind or 'other'}", elements)

    def _count_product(self, packet: Any, part: str, operations: int, args: Any) -> None:
        tensors = list(_tensors(args))
        if part == "forward" and self._is_loading():
            part = "loading"
        if "attention" in packet.__name__ and "backward" in packet.__name__:
            operations = operations * 4 // 5  # of its five products one repeats the forward pass
        dtype = str(
            min(
                (each.dtype for each in tensors if each.is_floating_point()),
                key=lambda one: one.itemsize,
                default=tensors[0].dtype,
            )
        ).removeprefix("torch.")
        self._count(f"{part}|products|{dtype}", operations)
        sizes = [max(each.shape, default=1) for each in tensors[-2:]]
        self._longest = max(self._longest, *sizes)

    def _part(self, task: int) -> str:
        """Return which part of the program an operator belongs to."""
        if task >= 0:
            return "recomputed" if self._torch.is_grad_enabled() else "backward"
        if self._own.updates:
            return "optimizer"
        where = "forward"
        if threading.get_ident() != self._loop_thread:
            return f"{where} in another thread"
        return where

    def _is_loading(self) -> bool:
        """Return whether a data loader called, or this is one of its processes."""
        return self._own.depth == 0 and any(
            frame.f_code.co_name in {"__next__", "_worker_loop"}
            and frame.f_code.co_filename.endswith(("dataloader.py", "worker.py"))
            for frame in _frames()
        )

    # -- backward passes

    def _note_backward(self) -> None:
        """Add the event of a backward pass: the value that it begins with."""
        found = [frame for frame in _frames() if frame.f_code.co_name == "_engine_run_backward"]
        if not found:
            mine = threading.get_ident()
            found = [
                each
                for number, frame in sys._current_frames().items()
                if number != mine
                for each in _frames(frame)
                if each.f_code.co_name == "_engine_run_backward"
            ]
        if len(found) > 1:
            return  # a backward pass inside of another one
        roots = [each for frame in found for each in _tensors(frame.f_locals.get("t_outputs", ()))]
        self._train_here()
        self._add(
            "backward",
            value=sum(map(self._number, roots)),
            elements=sum(each.numel() for each in roots),
            dtype=[str(each.dtype).removeprefix("torch.") for each in roots],
        )

    def _train_here(self) -> None:
        """Take the thread of the first backward pass or optimizer step for that of the loop."""
        if not self._is_training:
            self._is_training, self._loop_thread = True, threading.get_ident()

    def _number(self, tensor: Any) -> float:
        with self._torch.no_grad():
            return float(tensor.detach().double().sum())

    def _size_of(self, tensor: Any) -> float:
        with self._torch.no_grad():
            return float(tensor.detach().double().abs().sum())

    # -- modules

    def _before_module(self, module: Any, args: Any) -> None:
        own = self._own
        own.depth += 1
        if own.depth > 1 or own.is_ours or not any(True for _ in module.parameters()):
            return
        own.is_ours = True
        try:
            named = sys._getframe(1).f_locals.get("kwargs") or {}
            if self._rounding:
                self._round(module)
            tensors = [each for each in _tensors((args, list(named.values()))) if not each.requires_grad]
            self._add("model", grad=self._torch.is_grad_enabled(), training=module.training, **self._samples(tensors))
        finally:
            own.is_ours = False

    def _after_module(self, module: Any, args: Any, output: Any) -> None:  # noqa: ARG002 - what torch calls its hooks with
        own = self._own
        own.depth -= 1
        if own.depth or own.is_ours or not any(True for _ in module.parameters()):
            return
        own.is_ours = True
        try:
            floats = [each for each in _tensors(output) if each.is_floating_point()]
            elements = sum(each.numel() for each in floats)
            self._add(
                "output", value=sum(map(self._number, floats)), size=sum(map(self._size_of, floats)), elements=elements
            )
        finally:
            own.is_ours = False

    def _samples(self, tensors: list[Any]) -> dict[str, Any]:
        """Return what says which samples are in the tensors: a sum over the hashes of their rows, and their sizes."""
        total = elements = 0
        value = 0.0
        for tensor in tensors:
            plain = tensor.detach().to_dense() if tensor.is_sparse else tensor.detach()
            plain = plain.cpu().contiguous()
            total += _sum_of_hashes(plain)
            value += 0.0 if plain.is_complex() else self._number(plain)
            elements += plain.numel()
        rows = max((each.shape[0] for each in tensors if each.dim()), default=0)
        shapes = [[str(each.dtype).removeprefix("torch."), *each.shape[1:]] for each in tensors]
        return {"rows": rows, "hash": total % 2**64, "value": value, "elements": elements, "shapes": shapes}

    def _round(self, module: Any) -> None:
        """Put a rounding error into each parameter of a model, once."""
        torch, rounding, self._rounding = self._torch, self._rounding, 0.0
        made = torch.Generator().manual_seed(SEED)
        with torch.no_grad():
            for each in module.parameters():
                if each.is_floating_point():
                    signs = torch.randint(0, 2, each.shape, generator=made).mul_(2).sub_(1).to(each.device, each.dtype)
                    each.mul_(1 + rounding * signs)

    # -- optimizers

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:  # noqa: ARG002 - what torch calls its hooks with
        own = self._own
        own.updates += 1
        if own.updates > 1 or own.is_ours:
            return
        own.is_ours = True
        try:
            self._train_here()
            number = self._optimizers.setdefault(id(optimizer), len(self._optimizers))
            parameters = [each for group in optimizer.param_groups for each in group["params"]]
            if number not in self._shapes:
                self._shapes[number] = [_described(each) for each in parameters]
                self._first_norms[number] = self._norm(parameters)
            norms = [0.0 if each.grad is None else self._norm([each.grad])[0] for each in parameters]
            self._add(
                "gradients",
                optimizer=number,
                name=type(optimizer).__name__,
                settings=[_settings(group) for group in optimizer.param_groups],
                given="".join("01"[each != 0] for each in norms),
                norm=sum(each**2 for each in norms) ** 0.5,
            )
        finally:
            own.is_ours = False

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:  # noqa: ARG002
        own = self._own
        own.updates -= 1
        if own.updates or own.is_ours:
            return
        own.is_ours = True
        try:
            number = self._optimizers[id(optimizer)]
            norms = self._norms[number] = self._norm(
                [each for group in optimizer.param_groups for each in group["params"]]
            )
            self._add("update", optimizer=number, norm=sum(each**2 for each in norms) ** 0.5)
        finally:
            own.is_ours = False

    def _norm(self, tensors: list[Any]) -> list[float]:
        with self._torch.no_grad():
            return [
                float((each.coalesce().values() if each.is_sparse else each).detach().double().norm())
                for each in tensors
            ]

    # -- files

    def note_call(self, event: str, args: Any) -> None:
        """Note a file that is opened: an audit hook."""
        if event != "open" or self._ended or len(self._read) + len(self._written) > _MOST_FILES:
            return
        path, _mode, flags = args
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if not isinstance(path, str) or not isinstance(flags, int):
            return
        full = os.path.realpath(path)
        if full.startswith((*self._ours, "/proc/", "/sys/", "/dev/", "/usr/", "/etc/", "/lib")) or full.endswith(_CODE):
            return
        if "site-packages" in full or "__pycache__" in full:
            return
        if flags & (os.O_WRONLY | os.O_RDWR):
            self._written.add(full)
        else:
            size = _size(full)
            self._read[full] = self._read.get(full, 0) + 1
            self._count("files|read", size)


def _without_number(module: Any, hooks: str, handle: Any, hook: object) -> None:
    """Give a hook a number that no hook of the program has: the program's own have the numbers as without it."""
    found = getattr(module, hooks, {})
    if handle.id in found and found[handle.id] == hook:
        del found[handle.id]
        found[-1 - handle.id] = hook


def _at_end_of_children(record: WorkRecord) -> None:
    """Write the record of children of ``multiprocessing`` at their end: they run no functions of ``atexit``."""
    from multiprocessing import util

    util.register_after_fork(record, lambda one: util.Finalize(None, one.write, exitpriority=100))


def _more_formulas(torch: Any, attention: Callable[..., int]) -> dict[Any, Callable[..., int]]:
    """Return formulas of operators that PyTorch's own counter lacks."""
    aten = torch.ops.aten

    def forward(query: Any, key: Any, value: Any, *_rest: Any, **_named: Any) -> int:
        return attention(query.shape, key.shape, value.shape)

    def backward(_gradient: Any, query: Any, key: Any, value: Any, *_rest: Any, **_named: Any) -> int:
        return attention(query.shape, key.shape, value.shape) * 5 // 2

    def vector(matrix: Any, _vector: Any, *_rest: Any, **_named: Any) -> int:
        return 2 * int(matrix.numel())

    def added(_added: Any, matrix: Any, _vector: Any, *_rest: Any, **_named: Any) -> int:
        return 2 * int(matrix.numel())

    return {
        aten._scaled_dot_product_flash_attention_for_cpu: forward,
        aten._scaled_dot_product_flash_attention_for_cpu_backward: backward,
        aten.mv: vector,
        aten.dot: vector,
        aten.addmv: added,
    }


def _frames(frame: Any = None) -> Iterator[Any]:
    """Yield the frames of a thread, the innermost first; without one, those of this thread."""
    found = frame or sys._getframe(1)
    while found is not None:
        yield found
        found = found.f_back


def _tensors(value: Any) -> Iterator[Any]:
    """Yield the tensors in lists, tuples and dicts."""
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)
    elif isinstance(value, Mapping):
        yield from _tensors(list(value.values()))
    elif hasattr(value, "numel") and hasattr(value, "dtype") and hasattr(value, "requires_grad"):
        yield value


def _sum_of_hashes(tensor: Any) -> int:
    """Return the sum over the hashes of the rows of a tensor on the CPU, so that their order does not matter."""
    count = tensor.shape[0] if tensor.dim() else 1
    size = tensor.numel() * tensor.element_size()
    if not size:
        return 0
    data, step = ctypes.string_at(tensor.data_ptr(), size), size // count
    return sum(
        int.from_bytes(hashlib.blake2b(data[at : at + step], digest_size=8).digest(), "little")
        for at in range(0, size, step)
    )


def _settings(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hyperparameters of a group of parameters."""
    found = {}
    for name, value in group.items():
        if name == "params" or name in HOW:
            continue
        plain = float(value) if hasattr(value, "numel") and value.numel() == 1 else value
        found[name] = plain if isinstance(plain, (int, float, str, bool, type(None))) else repr(plain)[:80]
    return found


def _described(parameter: Any) -> str:
    return f"{str(parameter.dtype).removeprefix('torch.')}{list(parameter.shape)}"


def _precision(torch: Any) -> dict[str, str]:
    """Return the settings that let products round more than their types say."""
    return {"float32 products": str(torch.get_float32_matmul_precision())}


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
