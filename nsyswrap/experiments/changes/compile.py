"""The experiment "compile": torch.compile of the models that the loop calls."""

from collections.abc import Callable
from typing import Any

from ..tried.experiment import ROUNDING, Experiment, NotApplicableError, Undo
from ..tried.program import TriedProgram

DEFAULT, GRAPHS, TUNED = "default", "reduce-overhead", "max-autotune"


def _values(program: TriedProgram) -> list[str]:
    """Return the modes; those that use CUDA graphs, or tune kernels for a GPU, only with a GPU."""
    if not program.models:
        raise NotApplicableError("the loop calls no module with parameters")
    if program.is_compiled:
        raise NotApplicableError("the model is compiled already")
    return [DEFAULT, GRAPHS, TUNED] if program.uses_gpu else [DEFAULT]


def _switch(program: TriedProgram, mode: str) -> Undo:
    """Compile the calls of the models; code that was compiled in an earlier turn is used again."""
    for model in program.models:
        key = ("compile", id(model), mode)
        if key not in program.kept:
            program.kept[key] = program.torch.compile(_call_of(model), mode=mode)
        model._compiled_call_impl = program.kept[key]  # noqa: SLF001

    def undo() -> None:
        for model in program.models:
            model._compiled_call_impl = None  # noqa: SLF001

    return undo


def _call_of(model: Any) -> Callable[..., Any]:
    """Return a function that calls a model: torch compiles no code of its own modules unless other code calls it."""

    def called(*inputs: Any, **named: Any) -> Any:
        return model._call_impl(*inputs, **named)  # noqa: SLF001 - as Module.compile

    return called


EXPERIMENTS = (
    Experiment(
        key="compile",
        place=900,
        name="torch.compile ({value})",
        alters=ROUNDING,
        values=_values,
        switch=_switch,
        lines={
            "PyTorch": 'model = torch.compile(model, mode="{value}")',
            "Lightning": 'trainer.fit(torch.compile(module, mode="{value}"), loader)',
            "Hugging Face Transformers": 'arguments = TrainingArguments(torch_compile_mode="{value}")',
        },
    ),
)
