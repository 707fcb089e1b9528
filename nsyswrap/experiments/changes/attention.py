"""The experiment "attention": which kernels compute scaled_dot_product_attention."""

from ..tried.experiment import ROUNDING, Experiment, NotApplicableError, Undo, require
from ..tried.program import TriedProgram

# Each may take part beside the plain one, which computes what the others cannot.
_BACKENDS = ("flash", "mem_efficient", "cudnn")


def _values(program: TriedProgram) -> list[str]:
    require(program.uses_gpu, "the program uses no GPU")
    require(program.calls_attention, "the loop does not call scaled_dot_product_attention")
    if program.is_compiled or program.launches_graphs:
        raise NotApplicableError("compiled code and CUDA graphs keep their kernels")
    return [each for each in _BACKENDS if hasattr(program.torch.backends.cuda, f"enable_{each}_sdp")]


def _switch(program: TriedProgram, backend: str) -> Undo:
    flags = program.torch.backends.cuda
    known = [each for each in (*_BACKENDS, "math") if hasattr(flags, f"enable_{each}_sdp")]
    before = {each: getattr(flags, f"{each}_sdp_enabled")() for each in known}

    def set_to(wanted: dict[str, bool]) -> None:
        for each, is_on in wanted.items():
            getattr(flags, f"enable_{each}_sdp")(is_on)

    set_to({each: each in {backend, "math"} for each in known})
    return lambda: set_to(before)


EXPERIMENTS = (
    Experiment(
        key="attention",
        place=100,
        name="attention by {value}",
        alters=ROUNDING,
        values=_values,
        switch=_switch,
        lines={"PyTorch": "torch.backends.cuda.enable_{value}_sdp(True)  # and the others, except math, to False"},
    ),
)
