"""The experiment "threads": how many threads compute one operation on the CPU."""

from ..tried.experiment import ROUNDING, Experiment, Undo, require
from ..tried.program import TriedProgram


def _values(program: TriedProgram) -> list[str]:
    """Return one thread, half of the cores and all of them, without the number that is set."""
    cores = program.cores
    numbers = sorted({1, max(cores // 2, 1), cores} - {program.torch.get_num_threads()})
    require(numbers, "the process has one core")
    return [str(each) for each in numbers]


def _switch(program: TriedProgram, value: str) -> Undo:
    before = program.torch.get_num_threads()
    program.torch.set_num_threads(int(value))
    return lambda: program.torch.set_num_threads(before)


EXPERIMENTS = (
    Experiment(
        key="threads",
        place=30,
        name="set_num_threads({value})",
        alters=ROUNDING,
        values=_values,
        switch=_switch,
        lines={"PyTorch": "torch.set_num_threads({value})"},
    ),
)
