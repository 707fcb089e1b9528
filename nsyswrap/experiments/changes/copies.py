"""The experiment "non_blocking": copies of pinned batches to the GPU, for which the host does not wait."""

import functools
from typing import Any

from ..tried.experiment import NOTHING, Experiment, Undo, require, set_all
from ..tried.program import TriedProgram


def _values(program: TriedProgram) -> list[str]:
    require(program.uses_gpu, "the program uses no GPU")
    require(any(each.pin_memory for each in program.loaders), "no loader pins its batches")
    require(program.waits_for_copies, "no copy of a pinned tensor waits")
    return [""]


def switch(program: TriedProgram, _value: str) -> Undo:
    """Let copies of pinned tensors not wait."""
    tensor = program.torch.Tensor
    return set_all(*((tensor, name, unblocked(program, getattr(tensor, name))) for name in ("to", "cuda")))


def unblocked(program: TriedProgram, inner: Any) -> Any:
    """Return a method that copies tensors to the GPU, without a wait where the tensor is pinned."""

    @functools.wraps(inner)
    def copied(tensor: Any, *arguments: Any, **named: Any) -> Any:
        if program.is_blocking_copy(tensor, arguments, named):
            named["non_blocking"] = True
        return inner(tensor, *arguments, **named)

    return copied


EXPERIMENTS = (
    Experiment(
        key="non_blocking",
        place=40,
        name="copies without a wait",
        alters=NOTHING,
        values=_values,
        switch=switch,
        lines={"PyTorch": "batch = batch.to(device, non_blocking=True)"},
    ),
)
