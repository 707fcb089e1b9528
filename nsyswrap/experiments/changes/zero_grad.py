"""The experiment "zero_grad": gradients are set to None, not filled with zeros."""

from typing import Any

from ..tried.experiment import NOTHING, Experiment, Undo, require, set_all
from ..tried.program import TriedProgram


def _values(program: TriedProgram) -> list[str]:
    require(program.keeps_gradients, "no call of zero_grad keeps the gradients")
    return [""]


def _switch(program: TriedProgram, _value: str) -> Undo:
    owners = (program.torch.optim.Optimizer, program.torch.nn.Module)
    return set_all(*((owner, "zero_grad", _to_none(owner.zero_grad)) for owner in owners))


def _to_none(inner: Any) -> Any:
    def zero_grad(owner: Any, set_to_none: bool = True) -> None:  # noqa: ARG001, FBT001, FBT002 - torch's signature
        inner(owner, set_to_none=True)

    return zero_grad


EXPERIMENTS = (
    Experiment(
        key="zero_grad",
        place=20,
        name="gradients set to None",
        alters=NOTHING,
        values=_values,
        switch=_switch,
        lines={"PyTorch": "optimizer.zero_grad(set_to_none=True)"},
    ),
)
