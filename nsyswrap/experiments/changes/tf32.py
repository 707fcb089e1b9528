"""The experiment "tf32": matrix products and convolutions of FP32 values in TF32 on tensor cores."""

from ..tried.experiment import ROUNDING, Experiment, NotApplicableError, Undo, require, set_all
from ..tried.program import TriedProgram

# The first generation of GPUs with TF32: Ampere. Source: CUDA C++ Programming Guide, compute capabilities.
_FIRST_CAPABILITY = 8


def _values(program: TriedProgram) -> list[str]:
    require(program.uses_gpu, "the program uses no GPU")
    require(program.torch.cuda.get_device_capability()[0] >= _FIRST_CAPABILITY, "this GPU has no TF32")
    require(program.torch.get_float32_matmul_precision() == "highest", "TF32 is on already")
    # PyTorch compiles again for this setting.
    if program.launches_graphs and not program.is_compiled:
        raise NotApplicableError("CUDA graphs keep the kernels of their capture")
    return [""]


def _switch(program: TriedProgram, _value: str) -> Undo:
    torch, before = program.torch, program.torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    undo_convolutions = set_all((torch.backends.cudnn, "allow_tf32", True))

    def undo() -> None:
        torch.set_float32_matmul_precision(before)
        undo_convolutions()

    return undo


EXPERIMENTS = (
    Experiment(
        key="tf32",
        place=50,
        name="TF32",
        alters=ROUNDING,
        values=_values,
        switch=_switch,
        lines={
            "PyTorch": 'torch.set_float32_matmul_precision("high")',
            "Hugging Face Transformers": "arguments = TrainingArguments(tf32=True)",
        },
    ),
)
