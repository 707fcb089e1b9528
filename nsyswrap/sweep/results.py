"""What the runs of a sweep measured, and each cell's time per step with its interval."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from nsyswrap.base.interval import Interval
from nsyswrap.compare.bootstrap import student_limit, student_quantile
from nsyswrap.compare.run_noise import CPU_SPREAD, FREEDOM, GPU_SPREAD
from nsyswrap.sweep.cells import Cell, cells_of
from nsyswrap.sweep.endings import Ending
from nsyswrap.sweep.spec import SweepSpec

CONFIDENCE = 0.95
# From so many runs on, their own spread gives the interval. With two, Student's t is 12.7 and says nothing.
FEWEST_RUNS = 3


class StepPart(NamedTuple):
    """A part of a cell's step: a row of the ledger, or idle time by root cause.

    Attributes:
        row: Row of the ledger, as "compute_ns"; "idle_ns" for idle time.
        rule: Rule of the finding that idle time belongs to; empty for other rows.
        step_ns: Mean over GPUs of the time per step.
    """

    row: str
    rule: str
    step_ns: float


@dataclass(frozen=True, slots=True)
class CellRun:
    """One run of a cell.

    Attributes:
        number: 1 for the first run of the cell.
        reason: Why it was not measured; empty if it was.
        wall_s: How long it took with its analysis, in seconds.
        folder: Folder of its report, relative to that of the sweep.
        run_id: Its id in the history; empty without a report.
        mean_ns: Time per step, start to start; None if it was not measured.
        cpu_share: Share of the time in which no kernel runs.
        parts: The parts of a step, which add up to the window by steps; empty without GPU work.
        machine: GPUs and versions, by label.
    """

    cell: str
    number: int
    ending: Ending
    reason: str = ""
    wall_s: float = 0.0
    folder: str = ""
    run_id: str = ""
    mean_ns: float | None = None
    median_ns: float | None = None
    step_count: int = 0
    cpu_share: float = 1.0
    parts: tuple[StepPart, ...] = ()
    verdict: str = ""
    rule: str = ""
    machine: Mapping[str, str] = field(default_factory=dict)
    started_utc: str = ""


class StepInterval(NamedTuple):
    """The time per step of a cell.

    Attributes:
        ns: Geometric mean over runs, with an interval that holds it in 95 % of sweeps, in ns.
        from_runs: Whether the spread is that of these runs; otherwise it is that known between runs of one program.
    """

    ns: Interval[float]
    runs: int
    from_runs: bool

    @property
    def half_width(self) -> float:
        """Return half of the width in natural logarithms: the share by which the time may be wrong."""
        return math.log(self.ns.high / self.ns.point)


class CellResult(NamedTuple):
    """One cell with its runs.

    Attributes:
        runs: Its runs, in order; those of another cell where it is the same.
        step: Its time per step; None if no run was measured.
        parts: The parts of its step, means over runs; empty without GPU work.
    """

    cell: Cell
    runs: tuple[CellRun, ...]
    step: StepInterval | None
    parts: tuple[StepPart, ...]

    @property
    def failed(self) -> CellRun | None:
        """Return the run that says why the cell is not measured; None if it is, or was not run."""
        return None if self.step else next((run for run in self.runs if run.ending is not Ending.MEASURED), None)

    @property
    def step_ns(self) -> float:
        """Return the sum of the parts of a step; 0 without GPU work."""
        return sum(part.step_ns for part in self.parts)

    @property
    def samples_per_s(self) -> float | None:
        """Return the throughput of all GPUs together; None without a step or a batch size."""
        return None if self.step is None or self.cell.batch is None else 1e9 * self.cell.batch / self.step.ns.point

    @property
    def rate(self) -> float | None:
        """Return what is compared between cells: samples a second, or steps a second without a batch size."""
        return None if self.step is None else 1e9 * (self.cell.batch or 1.0) / self.step.ns.point

    @property
    def median_ns(self) -> float | None:
        """Return the median over runs of the median step."""
        found = [run.median_ns for run in self.runs if run.median_ns is not None]
        return statistics.median(found) if found else None


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep with what was measured."""

    spec: SweepSpec
    seed: int
    runs: tuple[CellRun, ...]
    cells: tuple[CellResult, ...]

    def measured(self) -> tuple[CellResult, ...]:
        """Return the cells with a time per step."""
        return tuple(each for each in self.cells if each.step is not None)


def sweep_of(spec: SweepSpec, seed: int, runs: Iterable[CellRun]) -> Sweep:
    """Return a sweep with the results of its cells."""
    given = tuple(runs)
    by_cell: dict[str, list[CellRun]] = {}
    for run in given:
        by_cell.setdefault(run.cell, []).append(run)
    results = []
    for cell in cells_of(spec):
        ordered = tuple(sorted(by_cell.get(cell.same_as or cell.key, []), key=lambda run: run.number))
        results.append(CellResult(cell, ordered, step_interval(ordered), _mean_parts(ordered)))
    return Sweep(spec, seed, given, tuple(results))


def step_interval(runs: Sequence[CellRun]) -> StepInterval | None:
    """Return the time per step over the runs of a cell; None if none was measured.

    From three runs on it is Student's interval of the mean of ln(time per step). With fewer, the spread is that between
    runs of one program, which grows with the share of the time in which no kernel runs.

    Source:
        Student, 1908. Spread between runs: compare/run_noise.py and docs/compare.md.
    """
    measured = [run for run in runs if run.mean_ns is not None]
    if not measured:
        return None
    logs = [math.log(run.mean_ns or 1.0) for run in measured]
    centre, count = statistics.fmean(logs), len(logs)
    quantile = (1 + CONFIDENCE) / 2
    if count >= FEWEST_RUNS:
        reach = student_limit(quantile, count - 1) * statistics.stdev(logs) / math.sqrt(count)
    else:
        share = statistics.fmean(run.cpu_share for run in measured)
        reach = student_quantile(quantile, FREEDOM) * math.hypot(CPU_SPREAD * share, GPU_SPREAD) / math.sqrt(count)
    step = Interval(centre - reach, centre, centre + reach).map(math.exp)
    return StepInterval(step, count, from_runs=count >= FEWEST_RUNS)


def _mean_parts(runs: Sequence[CellRun]) -> tuple[StepPart, ...]:
    """Return the parts of a step, each the mean over the measured runs."""
    measured = [run for run in runs if run.mean_ns is not None and run.parts]
    sums: dict[tuple[str, str], float] = {}
    for part in (part for run in measured for part in run.parts):
        sums[part.row, part.rule] = sums.get((part.row, part.rule), 0.0) + part.step_ns
    return tuple(StepPart(row, rule, total / len(measured)) for (row, rule), total in sums.items())


def difference_is_shown(faster: StepInterval, slower: StepInterval) -> bool:
    """Return whether one cell takes less time per step than another beyond the noise of both."""
    return math.log(slower.ns.point / faster.ns.point) > math.hypot(faster.half_width, slower.half_width)
