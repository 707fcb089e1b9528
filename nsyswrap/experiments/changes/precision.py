"""The experiment "autocast": the models compute in bfloat16 where PyTorch's autocast says that this is safe."""

from typing import Any

from ..tried.experiment import MATHEMATICS, Experiment, NotApplicableError, Undo, require
from ..tried.program import TriedProgram, with_forward


def _values(program: TriedProgram) -> list[str]:
    require(program.models, "the loop calls no module with parameters")
    if not all(each.dtype == program.torch.float32 for model in program.models for each in model.parameters()):
        raise NotApplicableError("the parameters are not all FP32")
    return [""]


def _switch(program: TriedProgram, _value: str) -> Undo:
    torch = program.torch
    device = "cuda" if program.uses_gpu else "cpu"

    def cast(inner: Any) -> Any:
        def forward(*arguments: Any, **named: Any) -> Any:
            with torch.autocast(device, dtype=torch.bfloat16):
                found = inner(*arguments, **named)
            # A loss outside of the model is computed in FP32, as inside of autocast.
            return found.float() if isinstance(found, torch.Tensor) and found.is_floating_point() else found

        return forward

    return with_forward(program.models, cast)


EXPERIMENTS = (
    Experiment(
        key="autocast",
        place=990,
        name="autocast to bfloat16",
        alters=MATHEMATICS,
        values=_values,
        switch=_switch,
        lines={
            "PyTorch": 'with torch.autocast("cuda", dtype=torch.bfloat16):\n'
            "    loss = criterion(model(inputs), targets)",
            "Lightning": 'trainer = Trainer(precision="bf16-mixed")',
            "Hugging Face Transformers": "arguments = TrainingArguments(bf16=True)",
        },
    ),
)
