"""The experiments "foreach" and "fused": the update of all parameters in a few kernels."""

from typing import Any

from ..tried.experiment import ROUNDING, Experiment, NotApplicableError, Undo, require
from ..tried.program import TriedProgram

_FOREACH, _FUSED = "foreach", "fused"


def _values(program: TriedProgram, form: str) -> list[str]:
    """Return one value, the class of the first optimizer that can have the form."""
    able = [each for each in program.optimizers if any(form in group for group in each.param_groups)]
    require(able, f"no optimizer of the program has a {form} form")
    if all(group.get(form) for each in able for group in each.param_groups):
        raise NotApplicableError(f"the optimizer is {form} already")
    if form is _FOREACH and (program.uses_gpu or any(g.get(_FUSED) for each in able for g in each.param_groups)):
        raise NotApplicableError("the optimizer chooses the form itself")
    if form is _FUSED:
        _check_fused(program, able)
    return [type(able[0]).__name__]


def _check_fused(program: TriedProgram, optimizers: list[Any]) -> None:
    """Raise ``NotApplicableError`` where a parameter has a type or a device that a fused form does not take."""
    for group in (group for each in optimizers for group in each.param_groups):
        if group.get("differentiable"):
            raise NotApplicableError("the optimizer is differentiable")
        for each in group["params"]:
            if not program.torch.is_floating_point(each) or each.device.type not in {"cuda", "cpu"}:
                raise NotApplicableError("not all parameters are floating point on a GPU or the CPU")
            if each.grad is not None and each.grad.layout is not program.torch.strided:
                raise NotApplicableError("gradients are sparse")


def _switch(program: TriedProgram, form: str) -> Undo:
    undo = [_set(program, each, form) for each in program.optimizers]

    def undo_all() -> None:
        for each in undo:
            each()

    return undo_all


def _set(program: TriedProgram, optimizer: Any, form: str) -> Undo:
    """Give an optimizer a form; its state stays, and the counts of its steps move to where the form has them."""
    groups = [group for group in optimizer.param_groups if form in group]
    before = [(group, group.get(_FOREACH), group.get(_FUSED)) for group in groups]
    scales = vars(optimizer).get("_step_supports_amp_scaling")
    for group in groups:
        if _FOREACH in group:
            group[_FOREACH] = form is _FOREACH
        if _FUSED in group:
            group[_FUSED] = form is _FUSED
    if form is _FUSED:
        optimizer._step_supports_amp_scaling = True  # noqa: SLF001 - as the constructor does
    moved = _move_counts(program, optimizer, groups) if form is _FUSED else []

    def undo() -> None:
        for group, foreach, fused in before:
            group.update({name: was for name, was in ((_FOREACH, foreach), (_FUSED, fused)) if name in group})
        for state, device in moved:
            state["step"] = state["step"].to(device)
        if form is _FUSED:
            vars(optimizer).pop("_step_supports_amp_scaling", None)
            if scales is not None:
                optimizer._step_supports_amp_scaling = scales  # noqa: SLF001

    return undo


def _move_counts(program: TriedProgram, optimizer: Any, groups: list[Any]) -> list[tuple[Any, Any]]:
    """Move the counts of steps to the devices of the parameters; return what moved, and from where."""
    moved = []
    for each in (each for group in groups for each in group["params"]):
        state = optimizer.state.get(each)
        count = state.get("step") if state else None
        if isinstance(count, program.torch.Tensor) and count.device != each.device:
            moved.append((state, count.device))
            state["step"] = count.to(each.device)
    return moved


def _experiment(form: str, transformers: str) -> Experiment:
    return Experiment(
        key=form,
        place=80 if form is _FOREACH else 90,
        name=f"{form} {{value}}",
        alters=ROUNDING,
        values=lambda program: _values(program, form),
        replaces=(_FOREACH,) if form is _FUSED else (),
        switch=lambda program, _value: _switch(program, form),
        lines={
            "PyTorch": f"optimizer = {{value}}(model.parameters(), lr=rate, {form}=True)",
            "Lightning": "def configure_optimizers(self):\n"
            f"    return {{value}}(self.parameters(), lr=self.rate, {form}=True)",
            **({"Hugging Face Transformers": transformers} if transformers else {}),
        },
    )


EXPERIMENTS = (
    _experiment(_FOREACH, ""),
    _experiment(_FUSED, 'arguments = TrainingArguments(optim="adamw_torch_fused")'),
)
