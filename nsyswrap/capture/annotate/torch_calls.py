# ruff: noqa: ANN401 - torch is not imported here, and what a program passes on may be anything
"""Where the phases of a PyTorch program begin and end: the calls of torch that every training loop makes.

Each call is replaced by one that opens a range, makes the call, and closes the range, whatever the call does. While
torch compiles a program, the calls are the original ones: ``torch.compile`` sees neither ranges nor frames of ours.
"""

import functools
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from .compiler import compile_check, frame_skipper, own_code
from .marker import BACKWARD, COPY, OPTIMIZER, WORKER, Marker, warn

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
    patches.replace(tensor, "to", lambda call: _copied(call, torch, marker, _target_of_to))
    patches.replace(tensor, "cuda", lambda call: _copied(call, torch, marker, _target_of_cuda))
    patches.replace(torch.autograd, "backward", lambda call: _backward(call, torch, marker))
    _patch_loader(torch, marker, patches)
    _patch_optimizers(torch, marker, patches)
    return patches


def _patch_loader(torch: Any, marker: Marker, patches: Patches) -> None:
    """Mark the wait for each batch, and in loader processes the work on it."""
    data = torch.utils.data
    patches.replace(data.DataLoader, "__iter__", lambda call: _data(call, torch, marker))
    patches.replace(data.dataloader._BaseDataLoaderIter, "__next__", lambda call: _data(call, torch, marker))  # noqa: SLF001
    for fetcher in ("_MapDatasetFetcher", "_IterableDatasetFetcher"):
        patches.replace(getattr(data._utils.fetch, fetcher), "fetch", lambda call: _fetched(call, torch, marker))  # noqa: SLF001


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
    compiling, grad, here = compile_check(torch), torch.is_grad_enabled, marker.here

    # Called for each module: what is not the outermost one goes on after one look.
    def forward(module: Any, *args: Any, **kwargs: Any) -> Any:
        if compiling() or here.inside or not marker.begin_forward(module, grad=grad()):
            return call(module, *args, **kwargs)
        try:
            return call(module, *args, **kwargs)
        finally:
            marker.end()

    return forward


def _moving(call: Call, torch: Any, marker: Marker) -> Call:
    """Say that a whole module moves: its tensors are no batch."""
    compiling, here = compile_check(torch), marker.here

    def moved(module: Any, *args: Any, **kwargs: Any) -> Any:
        if compiling() or here.moving:
            return call(module, *args, **kwargs)
        here.moving = True
        try:
            return call(module, *args, **kwargs)
        finally:
            here.moving = False

    return moved


def _copied(call: Call, torch: Any, marker: Marker, target: Callable[..., Any]) -> Call:
    compiling, here, no_device = compile_check(torch), marker.here, (torch.dtype, type(None))

    # Called for each change of type, too: one that names no device goes on after one look.
    def copied(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if (
            compiling()
            or type(named := target(args, kwargs)) in no_device
            or here.moving
            or not _on_accelerator(named)
            or tensor.device.type != "cpu"
            or not marker.begin(COPY)
        ):
            return call(tensor, *args, **kwargs)
        try:
            return call(tensor, *args, **kwargs)
        finally:
            marker.end()

    return copied


def _target_of_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the device that ``tensor.to(...)`` names, or the tensor whose device it is."""
    return args[0] if args else kwargs.get("device")


def _target_of_cuda(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ARG001 - as _target_of_to
    return "cuda"


def _on_accelerator(target: Any) -> bool:
    """Return whether a device, its name or number, or a tensor on it, is an accelerator."""
    if isinstance(target, str):
        return target.startswith(ACCELERATORS)
    if isinstance(target, int) and not isinstance(target, bool):
        return True
    device = getattr(target, "device", target)
    return getattr(device, "type", None) in ACCELERATORS


def _backward(call: Call, torch: Any, marker: Marker) -> Call:
    compiling = compile_check(torch)

    def backward(*args: Any, **kwargs: Any) -> Any:
        if compiling() or BACKWARD in marker.here.open or not marker.begin_backward():
            return call(*args, **kwargs)
        try:
            return call(*args, **kwargs)
        finally:
            marker.end()

    return backward


def _data(call: Call, torch: Any, marker: Marker) -> Call:
    grad = torch.is_grad_enabled

    def read(loader: Any) -> Any:
        if not marker.begin_data(grad=grad()):
            return call(loader)
        try:
            return call(loader)
        finally:
            marker.end()

    return read


def _fetched(call: Call, torch: Any, marker: Marker) -> Call:
    in_worker = torch.utils.data.get_worker_info

    def fetched(*args: Any, **kwargs: Any) -> Any:
        if in_worker() is None or not marker.begin(WORKER):
            return call(*args, **kwargs)
        try:
            return call(*args, **kwargs)
        finally:
            marker.end()

    return fetched


def _phase(call: Call, compiling: Callable[[], bool], marker: Marker, phase: str) -> Call:
    def marked(*args: Any, **kwargs: Any) -> Any:
        if compiling() or not marker.begin(phase):
            return call(*args, **kwargs)
        try:
            return call(*args, **kwargs)
        finally:
            marker.end()

    return marked


def _step(call: Call, compiling: Callable[[], bool], marker: Marker, place: int) -> Call:
    """Mark a step of an optimizer, which is the argument at a place."""

    def step(*args: Any, **kwargs: Any) -> Any:
        if compiling() or not marker.begin(OPTIMIZER):
            return call(*args, **kwargs)
        try:
            return call(*args, **kwargs)
        finally:
            marker.stepped(args[place] if len(args) > place else kwargs.get("optimizer"))
            marker.end()

    return step
