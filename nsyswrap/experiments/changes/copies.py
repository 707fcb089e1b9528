"""The experiment "non_blocking": copies of pinned batches to the GPU, for which the host does not wait."""

import functools
from typing import Any

from ..tried.experiment import NOTHING, Experiment, NotApplicableError, Undo
from ..tried.program import TriedProgram


def _values(program: TriedProgram) -> list[str]:
    if not program.uses_gpu:
        raise NotApplicableError("the program uses no GPU")
    if not any(each.pin_memory for each in program.loaders):
        raise NotApplicableError("no loader pins its batches")
    if not program.waits_for_copies:
        raise NotApplicableError("no copy of a pinned tensor waits")
    return [""]


def _switch(program: TriedProgram, _value: str) -> Undo:
    tensor = program.torch.Tensor
    before = {name: getattr(tensor, name) for name in ("to", "cuda")}
    for name, inner in before.items():
        setattr(tensor, name, unblocked(program, inner))

    def undo() -> None:
        for name, inner in before.items():
            setattr(tensor, name, inner)

    return undo


def unblocked(program: TriedProgram, inner: Any) -> Any:
    """Return a method that copies tensors to the GPU, without a wait where the tensor is pinned."""

    @functools.wraps(inner)
    def copied(tensor: Any, *arguments: Any, **named: Any) -> Any:
        if program.is_blocking_copy(tensor, arguments, named):
            named["non_blocking"] = True
        return inner(tensor, *arguments, **named)

    return copied


def prepare(program: TriedProgram, _value: str = "") -> None:
    """Make the change for the whole process."""
    _switch(program, "")


EXPERIMENTS = (
    Experiment(
        key="non_blocking",
        place=40,
        name="copies without a wait",
        alters=NOTHING,
        values=_values,
        switch=_switch,
        lines={"PyTorch": "batch = batch.to(device, non_blocking=True)"},
    ),
)
