"""The gate: whether the newest runs of a program became slower than the runs before them, or whether runs cannot tell.

All but ``reports`` are functions of numbers, one for each run; it does not matter where the runs are kept.
"""

from nsyswrap.gate.decision import judge
from nsyswrap.gate.reports import gate_reports
from nsyswrap.gate.timed_runs import (
    Gate,
    GateOptions,
    GateOutcome,
    Measure,
    PartChange,
    TimedRun,
    noise_words,
    part_words,
)

__all__ = [
    "Gate",
    "GateOptions",
    "GateOutcome",
    "Measure",
    "PartChange",
    "TimedRun",
    "gate_reports",
    "judge",
    "noise_words",
    "part_words",
]
