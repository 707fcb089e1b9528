"""The experiment "compile": torch.compile of the models that the loop calls."""

from collections.abc import Callable
from typing import Any

from ..tried.experiment import ROUNDING, Experiment, Undo, require, set_all
from ..tried.program import TriedProgram

DEFAULT, GRAPHS, TUNED = "default", "reduce-overhead", "max-autotune"


def _values(program: TriedProgram) -> list[str]:
    """Return the modes; those that use CUDA graphs, or tune kernels for a GPU, only with a GPU."""
    require(program.models, "the loop calls no module with parameters")
    require(not program.is_compiled, "the model is compiled already")
    return [DEFAULT, GRAPHS, TUNED] if program.uses_gpu else [DEFAULT]


def _switch(program: TriedProgram, mode: str) -> Undo:
    """Compile the calls of the models; code that was compiled in an earlier turn is used again."""
    for model in program.models:
        key = ("compile", id(model), mode)
        if key not in program.kept:
            program.kept[key] = program.torch.compile(_call_of(model), mode=mode)
    return set_all(*((each, "_compiled_call_impl", program.kept["compile", id(each), mode]) for each in program.models))


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
