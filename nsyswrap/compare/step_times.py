"""The step times of a report in order, one for each step; processes that run at the same time are averaged."""

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from nsyswrap.base.interval import Interval
from nsyswrap.base.intervals import Window
from nsyswrap.compare.bootstrap import Series
from nsyswrap.model import PARTS, Report
from nsyswrap.rules.idle import OFF_CPU

if TYPE_CHECKING:
    import pandas as pd

LEDGER_ROWS = tuple(PARTS.split())
KERNEL_ROWS = ("compute_ns", "communication_wait_ns", "communication_transfer_ns")
MEASURED_ALONE = ("this_process", "second_run")
"""Sources of a step alone that was measured, and not simulated."""
WAITS_FOR_CORE = OFF_CPU.key
_NUMBER = re.compile(r"\d+")
# With more than this share of the time between steps, the steps do not represent the window.
MOST_BETWEEN = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredSteps:
    """The measured steps inside a report's window.

    Attributes:
        length: Length of each step, ns, shape (n,), at least 1.
        period: Time from the start of a step to the start of the next, ns, shape (n,), at least 1; the last step has
            its length.
        parts: Time of each step by ledger row, mean over GPUs, ns; empty without GPU work.
        family: The steps' name with ``#`` in place of each number; empty without steps.
        waiting_ns: ns a step that the loop waits for a CPU core that others use; None where it was not measured.
        alone_ns: Median step that was measured without the profiler, with its range; None where it was not.
    """

    length: Series
    period: Series
    parts: dict[str, Series] = field(default_factory=dict)
    family: str = ""
    waiting_ns: float | None = None
    alone_ns: Interval[int] | None = None

    def without_waits(self) -> "MeasuredSteps":
        """Return the steps without their mean wait for a CPU core."""
        length, period = (np.maximum(one - (self.waiting_ns or 0.0), 1.0) for one in (self.length, self.period))
        return replace(self, length=length, period=period, waiting_ns=0.0)

    @property
    def count(self) -> int:
        """Return the number of steps."""
        return len(self.length)

    @property
    def between_share(self) -> float:
        """Return the share of the time that lies between steps."""
        whole = float(self.period.sum())
        return 1 - float(self.length.sum()) / whole if whole else 0.0

    @property
    def cpu_share(self) -> float:
        """Return the share of the time in which no kernel runs, idle time and exposed copies; 1 without a GPU."""
        whole = float(self.period.sum())
        kernels = sum(float(self.parts[row].sum()) for row in KERNEL_ROWS) if self.parts else 0.0
        return 1 - kernels / whole if whole else 1.0


NO_STEPS = MeasuredSteps(np.empty(0), np.empty(0))


def step_count(report: Report, steps: MeasuredSteps) -> int:
    """Return the number of steps that the totals of a report count; a long table of steps may list fewer."""
    return (report.step.count if report.window.is_of_steps else None) or steps.count


def step_times(report: Report) -> MeasuredSteps:
    """Return the measured steps of the window of a report.

    Ranks run the same steps in parallel, so a step is the mean of the steps with its number of all processes. Counting
    ranks as more steps would overstate the evidence.
    """
    table = report.rows("steps", "steps")
    if table is None:
        return NO_STEPS
    # A report of an earlier state names no processes.
    keys = [name for name in ("device_id", "process") if name in table and table[name].notna().all()]
    measured = _measured(table, report.window, keys)
    if not len(measured):
        return NO_STEPS
    # A step lasts until the next one of its process starts, the last one until its end.
    until = np.append(measured["start_ns"].to_numpy()[1:], 0)
    owner = measured.groupby(keys).ngroup().to_numpy() if keys else np.zeros(len(measured), np.intp)
    last = np.append(owner[1:] != owner[:-1], True)
    until[last] = measured["end_ns"].to_numpy()[last]
    rows = [row for row in LEDGER_ROWS if row in measured]
    times = measured[rows].assign(
        number=measured["number"],
        length=measured["end_ns"] - measured["start_ns"],
        period=until - measured["start_ns"],
    )
    # Where a process takes several steps while another takes one, they count together.
    sums = times.groupby("number").sum() / len(np.unique(owner))
    return MeasuredSteps(
        length=np.maximum(_floats(sums["length"]), 1),
        period=np.maximum(_floats(sums["period"]), 1),
        parts={row: _floats(sums[row]) for row in rows} if len(rows) == len(LEDGER_ROWS) else {},
        family=_NUMBER.sub("#", str(measured["name"].iloc[0])),
        waiting_ns=waiting_of(report, report.step.count or len(sums)),
        alone_ns=report.step.alone if report.step.alone_source in MEASURED_ALONE else None,
    )


def waiting_of(report: Report, count: int) -> float | None:
    """Return ns a step that the loop waits for a CPU core; None where the machine was not sampled.

    With GPU work it is the idle time that these waits explain, as the mean over GPUs; without, the wait of the thread
    that waits longest.
    """
    machine = report.section("machine")
    sampled = machine.fact("cpu_time_ns") if machine is not None else None
    if sampled is None or not sampled.value or not count or not report.window.is_of_steps:
        return None
    devices, idle = report.rows("ledger", "devices"), report.rows("idle", "attribution")
    if devices is not None:
        waits = 0.0 if idle is None else float(idle.loc[idle["rule"] == WAITS_FOR_CORE, "idle_ns"].sum())
        return waits / (len(devices) * count)
    threads = report.rows("machine", "host")
    if threads is None:
        return 0.0
    waiting = threads.loc[threads["rule"] == WAITS_FOR_CORE].groupby("thread_id")["total_ns"].sum()
    return float(waiting.max()) / count if len(waiting) else 0.0


def _measured(steps: "pd.DataFrame", window: Window, keys: list[str]) -> "pd.DataFrame":
    """Return the measured steps with their numbers, as far as every process and GPU has them.

    A report.json holds the first rows of a long table. An earlier one of the same version has no numbers.
    """
    if "number" not in steps:
        inside = (steps["start_ns"] >= window.start_ns) & (steps["end_ns"] <= window.end_ns)
        steps = steps[inside & ~steps["warm_up"].astype(bool)]
        steps = steps.assign(number=steps.groupby(keys).cumcount() if keys else np.arange(len(steps)))
    steps = steps[steps["number"] >= 0]
    if not keys or not len(steps):
        return steps
    kept: pd.DataFrame = steps[steps["number"] <= steps.groupby(keys)["number"].max().min()]
    return kept


def _floats(column: "pd.Series[float]") -> Series:
    return np.asarray(column, np.float64)
