"""The objects of a program: optimizers, models and loaders, found in its first steps."""

import functools
import gc
import os
import sys
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

# So many losses are kept, of the first steps.
MOST_LOSSES = 64


def _wrapped(owner: Any, name: str, note: Callable[..., object]) -> Callable[[], None]:
    """Call a function with the arguments of each call of another one, before it; return what undoes that."""
    inner = getattr(owner, name)

    @functools.wraps(inner)
    def noted(*arguments: Any, **named: Any) -> Any:
        note(*arguments, **named)
        return inner(*arguments, **named)

    setattr(owner, name, noted)
    return lambda: setattr(owner, name, inner)


def with_forward(models: Sequence[Any], change: Callable[[Any], Any]) -> Callable[[], None]:
    """Change what models compute when they are called; return what undoes it.

    ``change`` returns the new ``forward`` for the present one.
    """
    before = [(each, vars(each).get("forward")) for each in models]
    for each in models:
        each.forward = change(each.forward)

    def undo() -> None:
        for each, own in before:
            if own is None:
                del each.forward
            else:
                each.forward = own

    return undo


class Alive(Sequence[Any]):
    """Objects of a program that it still uses, each once."""

    def __init__(self) -> None:
        self._known: list[weakref.ref[Any]] = []

    def add(self, found: Any) -> None:
        """Add an object that the program uses."""
        if not any(each is found for each in self):
            self._known.append(weakref.ref(found))

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self[:])

    def __getitem__(self, at: Any) -> Any:
        """Return one of them, or some."""
        return [each for each in (known() for known in self._known) if each is not None][at]


class TriedProgram:
    """What is known of a program, and what it does in its steps.

    Attributes:
        torch: The module.
        optimizers: Those that have stepped, the first one first.
        models: The modules with parameters that the loop itself calls.
        loaders: The loaders that the loop has iterated over.
        losses: Losses of the first steps, as tensors.
        keeps_gradients: Whether a call has set gradients to zero instead of None.
        calls_attention: Whether a step calls scaled_dot_product_attention.
        launches_graphs: Whether a step launches a CUDA graph, whose kernels no setting changes any more.
        waits_for_copies: Whether a step waits for a copy of a pinned tensor to the GPU.
        allocates_in_steps: Whether steps allocate memory from the driver.
        collects: Whether a step collects garbage.
        loading_ns: Time that the loop has waited for its loaders.
        is_new_epoch: Whether a loader has begun since this was set to False.
        kept: What experiments keep between two turns.
    """

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.optimizers, self.models, self.loaders = Alive(), Alive(), Alive()
        self.losses: list[Any] = []
        self.keeps_gradients = self.is_new_epoch = self.calls_attention = self.launches_graphs = False
        self.waits_for_copies = self.allocates_in_steps = self.collects = False
        self.loading_ns = 0
        self._inputs: dict[int, Any] = {}
        self._allocations = 0
        self.kept: dict[Any, Any] = {}
        self._depth = 0
        self._undo: list[Callable[[], object]] = []

    @property
    def uses_gpu(self) -> bool:
        """Return whether the program uses a GPU."""
        return bool(self.torch.cuda.is_available() and self.torch.cuda.is_initialized())

    @property
    def cores(self) -> int:
        """Return the number of cores that this process may use."""
        return len(os.sched_getaffinity(0))

    @property
    def ranks(self) -> int:
        """Return the number of processes that train together."""
        distributed = self.torch.distributed
        return int(distributed.get_world_size()) if distributed.is_available() and distributed.is_initialized() else 1

    def agreed(self, value: float) -> float:
        """Return the largest value of all ranks; each must call this after the same step."""
        if self.ranks == 1:
            return value
        device = "cuda" if self.torch.distributed.get_backend() == "nccl" else "cpu"
        shared = self.torch.tensor(value, dtype=self.torch.float64, device=device)
        self.torch.distributed.all_reduce(shared, op=self.torch.distributed.ReduceOp.MAX)
        return float(shared)

    @property
    def is_compiled(self) -> bool:
        """Return whether the program has compiled one of its models."""
        kinds = ((type(each).__name__, getattr(each, "_compiled_call_impl", None)) for each in self.models)
        return any(name == "OptimizedModule" or compiled is not None for name, compiled in kinds)

    def modules(self) -> list[Any]:
        """Return all modules of the models."""
        return [each for model in self.models for each in model.modules()]

    def observe(self) -> None:
        """Watch the program until ``leave``: what it calls is noted, and nothing is changed."""
        torch, modules = self.torch, self.torch.nn.modules.module
        hooks = (
            modules.register_module_forward_pre_hook(self._enter),
            modules.register_module_forward_hook(self._exit, always_call=True),
        )
        self._undo += [each.remove for each in hooks]
        gc.callbacks.append(self._collected)
        self._undo.append(lambda: gc.callbacks.remove(self._collected))
        self._undo += [
            _wrapped(torch.optim.Optimizer, "zero_grad", self._zeroed),
            _wrapped(torch.nn.Module, "zero_grad", self._zeroed),
            _wrapped(torch.nn.functional, "scaled_dot_product_attention", self._attended),
            _wrapped(torch.cuda.CUDAGraph, "replay", self._launched_graph),
            _wrapped(torch.Tensor, "to", self._copied),
            _wrapped(torch.Tensor, "cuda", self._copied),
        ]

    def watch_for_good(self) -> None:
        """Note optimizers that step, loaders that begin, and the losses of the first steps."""
        sys.modules["torch.optim.optimizer"].register_optimizer_step_post_hook(self._stepped)
        _wrapped(self.torch.utils.data.DataLoader, "__iter__", self._began)
        _wrapped(self.torch.autograd, "backward", self._differentiated)
        iterator = self.torch.utils.data.dataloader._BaseDataLoaderIter  # noqa: SLF001
        load = iterator.__next__

        def timed(batches: Any) -> Any:
            began = time.perf_counter_ns()
            try:
                return load(batches)
            finally:
                self.loading_ns += time.perf_counter_ns() - began

        iterator.__next__ = timed

    def note_memory(self) -> None:
        """Note how often memory was allocated from the driver so far; once more after some steps."""
        if self.uses_gpu:
            now = int(self.torch.cuda.memory_stats().get("segment.all.allocated", 0))
            self.allocates_in_steps = 0 < self._allocations < now
            self._allocations = now

    def inputs_of(self, model: Any) -> "tuple[Any, ...] | None":
        """Return inputs of a model; None where their shapes differ, or where it has none by position."""
        return self._inputs.get(id(model)) or None

    def is_blocking_copy(self, tensor: Any, arguments: Sequence[Any], named: dict[str, Any]) -> bool:
        """Return whether ``Tensor.to`` or ``Tensor.cuda`` waits for the copy of a pinned tensor to the GPU."""
        if tensor.device.type != "cpu" or named.get("non_blocking") or any(each is True for each in arguments):
            return False
        given = [*arguments, *named.values()]
        if given and not any(self._is_gpu(each) for each in given):
            return False
        return bool(tensor.is_pinned())

    def _is_gpu(self, value: Any) -> bool:
        if isinstance(value, self.torch.Tensor | self.torch.device):
            return bool(getattr(value, "type", "") == "cuda" or getattr(value, "is_cuda", False))
        return type(value) is int or (isinstance(value, str) and value.startswith("cuda"))

    def leave(self) -> None:
        """End what ``observe`` began."""
        while self._undo:
            self._undo.pop()()

    def _collected(self, _phase: str, _info: Any) -> None:
        self.collects = True

    def _attended(self, *_arguments: Any, **_named: Any) -> None:
        self.calls_attention = True

    def _launched_graph(self, *_arguments: Any) -> None:
        self.launches_graphs = True

    def _copied(self, tensor: Any, *arguments: Any, **named: Any) -> None:
        if self.uses_gpu and not self.waits_for_copies:
            self.waits_for_copies = self.is_blocking_copy(tensor, arguments, named)

    def _enter(self, module: Any, inputs: Any) -> None:
        if not self._depth:
            if any(True for _ in module.parameters()):
                self.models.add(module)
            before = self._inputs.get(id(module), inputs)
            with self.torch._C.DisableTorchFunction():  # noqa: SLF001 - modes of the program do not see this
                shapes = [[getattr(each, "shape", None) for each in one] for one in (before, inputs)]
            self._inputs[id(module)] = inputs if shapes[0] == shapes[1] else ()
        self._depth += 1

    def _exit(self, _module: Any, _arguments: Any, _output: Any) -> None:
        self._depth -= 1

    def _stepped(self, optimizer: Any, _arguments: Any, _named: Any) -> None:
        self.optimizers.add(optimizer)

    def _zeroed(self, _owner: Any, set_to_none: bool = True) -> None:  # noqa: FBT001, FBT002 - torch's signature
        self.keeps_gradients |= not set_to_none

    def _began(self, loader: Any) -> None:
        self.is_new_epoch = True
        self.loaders.add(loader)

    def _differentiated(self, tensors: Any, *_rest: Any, **_named: Any) -> None:
        """Keep the value of a loss; it is copied unseen by the program's modes, since the program may change it."""
        torch = self.torch
        if len(self.losses) == MOST_LOSSES or not isinstance(tensors, torch.Tensor):
            return
        with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():  # noqa: SLF001
            if tensors.numel() == 1:
                self.losses.append(tensors.detach().clone())
