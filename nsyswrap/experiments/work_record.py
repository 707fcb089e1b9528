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
import contextlib
import ctypes
import hashlib
import json
import os
import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

# The folder of the records, and how many units of rounding error each result gets at random; 0 for none.
FOLDER_VARIABLE, ROUNDOFF_VARIABLE = "NSYSWRAP_WORK_FOLDER", "NSYSWRAP_WORK_ROUNDOFF"
SUFFIX = ".work.json"
SEED = 0
# Unit roundoff of float32.
_FLOAT32 = 2.0**-24
# Hyperparameters of an optimizer that say how it computes, and not what; the first rate is for schedulers.
HOW = frozenset({"foreach", "fused", "capturable", "differentiable", "initial_lr"})
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
# Operators that add up many terms or are computed from such sums: their result depends on the order of the terms.
_SUMS = frozenset({"sum", "mean", "var", "var_mean", "std", "std_mean", "logsumexp", "prod", "cumsum"})
# Operators without arithmetic, and those of PyTorch's own bookkeeping.
_VIEWS = frozenset({
    *("t", "view", "detach", "expand", "transpose", "permute", "slice", "select", "unsqueeze", "squeeze", "alias"),
    *("_unsafe_view", "as_strided", "split", "unbind", "empty", "empty_like", "new_empty", "new_empty_strided"),
    *("_local_scalar_dense", "lift_fresh", "_to_copy", "copy_", "clone", "is_same_size"),
})  # fmt: skip
# The files of Python, of the system and of libraries, which are opened once and are not data.
_CODE = (".py", ".pyc", ".pyi", ".so", ".pth", ".json.new", SUFFIX)
# Numbers that are kept of the parameters for each step: distances are right within a fifth.
_SUMS_KEPT = 64


AfterImport = Callable[[str, Callable[[Any], object]], object]


def start(after_import: AfterImport) -> None:
    """Record this process from the import of torch on."""
    make_alike(after_import)
    recorded(after_import)


def make_alike(after_import: AfterImport) -> None:
    """Give random numbers a seed, so that two processes compute the same, and hide a warning about our hooks."""
    # Programs may take warnings for errors; our own hooks cause this one.
    warnings.filterwarnings("ignore", message="Using `torch.compile.module.` when there are global hooks")
    random.seed(SEED)
    after_import("numpy", lambda numpy: numpy.random.seed(SEED))
    after_import("torch", lambda torch: torch.manual_seed(SEED))


def recorded(after_import: AfterImport) -> "WorkRecord":
    """Return the record of this process, from the import of torch on."""
    record = WorkRecord(os.environ[FOLDER_VARIABLE], float(os.environ.get(ROUNDOFF_VARIABLE, "0")))
    sys.addaudithook(record.note_call)
    after_import("torch", record.watch)
    return record


class _OfThread(threading.local):
    """What is open on a thread: hooks of ours, modules, optimizer steps."""

    def __init__(self) -> None:
        self.is_ours = False
        self.depth = self.updates = self.optimizer = 0


class WorkRecord:
    """The record of this process.

    Args:
        folder: Where it is written.
        roundoff: Unit roundoff of the type in which float32 products may be computed: at random, each sum gets the
            error of its own type, and each factor that of a narrower one; 0 for none.
    """

    def __init__(self, folder: str, roundoff: float) -> None:
        self._folder, self._roundoff = folder, roundoff
        self._torch: Any = None
        self._formulas: dict[Any, Any] = {}
        self._composite: dict[Any, bool] = {}
        self._generators: dict[Any, Any] = {}
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
        self._optimizers: dict[int, int] = {}
        self._signs: dict[tuple[int, int], Any] = {}
        self._shapes: dict[int, list[str]] = {}
        self._problem = ""
        self._written: set[str] = set()

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
                named = kwargs or {}
                if record._own.is_ours:
                    return func(*args, **named)
                if record._is_composite(func):  # in inference mode, operators come here as a whole
                    with self:
                        return func.decompose(*args, **named)
                if func is torch.ops.aten.random_.default and record._is_seed_of_loader():
                    return record._without_draw(func, args, named)
                result = func(*record._cut(func, args), **named)
                record._observe(lambda: record._note_operator(func, args, named, result))
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
        threading.setprofile(begin)
        Observed().__enter__()
        atexit.register(self.write)
        os.register_at_fork(after_in_child=lambda: self._forget(is_child=True))
        # Children of multiprocessing run no functions of atexit.
        from multiprocessing import util

        util.register_after_fork(self, lambda one: util.Finalize(None, one.write, exitpriority=100))

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
            "problem": self._problem,
            "torch": str(torch.__version__),
            "events": self._events,
            "parameters": self._shapes,
            "precision": {"float32 products": str(torch.get_float32_matmul_precision())},
            "written": {path: _size(path) for path in sorted(self._written) if os.path.exists(path)},
        }
        path = os.path.join(self._folder, f"{os.getpid()}{SUFFIX}")
        with contextlib.suppress(OSError):  # a worker may end after the program, when the folder is gone
            with open(f"{path}.new", "w", encoding="utf-8") as file:
                json.dump(found, file)
            os.replace(f"{path}.new", path)

    def _observe(self, note: Callable[[], None]) -> None:
        """Call a function of ours whose operators do not count; its errors do not reach the program."""
        own, torch = self._own, self._torch
        if own.is_ours or self._problem or torch.jit.is_tracing():
            return
        if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
            self._problem = "a CUDA graph is captured, and what it repeats cannot be counted"
            return
        own.is_ours = True
        try:
            # Modes and tensors of the program's own do not see what we compute.
            with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
                note()
        except Exception as error:  # noqa: BLE001 - of any version of torch
            self._problem = f"{type(error).__name__}: {error}"
        finally:
            own.is_ours = False

    def _add(self, kind: str, **fields: Any) -> None:
        """Add an event, with the work since the one before."""
        work, self._work = self._work, {}
        self._events.append({"kind": kind, **fields, "work": work})

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
        elements = max((each.numel() for each in _tensors((result, args))), default=0)
        operations = 0 if formula is None else formula(*args, **kwargs, out_val=result)
        if self._roundoff and (formula is not None or name in _SUMS or "norm" in name or "softmax" in name):
            self._round(name, result if not name.endswith("_") else (), elements, operations)
        if formula is not None:
            self._count_product(packet, part, operations, args)
            return
        kind = _KIND_OF.get(name)
        self._count(f"{part}|{kind or 'other'}", elements)

    def _count_product(self, packet: Any, part: str, operations: int, args: Any) -> None:
        tensors = list(_tensors(args))
        if part.startswith("forward") and self._is_loading():
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

    def _is_composite(self, func: Any) -> bool:
        """Return whether an operator is made of others, which alone are counted."""
        known = self._composite.get(func)
        if known is None:
            is_counted = func.namespace != "aten" or func.overloadpacket in self._formulas
            has_kernel = self._torch._C._dispatch_has_kernel_for_dispatch_key
            known = self._composite[func] = not is_counted and has_kernel(func.name(), "CompositeImplicitAutograd")
        return bool(known)

    def _is_seed_of_loader(self) -> bool:
        """Return whether a data loader draws the seed of its workers, which it does not do if these persist."""
        files = (
            frame.f_code for frame in _frames() if frame.f_code.co_filename.endswith(("dataloader.py", "sampler.py"))
        )
        caller = next(files, None)
        return caller is not None and caller.co_name == "__init__"

    def _without_draw(self, func: Any, args: Any, named: Any) -> Any:
        """Draw a number without a change of the generator."""
        generator = named.get("generator") or self._torch.default_generator
        state = generator.get_state()
        result = func(*args, **named)
        generator.set_state(state)
        return result

    def _cut(self, func: Any, args: Any) -> Any:
        """Return the arguments of a product, those of float32 with a random error of a narrower type.

        Tensor cores round the factors alone, and add up in float32. They ignore the bits that do not fit, so the error
        reaches twice the unit roundoff.

        Source: PTX ISA, mma with .tf32.
        """
        torch = self._torch
        if self._roundoff <= _FLOAT32 or func.overloadpacket not in self._formulas or func._schema.is_mutable:
            return args
        found = list(args)

        def cut() -> None:
            for number, each in enumerate(args):
                for plain in self._plain_tensors(each if isinstance(each, torch.Tensor) else ()):
                    if plain.dtype is torch.float32:
                        found[number] = plain + self._error(plain, 2 * self._roundoff) * plain

        self._observe(cut)
        return found

    def _round(self, name: str, result: Any, largest: int, operations: int) -> None:
        """Put a random rounding error into the results of a sum, as large as another order of its terms can cause.

        Args:
            name: The operator.
            result: What it returned.
            largest: Number of elements of its largest tensor.
            operations: Operations of a product; 0 for other sums.

        Source:
            Monte Carlo arithmetic: Parker, 1997. The error grows with the root of the number of terms: Higham and
            Mary, A New Approach to Probabilistic Rounding Error Analysis, SIAM J. Sci. Comput. 41, 2019.
        """
        for each in self._plain_tensors(result):
            if each.is_floating_point() and each.numel() and each.layout is self._torch.strided:
                error = self._error_of_sum(each, (operations / 2 or largest) / each.numel())
                each.add_(error.to(each.dtype) * each)
        if "norm" in name and "backward" not in name:
            self._round_variance(list(self._plain_tensors(result)))

    def _round_variance(self, results: list[Any]) -> None:
        """Put a rounding error into the variance by which a norm divides.

        Args:
            results: The output of the norm, the means, and one over the standard deviations.

        Source:
            Algorithms differ by the square of the condition number, 1 + mean^2 / variance: Chan, Golub and LeVeque,
            Algorithms for Computing the Sample Variance, The American Statistician 37, 1983.
        """
        if len(results) < 3 or not results[1].numel() or results[1].shape != results[2].shape:  # noqa: PLR2004
            return
        output, mean, inverse = results[:3]
        error = self._error_of_sum(mean, output.numel() / mean.numel()) * (1 + (mean * inverse) ** 2)
        inverse.mul_(1 + error)
        if mean.dim() == 1:
            output.mul_(1 + error.view(-1, *[1] * (output.dim() - 2)))
        elif mean.dim() == output.dim():
            output.mul_(1 + error)
        else:
            output.view(*mean.shape, -1).mul_(1 + error[..., None])

    def _error_of_sum(self, tensor: Any, terms: float) -> Any:
        """Return a random relative error for each element of a tensor of sums of so many terms."""
        return self._error(tensor, float(self._torch.finfo(tensor.dtype).eps) / 2 * max(terms, 1.0) ** 0.5)

    def _error(self, tensor: Any, largest: float) -> Any:
        """Return a random relative error of at most this size for each element of a tensor."""
        torch = self._torch
        if tensor.device not in self._generators:
            self._generators[tensor.device] = torch.Generator(tensor.device).manual_seed(SEED)
        error = torch.empty(tensor.shape, dtype=torch.float32, device=tensor.device)
        return error.uniform_(-1, 1, generator=self._generators[tensor.device]).mul_(largest)

    def _part(self, task: int) -> str:
        """Return which part of the program an operator belongs to."""
        if task >= 0:
            return "recomputed" if self._torch.is_grad_enabled() else "backward"
        if self._own.updates and not self._own.depth:
            return "optimizer"
        return "forward" if threading.get_ident() == self._loop_thread else "forward in another thread"

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
        roots = [each for frame in found for each in self._plain_tensors(frame.f_locals.get("t_outputs", ()))]
        self._train_here()
        self._add("backward", value=sum(map(self._number, roots)))

    def _plain_tensors(self, value: Any) -> Iterator[Any]:
        """Yield the tensors among some values whose elements can be read, unlike those without data."""
        plain, wrapped = (
            self._torch._C._disabled_torch_dispatch_impl,
            self._torch._C._functorch.is_functorch_wrapped_tensor,
        )
        for each in _tensors(value):
            if each.device.type != "meta" and type(each).__torch_dispatch__ is plain and not wrapped(each):
                yield each

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

    def _is_model(self, module: Any) -> bool:
        """Return whether a module has parameters and is not called by a backward pass, which computes it again."""
        return self._torch._C._current_graph_task_id() < 0 and any(True for _ in module.parameters())

    def _before_module(self, module: Any, args: Any) -> None:
        self._own.depth += 1
        if self._own.depth == 1:
            named = sys._getframe(1).f_locals.get("kwargs") or {}
            self._observe(lambda: self._note_batch(module, (args, named)))

    def _after_module(self, module: Any, args: Any, output: Any) -> None:  # noqa: ARG002 - of torch's hooks
        self._own.depth -= 1
        if not self._own.depth:
            self._observe(lambda: self._note_output(module, output))

    def _note_batch(self, module: Any, given: Any) -> None:
        """Add the event of a batch that enters a model."""
        if self._is_model(module):
            tensors = [each for each in self._plain_tensors(given) if not each.requires_grad]
            self._add("model", **self._samples(tensors))

    def _note_output(self, module: Any, output: Any) -> None:
        """Add the event of the output of a model."""
        if self._is_model(module):
            floats = [each for each in self._plain_tensors(output) if each.is_floating_point()]
            value, size = (sum(map(number, floats)) for number in (self._number, self._size_of))
            self._add("output", value=value, size=size, elements=sum(each.numel() for each in floats))

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

    # -- optimizers

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._own.optimizer in (0, id(optimizer)):  # the same one again where an exception ended its step
            self._own.updates, self._own.optimizer = 0, id(optimizer)
        self._own.updates += 1
        if self._own.updates == 1 and not _has_closure(args, kwargs):
            self._observe(lambda: self._note_gradients(optimizer))

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._own.updates -= 1
        if not self._own.updates:
            self._own.optimizer = 0
            if _has_closure(args, kwargs):
                self._observe(lambda: self._note_gradients(optimizer))
            self._observe(lambda: self._note_update(optimizer))

    def _note_gradients(self, optimizer: Any) -> None:
        """Add the event of the gradients with which an optimizer steps."""
        self._train_here()
        number = self._optimizers.setdefault(id(optimizer), len(self._optimizers))
        parameters = [each for group in optimizer.param_groups for each in group["params"]]
        if number not in self._shapes:
            self._shapes[number] = [_described(each) for each in parameters]
        gradients = [_plain(each.grad) for each in parameters]
        self._add(
            "gradients",
            name=type(optimizer).__name__,
            settings=[_settings(group) for group in optimizer.param_groups],
            given="".join("01"[each is not None and bool(each.any())] for each in gradients),
            values=self._sketch(gradients),
        )

    def _note_update(self, optimizer: Any) -> None:
        """Add the event of the parameters after a step."""
        parameters = [_plain(each) for group in optimizer.param_groups for each in group["params"]]
        self._add("update", values=self._sketch(parameters))

    def _sketch(self, tensors: list[Any]) -> list[float]:
        """Return some sums of the elements of tensors with random signs.

        The distance of two such lists is about that of all elements.

        Source: count sketch, Charikar, Chen and Farach-Colton, 2002; its distances: Weinberger et al., 2009.
        """
        torch = self._torch
        sums = torch.zeros(_SUMS_KEPT, dtype=torch.float64)
        with torch.no_grad():
            for number, plain in enumerate(tensors):
                if plain is None or not plain.numel():
                    continue
                key = number, plain.numel()
                if key not in self._signs:
                    drawn = torch.Generator().manual_seed(number)
                    signs = torch.randint(0, 2, (plain.numel(),), generator=drawn, dtype=torch.int8)
                    self._signs[key] = signs.mul_(2).sub_(1).to(plain.device)
                values = plain.detach().reshape(-1).double() * self._signs[key]
                values = torch.nn.functional.pad(values, (0, -values.numel() % _SUMS_KEPT))
                sums += values.view(-1, _SUMS_KEPT).sum(0).cpu()
        found: list[float] = sums.tolist()
        return found

    # -- files

    def note_call(self, event: str, args: Any) -> None:
        """Note a file that is opened: an audit hook."""
        if event != "open" or self._ended:
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
            self._count("files|read", _size(full))


def _without_number(module: Any, hooks: str, handle: Any, hook: object) -> None:
    """Give a hook a number that no hook of the program has: the program's own have the numbers as without it."""
    found = getattr(module, hooks, {})
    if handle.id in found and found[handle.id] == hook:
        del found[handle.id]
        found[-1 - handle.id] = hook


def _more_formulas(torch: Any, attention: Callable[..., int]) -> dict[Any, Callable[..., int]]:
    """Return formulas of operators that PyTorch's own counter lacks."""
    aten = torch.ops.aten

    def attended(*tensors: Any) -> int:
        return attention(*(each.shape for each in tensors))

    def vector(matrix: Any, *_rest: Any, **_named: Any) -> int:
        return 2 * int(matrix.numel())

    return {
        aten._scaled_dot_product_flash_attention_for_cpu: lambda *given, **_named: attended(*given[:3]),
        # The gradient comes first.
        aten._scaled_dot_product_flash_attention_for_cpu_backward: lambda *given, **_: attended(*given[1:4]) * 5 // 2,
        aten.mv: vector,
        aten.dot: vector,
        aten.addmv: lambda _added, *given, **_named: vector(*given),
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


def _has_closure(args: Any, kwargs: Any) -> bool:
    """Return whether a step of an optimizer calls a function that makes the gradients; the first of args is itself."""
    return any(map(callable, (*args[1:], *kwargs.values())))


def _plain(tensor: Any) -> Any:
    """Return a tensor with all its elements; None for no tensor."""
    if tensor is None:
        return None
    found = tensor.to_dense() if tensor.layout is not sys.modules["torch"].strided else tensor
    return sys.modules["torch"].view_as_real(found) if found.is_complex() else found


def _settings(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hyperparameters of a group of parameters."""
    found = {}
    for name, value in group.items():
        if name == "params" or name in HOW:
            continue
        plain = float(value) if hasattr(value, "numel") and value.numel() == 1 else value
        plain = float(f"{plain:.6g}") if isinstance(plain, float) else plain  # a tensor has fewer digits
        found[name] = plain if isinstance(plain, (int, float, str, bool, type(None))) else repr(plain)[:80]
    return found


def _described(parameter: Any) -> str:
    return f"{str(parameter.dtype).removeprefix('torch.')}{list(parameter.shape)}"


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
