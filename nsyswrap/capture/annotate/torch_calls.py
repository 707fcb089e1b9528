# ruff: noqa: ANN401 - torch is not imported state, and what a program passes on may be anything
"""Where the phases of a PyTorch program begin and end: the calls of torch that every training loop makes.

Each call is replaced by one that opens a range, makes the call, and closes the range, whatever the call does. While
torch compiles a program, the calls are the original ones: ``torch.compile`` sees neither ranges nor frames of ours.
"""

import functools
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from .compiler import compile_check, frame_skipper, own_code
from .marker import COPY, OPTIMIZER, WORKER, Marker, warn

MARK = "_nsyswrap_annotated"

# Devices that a batch is moved to.
ACCELERATORS = ("cuda",)

Call = Callable[..., Any]


class Patches:
    """Attributes that were replaced, and what they were.

    Args:
        skip: Tells torch's compiler to let frames of a piece of code alone.
    """

    def __init__(self, skip: "Callable[[CodeType], object]") -> None:
        self._skip = skip
        self._replaced: list[tuple[Any, str, Any, bool]] = []

    def replace(self, owner: Any, name: str, make: Callable[[Call], Call]) -> None:
        """Replace a call by what is made of it; where there is no such call, say so and leave it."""
        try:
            original = getattr(owner, name)
            own = name in vars(owner)
            made = functools.update_wrapper(make(original), original)
            setattr(made, MARK, True)
            if isinstance(owner, type):  # so that it can be pickled by its name, as the original can
                made.__module__, made.__qualname__ = owner.__module__, f"{owner.__qualname__}.{name}"
            if isinstance(made, FunctionType):
                self._skip(made.__code__)
            setattr(owner, name, made)
        except Exception as error:  # noqa: BLE001 - another torch; the other phases are still marked
            warn(f"{getattr(owner, '__name__', owner)}.{name} is not marked: {type(error).__name__}: {error}")
            return
        self._replaced.append((owner, name, original, own))

    def undo(self) -> None:
        """Put everything back."""
        while self._replaced:
            owner, name, original, own = self._replaced.pop()
            if own:
                setattr(owner, name, original)
            else:
                delattr(owner, name)


def patch(torch: Any, marker: Marker) -> Patches:
    """Have the calls of torch mark their phases.

    Args:
        torch: The module, imported to its end.
        marker: What opens and closes the ranges.

    Returns:
        What was replaced.
    """
    skip = frame_skipper(torch)
    for code in own_code():
        skip(code)
    patches = Patches(skip)
    module, tensor = torch.nn.Module, torch.Tensor
    patches.replace(module, "__call__", lambda call: _forward(call, torch, marker))
    for name in ("to", "cuda"):
        patches.replace(module, name, lambda call: _moving(call, torch, marker))
    patches.replace(tensor, "to", lambda call: _copied(call, torch, marker))
    patches.replace(tensor, "cuda", lambda call: _copied(call, torch, marker, "cuda"))
    patches.replace(torch.autograd, "backward", lambda call: _backward(call, torch, marker))
    _patch_loader(torch, marker, patches)
    _patch_optimizers(torch, marker, patches)
    return patches


def _patch_loader(torch: Any, marker: Marker, patches: Patches) -> None:
    """Mark the wait for each batch, and in loader processes the work on it."""
    data = torch.utils.data
    patches.replace(data.DataLoader, "__iter__", lambda call: _data(call, torch, marker))
    patches.replace(data.dataloader._BaseDataLoaderIter, "__next__", lambda call: _data(call, torch, marker))  # noqa: SLF001
    patches.replace(data._utils.worker, "_worker_loop", lambda call: _working(call, torch, marker, patches))  # noqa: SLF001


def _working(call: Call, torch: Any, marker: Marker, patches: Patches) -> Call:
    """Mark the work on each batch, in a process that does nothing else."""
    fetch, compiling = torch.utils.data._utils.fetch, compile_check(torch)  # noqa: SLF001

    def working(*args: Any, **kwargs: Any) -> Any:
        for fetcher in ("_MapDatasetFetcher", "_IterableDatasetFetcher"):
            patches.replace(getattr(fetch, fetcher), "fetch", lambda call: _phase(call, compiling, marker, WORKER))
        return call(*args, **kwargs)

    return working


def _patch_optimizers(torch: Any, marker: Marker, patches: Patches) -> None:
    """Mark the steps of optimizers, whose classes are not all known yet: each is marked when it is first used."""
    compiling = compile_check(torch)

    def marked_class(call: Call) -> Call:
        def init(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            if not compiling():
                _mark_step(type(optimizer), compiling, marker, patches)
            call(optimizer, *args, **kwargs)

        return init

    optimizer = torch.optim.Optimizer
    patches.replace(optimizer, "__init__", marked_class)
    patches.replace(optimizer, "zero_grad", lambda call: _phase(call, compiling, marker, OPTIMIZER))
    scaler = torch.amp.GradScaler if hasattr(torch.amp, "GradScaler") else torch.cuda.amp.GradScaler
    patches.replace(scaler, "step", lambda call: _step(call, compiling, marker, place=1))
    patches.replace(scaler, "update", lambda call: _phase(call, compiling, marker, OPTIMIZER))


def _mark_step(kind: type, compiling: Callable[[], bool], marker: Marker, patches: Patches) -> None:
    """Mark the step of a class of optimizers, in the class that defines it."""
    for each in kind.__mro__:
        if "step" in vars(each):
            if not getattr(vars(each)["step"], MARK, False):
                patches.replace(each, "step", lambda call: _step(call, compiling, marker, place=0))
            return


def _forward(call: Call, torch: Any, marker: Marker) -> Call:
    compiling, grad, threads = compile_check(torch), torch.is_grad_enabled, marker.threads
    begin, end, direct = marker.begin_forward, marker.end, _only_looks_for_compiled(call)

    # Called for each module: what is not the outermost one goes on after one look, and without a frame of torch's.
    def forward(module: Any, *args: Any, **kwargs: Any) -> Any:
        if compiling():
            return call(module, *args, **kwargs)
        if threads.state.inside and direct:
            compiled = module._compiled_call_impl  # noqa: SLF001 - as torch's own call does
            return module._call_impl(*args, **kwargs) if compiled is None else compiled(*args, **kwargs)  # noqa: SLF001
        state = begin(module, grad=grad())
        if state is None:
            return call(module, *args, **kwargs)
        try:
            return call(module, *args, **kwargs)
        finally:
            end(state)

    return forward


def _only_looks_for_compiled(call: Call) -> bool:
    """Return whether the call of a module only chooses between the compiled and the other way to do it.

    So it does in torch 2.13, and to do the same in its place costs less than to call it. Where another tool has
    replaced the call, or another torch has another one, it is called.
    """
    code = getattr(call, "__code__", None)
    return code is not None and code.co_names == ("_compiled_call_impl", "_call_impl")


def _moving(call: Call, torch: Any, marker: Marker) -> Call:
    """Say that a whole module moves: its tensors are no batch."""
    compiling, threads = compile_check(torch), marker.threads

    def moved(module: Any, *args: Any, **kwargs: Any) -> Any:
        if compiling() or threads.state.moving:
            return call(module, *args, **kwargs)
        state = threads.state
        state.moving = True
        try:
            return call(module, *args, **kwargs)
        finally:
            state.moving = False

    return moved


def _copied(call: Call, torch: Any, marker: Marker, named: str = "") -> Call:
    """Mark a copy to an accelerator: to the one that the call is named for, or to what its arguments name."""
    compiling, threads, no_device = compile_check(torch), marker.threads, (torch.dtype, type(None))

    # Called for each change of type, too: one that names no device goes on after one look.
    def copied(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if (
            compiling()
            or type(target := named or (args[0] if args else kwargs.get("device"))) in no_device
            or not _on_accelerator(target)
            or threads.state.moving
            or tensor.device.type != "cpu"
            or (state := marker.begin(COPY)) is None
        ):
            return call(tensor, *args, **kwargs)
        try:
            return call(tensor, *args, **kwargs)
        finally:
            marker.end(state)

    return copied


def _on_accelerator(target: Any) -> bool:
    """Return whether a device, its name or number, or a tensor on it, is an accelerator."""
    if isinstance(target, str):
        return target.startswith(ACCELERATORS)
    if isinstance(target, int) and not isinstance(target, bool):
        return True
    kind = getattr(target, "type", None)
    if not isinstance(kind, str):
        kind = getattr(getattr(target, "device", None), "type", None)
    return kind in ACCELERATORS


def _backward(call: Call, torch: Any, marker: Marker) -> Call:
    compiling, begin, end = compile_check(torch), marker.begin_backward, marker.end

    def backward(*args: Any, **kwargs: Any) -> Any:
        if compiling() or (state := begin()) is None:
            return call(*args, **kwargs)
        try:
            return call(*args, **kwargs)
        finally:
            end(state)

    return backward


def _data(call: Call, torch: Any, marker: Marker) -> Call:
    grad, begin, end = torch.is_grad_enabled, marker.begin_data, marker.end

    def read(loader: Any) -> Any:
        state = begin(grad=grad())
        if state is None:
            return call(loader)
        try:
            return call(loader)
        finally:
            end(state)

    return read


def _phase(call: Call, compiling: Callable[[], bool], marker: Marker, phase: str) -> Call:
    begin, end = marker.begin, marker.end

    def marked(*args: Any, **kwargs: Any) -> Any:
        if compiling() or (state := begin(phase)) is None:
            return call(*args, **kwargs)
        try:
            return call(*args, **kwargs)
        finally:
            end(state)

    return marked


def _step(call: Call, compiling: Callable[[], bool], marker: Marker, place: int) -> Call:
    """Mark a step of an optimizer, which is the argument at a place."""
    begin, stepped, end = marker.begin, marker.stepped, marker.end

    def step(*args: Any, **kwargs: Any) -> Any:
        if compiling() or (state := begin(OPTIMIZER)) is None:
            return call(*args, **kwargs)
        try:
            return call(*args, **kwargs)
        finally:
            stepped(state, args[place] if len(args) > place else kwargs.get("optimizer"))
            end(state)

    return step
