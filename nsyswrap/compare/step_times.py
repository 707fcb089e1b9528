"""The step times of a report in order, one for each step; processes that run at the same time are averaged."""

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from nsyswrap.compare.bootstrap import Series
from nsyswrap.model import Report

if TYPE_CHECKING:
    import pandas as pd

LEDGER_ROWS = (
    "compute_ns",
    "communication_wait_ns",
    "communication_transfer_ns",
    "copy_exposed_ns",
    "memset_exposed_ns",
    "idle_ns",
)
KERNEL_ROWS = ("compute_ns", "communication_wait_ns", "communication_transfer_ns")
_NUMBER = re.compile(r"\d+")
# With more than this share of the time between steps, the steps do not represent the window.
MOST_BETWEEN = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class StepTimes:
    """The measured steps inside a report's window.

    Attributes:
        length: Length of each step, ns, shape (n,), at least 1.
        period: Time from the start of a step to the start of the next, ns, shape (n,), at least 1; the last step has
            its length.
        parts: Time of each step by ledger row, mean over GPUs, ns; empty without GPU work.
        family: The steps' name with ``#`` in place of each number; empty without steps.
    """

    length: Series
    period: Series
    parts: dict[str, Series] = field(default_factory=dict)
    family: str = ""

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


NO_STEPS = StepTimes(np.empty(0), np.empty(0))


def step_times(report: Report) -> StepTimes:
    """Return the measured steps that lie inside the window of a report.

    Ranks run the same steps in parallel, so step k is the mean of the k-th step of each process, up to the shortest
    process. Counting ranks as more steps would overstate the evidence. Of programs that run one after another, as in a
    sweep, the one that uses the GPU longest counts, as in the report itself.
    """
    section = report.section("steps")
    table = section.tables.get("steps") if section is not None else None
    if table is None or not len(table):
        return NO_STEPS
    window = report.window
    inside = (table["start_ns"] >= window.start_ns) & (table["end_ns"] <= window.end_ns)
    measured = table[inside & ~table["warm_up"].astype(bool)]
    if not len(measured):
        return NO_STEPS
    devices = [one for _, one in measured.groupby("device_id", sort=True)] if "device_id" in measured else [measured]
    by_device = [_runs(one) for one in devices]
    chosen = _at_one_time(by_device)
    by_device = [[runs[number] for number in chosen] for runs in by_device]
    runs = by_device[0]
    count = min(len(run) for run in runs)
    length = np.maximum(np.mean([_lengths(run)[:count] for run in runs], axis=0), 1)
    period = np.maximum(np.mean([_periods(run)[:count] for run in runs], axis=0), 1)
    family = _NUMBER.sub("#", str(runs[0]["name"].iloc[0]))
    return StepTimes(length, period, _parts(by_device, count), family)


def _runs(steps: "pd.DataFrame") -> "list[pd.DataFrame]":
    """Return the steps of each process; rows are sorted by process and start.

    An earlier start is a new process, too: reports of older versions name no process, and two machines may give
    processes the same number.
    """
    start = steps["start_ns"].to_numpy()
    process = steps["process"].to_numpy() if "process" in steps else np.zeros(len(steps), np.int64)
    cuts = np.flatnonzero((start[1:] < start[:-1]) | (process[1:] != process[:-1])) + 1
    bounds = [0, *cuts.tolist(), len(steps)]
    return [steps.iloc[low:high] for low, high in pairwise(bounds)]


def _at_one_time(by_device: "list[list[pd.DataFrame]]") -> list[int]:
    """Return the numbers of the processes whose steps count: those that run at the same time, as ranks do.

    Args:
        by_device: The steps of each process, with a row for each GPU: the same processes for each device.
    """
    runs = by_device[0]
    together: list[list[int]] = []
    last = -np.inf
    for number in sorted(range(len(runs)), key=lambda each: int(runs[each]["start_ns"].iloc[0])):
        if int(runs[number]["start_ns"].iloc[0]) >= last:
            together.append([])
        together[-1].append(number)
        last = max(last, int(runs[number]["end_ns"].iloc[-1]))
    used = [sum(_gpu_time(mine[number]) for mine in by_device) for number in range(len(runs))]
    return sorted(max(together, key=lambda numbers: sum(used[number] for number in numbers)))


def _gpu_time(run: "pd.DataFrame") -> float:
    """Return how long a GPU is busy in the steps of a process, in ns; their length where there is no GPU."""
    return float(_lengths(run).sum() - (_floats(run["idle_ns"]).sum() if "idle_ns" in run else 0))


def _lengths(run: "pd.DataFrame") -> Series:
    return _floats(run["end_ns"]) - _floats(run["start_ns"])


def _periods(run: "pd.DataFrame") -> Series:
    start, end = _floats(run["start_ns"]), _floats(run["end_ns"])
    return np.append(start[1:], end[-1]) - start


def _parts(by_device: "list[list[pd.DataFrame]]", count: int) -> dict[str, Series]:
    """Return the ledger of each step, mean over GPUs and processes."""
    if not set(LEDGER_ROWS) <= set(by_device[0][0].columns):
        return {}
    runs = [run.iloc[:count] for steps in by_device for run in steps]
    return {row: np.mean([_floats(run[row]) for run in runs], axis=0) for row in LEDGER_ROWS}


def _floats(column: "pd.Series[int]") -> Series:
    return np.asarray(column, np.float64)
