# ruff: noqa: ANN401 - torch is not imported state, and what a program passes on may be anything
"""Marks phases at the calls of torch that every training loop makes.

Each call is replaced by a wrapper that opens a range, makes the call, and closes the range, even after an exception.
During compilation the wrappers only make the call, so ``torch.compile`` sees neither ranges nor frames of ours.
"""

import functools
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from .compiler import (
    BEFORE_TRACING,
    TRACED,
    compile_check,
    exchange_for_tracer,
    frame_skipper,
    own_code,
    watch_tracing,
)
from .marker import OPTIMIZER, WORKER, Marker, warn

MARK = "_nsyswrap_annotated"

# Devices that a batch is moved to.
ACCELERATORS = ("cuda",)

Call = Callable[..., Any]


class Patches:
    """The replaced attributes, and their originals.

    Args:
        skip: Makes torch's compiler skip the frames of a code object.
    """

    def __init__(self, skip: "Callable[[CodeType], object]") -> None:
        self._skip = skip
        self._replaced: list[tuple[Any, str, Any, bool]] = []

    def replace(self, owner: Any, name: str, make: Callable[[Call], Call]) -> None:
        """Replace a function by the wrapper that ``make`` returns; print a warning if there is no such function."""
        try:
            original = getattr(owner, name)
            own = name in vars(owner)
            setattr(owner, name, self._wrapper(owner, name, make(original), original))
        except Exception as error:  # noqa: BLE001 - another version of torch; the other phases are still marked
            warn(f"{getattr(owner, '__name__', owner)}.{name} is not marked: {type(error).__name__}: {error}")
            return
        self._replaced.append((owner, name, original, own))

    def exchange(self, owner: Any, name: str, old: object, make: Callable[[Call], Call]) -> Call | None:
        """Put another wrapper in the place of our old one, and return it; None if that is not there any more."""
        for of, named, original, _ in self._replaced:
            # Not by our mark: a wrapper of another tool has a copy of it.
            if of is owner and named == name and vars(owner).get(name) is old:
                made = self._wrapper(owner, name, make(original), original)
                setattr(owner, name, made)
                return made
        return None

    def _wrapper(self, owner: Any, name: str, made: Any, original: Call) -> Call:
        """Return a wrapper with the names of the original, whose frames the compiler skips."""
        functools.update_wrapper(made, original)
        setattr(made, MARK, True)
        if isinstance(owner, type):  # so that it can be pickled by its name, like the original
            made.__module__, made.__qualname__ = owner.__module__, f"{owner.__qualname__}.{name}"
        if isinstance(made, FunctionType):
            self._skip(made.__code__)
        found: Call = made
        return found

    def undo(self) -> None:
        """Restore all originals."""
        while self._replaced:
            owner, name, original, own = self._replaced.pop()
            if own:
                setattr(owner, name, original)
            else:
                delattr(owner, name)


def patches_of(torch: Any) -> Patches:
    """Return an empty set of patches, whose wrappers torch's compiler skips."""
    return Patches(frame_skipper(torch))


def patch(torch: Any, marker: Marker) -> Patches:
    """Replace the calls of torch by wrappers that mark phases.

    Args:
        torch: The module, completely imported.
        marker: Opens and closes the ranges.

    Returns:
        The replaced functions.
    """
    watch_tracing()
    skip = frame_skipper(torch)
    for code in own_code():
        skip(code)
    patches = Patches(skip)
    module, tensor = torch.nn.Module, torch.Tensor
    _patch_modules(torch, marker, patches)
    for name in ("to", "cuda"):
        patches.replace(module, name, lambda call: _module_move(call, torch, marker))
    patches.replace(tensor, "to", lambda call: _tensor_copy(call, torch, marker))
    patches.replace(tensor, "cuda", lambda call: _tensor_copy(call, torch, marker, "cuda"))
    patches.replace(torch.autograd, "backward", lambda call: _backward(call, torch, marker))
    _patch_loader(torch, marker, patches)
    _patch_optimizers(torch, marker, patches)
    return patches


def _patch_modules(torch: Any, marker: Marker, patches: Patches) -> None:
    """Mark the calls of modules, in compiled code until torch's compiler traces code for the first time."""
    module, compiled = torch.nn.Module, getattr(marker, "module_call", None)
    if compiled is None or TRACED:
        patches.replace(module, "__call__", lambda call: _forward(call, torch, marker))
        return

    def make(call: Call) -> Call:
        made: Call = compiled(call, torch.is_grad_enabled, _only_selects_compiled(call))
        return made

    def be_traceable() -> None:
        new = patches.exchange(module, "__call__", old, lambda call: _forward(call, torch, marker))
        if new is not None:
            exchange_for_tracer(old, new)

    patches.replace(module, "__call__", make)
    old = module.__call__
    BEFORE_TRACING.append(be_traceable)


def _patch_loader(torch: Any, marker: Marker, patches: Patches) -> None:
    """Mark the wait for each batch, and in worker processes the work on each batch."""
    data = torch.utils.data
    patches.replace(data.DataLoader, "__iter__", lambda call: _data(call, torch, marker))
    patches.replace(data.dataloader._BaseDataLoaderIter, "__next__", lambda call: _data(call, torch, marker))  # noqa: SLF001
    patches.replace(data._utils.worker, "_worker_loop", lambda call: _worker_loop(call, torch, marker, patches))  # noqa: SLF001


def _worker_loop(call: Call, torch: Any, marker: Marker, patches: Patches) -> Call:
    """Wrap the main loop of a worker process, to mark the work on each batch."""
    fetch, compiling = torch.utils.data._utils.fetch, compile_check(torch)  # noqa: SLF001

    def worker_loop(*args: Any, **kwargs: Any) -> Any:
        for fetcher in ("_MapDatasetFetcher", "_IterableDatasetFetcher"):
            patches.replace(getattr(fetch, fetcher), "fetch", lambda call: _phase(call, compiling, marker, WORKER))
        return call(*args, **kwargs)

    return worker_loop


def _patch_optimizers(torch: Any, marker: Marker, patches: Patches) -> None:
    """Mark the steps of optimizers; each class is patched at its first use, because it may not exist yet."""
    compiling = compile_check(torch)

    def patch_class(call: Call) -> Call:
        def init(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            if not compiling():
                _mark_step(type(optimizer), compiling, marker, patches)
            call(optimizer, *args, **kwargs)

        return init

    optimizer = torch.optim.Optimizer
    patches.replace(optimizer, "__init__", patch_class)
    patches.replace(optimizer, "zero_grad", lambda call: _phase(call, compiling, marker, OPTIMIZER))
    scaler = torch.amp.GradScaler if hasattr(torch.amp, "GradScaler") else torch.cuda.amp.GradScaler
    patches.replace(scaler, "step", lambda call: _step(call, compiling, marker, place=1))
    patches.replace(scaler, "update", lambda call: _phase(call, compiling, marker, OPTIMIZER))


def _mark_step(kind: type, compiling: Callable[[], bool], marker: Marker, patches: Patches) -> None:
    """Mark the step of an optimizer class, in the base class that defines it."""
    for each in kind.__mro__:
        if "step" in vars(each):
            if not getattr(vars(each)["step"], MARK, False):
                patches.replace(each, "step", lambda call: _step(call, compiling, marker, place=0))
            return


def _forward(call: Call, torch: Any, marker: Marker) -> Call:
    traced, compiling, grad, inside = TRACED, compile_check(torch), torch.is_grad_enabled, marker.inside
    begin, end, direct = marker.begin_forward, marker.end, _only_selects_compiled(call)

    # Called for each module. Inside another module it takes one check, and skips a frame of torch.
    def forward(module: Any, *args: Any, **kwargs: Any) -> Any:
        if traced and compiling():
            return call(module, *args, **kwargs)
        if inside() and direct:
            compiled = module._compiled_call_impl  # noqa: SLF001 - like torch's own call
            return module._call_impl(*args, **kwargs) if compiled is None else compiled(*args, **kwargs)  # noqa: SLF001
        state = begin(module, grad=grad())
        if state is None:
            return call(module, *args, **kwargs)
        try:
            return call(module, *args, **kwargs)
        finally:
            end(state)

    return forward


def _only_selects_compiled(call: Call) -> bool:
    """Return whether a module's ``__call__`` only selects between its compiled and its normal implementation.

    This is so in torch 2.13. Doing the same in the wrapper costs less than the call. If another tool has replaced
    ``__call__``, or this version of torch has a different one, the wrapper calls it.
    """
    code = getattr(call, "__code__", None)
    return code is not None and code.co_names == ("_compiled_call_impl", "_call_impl")


def _module_move(call: Call, torch: Any, marker: Marker) -> Call:
    """Wrap a move of a module to a device, so that the copies of its tensors are not marked as copies of a batch."""
    traced, compiling, begin, end = TRACED, compile_check(torch), marker.begin_move, marker.end_move

    def move(module: Any, *args: Any, **kwargs: Any) -> Any:
        if (traced and compiling()) or (state := begin()) is None:
            return call(module, *args, **kwargs)
        try:
            return call(module, *args, **kwargs)
        finally:
            end(state)

    return move


def _tensor_copy(call: Call, torch: Any, marker: Marker, named: str = "") -> Call:
    """Wrap a copy of a tensor to a device, to mark it if the device (``named`` or an argument) is an accelerator."""
    traced, compiling, begin, end = TRACED, compile_check(torch), marker.begin_copy, marker.end
    no_device, known = (torch.dtype, type(None)), KnownDevices(torch.device)

    # Also called for each change of type: without a device it takes one check.
    def copy(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if (
            (traced and compiling())
            or type(target := named or (args[0] if args else kwargs.get("device"))) in no_device
            or not (known[target] if type(target) in known.kinds else _on_accelerator(target))
            or tensor.device.type != "cpu"
            or (state := begin()) is None
        ):
            return call(tensor, *args, **kwargs)
        try:
            return call(tensor, *args, **kwargs)
        finally:
            end(state)

    return copy


class KnownDevices(dict[Any, bool]):
    """Whether a device or a device name is an accelerator. Reading the type of a device takes ten times as long.

    Args:
        device: The class of devices.

    Attributes:
        kinds: The classes of keys.
    """

    def __init__(self, device: type) -> None:
        super().__init__()
        self.kinds = (device, str)

    def __missing__(self, target: Any) -> bool:
        """Return whether a device that is used for the first time is an accelerator."""
        self[target] = _on_accelerator(target)
        return self[target]


def _on_accelerator(target: Any) -> bool:
    """Return whether a device, a device name or number, or the device of a tensor is an accelerator."""
    if isinstance(target, str):
        return target.startswith(ACCELERATORS)
    if isinstance(target, int) and not isinstance(target, bool):
        return True
    kind = getattr(target, "type", None)
    if not isinstance(kind, str):
        kind = getattr(getattr(target, "device", None), "type", None)
    return kind in ACCELERATORS


def _backward(call: Call, torch: Any, marker: Marker) -> Call:
    traced, compiling, begin, end = TRACED, compile_check(torch), marker.begin_backward, marker.end

    def backward(*args: Any, **kwargs: Any) -> Any:
        if (traced and compiling()) or (state := begin()) is None:
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
    traced, begin, end = TRACED, marker.begin, marker.end

    def marked(*args: Any, **kwargs: Any) -> Any:
        if (traced and compiling()) or (state := begin(phase)) is None:
            return call(*args, **kwargs)
        try:
            return call(*args, **kwargs)
        finally:
            end(state)

    return marked


def _step(call: Call, compiling: Callable[[], bool], marker: Marker, place: int) -> Call:
    """Wrap a step of an optimizer, which is the positional argument at ``place``."""
    traced, begin, note_step, end = TRACED, marker.begin, marker.note_optimizer_step, marker.end

    def step(*args: Any, **kwargs: Any) -> Any:
        if (traced and compiling()) or (state := begin(OPTIMIZER)) is None:
            return call(*args, **kwargs)
        try:
            return call(*args, **kwargs)
        finally:
            note_step(state, args[place] if len(args) > place else kwargs.get("optimizer"))
            end(state)

    return step
