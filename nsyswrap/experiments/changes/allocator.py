"""The experiment "allocator": GPU memory in segments that grow, so that memory is not freed and allocated again."""

from ..tried.experiment import NOTHING, Experiment, require
from ..tried.program import TriedProgram

_SETTING = "expandable_segments:True"


def _values(program: TriedProgram) -> list[str]:
    """Apply to programs whose steps still allocate memory from the driver after the first ones."""
    require(program.uses_gpu, "the program uses no GPU")
    require(program.allocates_in_steps, "no memory is allocated from the driver in steps")
    return [""]


def _prepare(program: TriedProgram, _value: str) -> None:
    torch = program.torch
    # What the variable sets; torch 2.9 has renamed the function.
    renamed = getattr(torch._C, "_accelerator_setAllocatorSettings", None)  # noqa: SLF001
    (renamed or torch.cuda.memory._set_allocator_settings)(_SETTING)  # noqa: SLF001


EXPERIMENTS = (
    Experiment(
        key="allocator",
        place=5,
        name="memory in segments that grow",
        alters=NOTHING,
        values=_values,
        prepare=_prepare,
        lines={"PyTorch": f'os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "{_SETTING}"  # before the first CUDA call'},
    ),
)
