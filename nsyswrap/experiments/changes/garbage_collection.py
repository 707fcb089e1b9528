"""The experiment "gc": no collection of the objects that exist before the loop, and none in the loop."""

import gc

from ..tried.experiment import NOTHING, Experiment, NotApplicableError, Undo
from ..tried.program import TriedProgram


def _values(program: TriedProgram) -> list[str]:
    if not gc.isenabled() and not program.collects:
        raise NotApplicableError("the program collects no garbage in its steps")
    return [""]


def _switch(_program: TriedProgram, _value: str) -> Undo:
    was_on = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()

    def undo() -> None:
        gc.unfreeze()
        if was_on:
            gc.enable()

    return undo


EXPERIMENTS = (
    Experiment(
        key="gc",
        place=10,
        name="no garbage collection in steps",
        alters=NOTHING,
        values=_values,
        switch=_switch,
        lines={
            "PyTorch": "gc.collect()\ngc.freeze()\ngc.disable()  # and call gc.collect() every 1000 steps",
        },
    ),
)
