"""The reports of captures with and without their NVTX ranges, compared.

Only ranges of the program are taken out. Those of libraries stay, and the marks that nsyswrap makes of garbage
collection, checkpoints and tokenizers, which need no steps. Medians are of the steps that both have: a capture that was
cut short ends with ranges whose work it lacks. Between ranges that name steps may be time, which no pattern can leave
out; so the median may also agree with the median distance of their starts.
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from nsyswrap.base.intervals import Times, Window
from nsyswrap.events.host_record import find_marks
from nsyswrap.loop.context import TraceContext, find_context
from nsyswrap.loop.phase_detection import BATCH, NONE, of_library
from nsyswrap.report import report_of
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace, array

MOST_STEPS, MOST_MEDIAN, LEAST_PHASE = 2, 0.03, 0.95


@dataclass(frozen=True, slots=True)
class Difference:
    """What a capture says with its ranges and without them.

    Attributes:
        steps: Number of measured steps, with ranges and without.
        median_ns: Median of the measured steps that both have in ns, with and without; None without steps.
        distance_ns: Median distance of the starts of these steps with ranges.
        rule: Rule of the verdict, with and without; None where only compute limits the run.
        same_phase: Share of the kernels' time in the window that has the same phase, of the time to which ranges give a
            phase of a step; 1 where there is none.
        says: How the steps were found, or why not.
    """

    steps: tuple[int, int]
    median_ns: tuple[float | None, float | None]
    distance_ns: float | None
    rule: tuple[str | None, str | None]
    same_phase: float
    says: str

    @property
    def apart(self) -> tuple[str, ...]:
        """Return what differs by more than it may: steps, median, verdict, phases; empty without steps in ranges."""
        if not self.steps[0]:
            return ()
        after = self.median_ns[1]
        near = after is not None and any(
            before is not None and abs(after / before - 1) <= MOST_MEDIAN
            for before in (self.median_ns[0], self.distance_ns)
        )
        parts = {
            "steps": abs(self.steps[0] - self.steps[1]) <= MOST_STEPS,
            "median": near,
            "verdict": self.rule[0] == self.rule[1],
            "phases": self.same_phase >= LEAST_PHASE,
        }
        return tuple(name for name, holds in parts.items() if not holds)


def without_ranges(trace: Trace) -> Trace:
    """Return a trace without the ranges of the program; those of libraries and the marks of host work stay."""
    ranges = trace[tables.RANGES]
    kept = ranges[of_library(ranges) | ranges.index.isin(find_marks(trace).index)].reset_index(drop=True)
    return replace(trace, frames={**trace.frames, tables.RANGES.name: kept})


def compare(trace: Trace) -> Difference:
    """Return what a capture says with its ranges and without them."""
    marked, bare = find_context(trace), find_context(without_ranges(trace))
    first, second = report_of(marked), report_of(bare)
    section = second.section("steps")
    common = _common(marked.steps.measured, bare.steps.measured)
    # Without GPU work there is nothing but ranges.
    worked = len(marked.operations.start) > 0
    return Difference(
        steps=(first.step.count or 0, second.step.count or 0) if worked else (0, 0),
        median_ns=(_median(*common[0]), _median(*common[1])),
        distance_ns=_distance(*common[0]),
        rule=(first.verdict_rule, second.verdict_rule),
        same_phase=_same_phase(marked, bare, first.window),
        says=" ".join(section.notes) if section else "",
    )


def _common(one: pd.DataFrame, other: pd.DataFrame) -> tuple[tuple[Times, Times], tuple[Times, Times]]:
    """Return start and end of the steps of each that begin in the time that the steps of both cover."""
    both = [(array(each, "start"), array(each, "end")) for each in (one, other)]
    if not all(len(start) for start, _ in both):
        return both[0], both[1]
    # The start of the same step may differ by the time between two steps.
    slack = int(np.median(both[0][1] - both[0][0])) // 2
    first, last = max(start.min() for start, _ in both) - slack, min(start.max() for start, _ in both) + slack
    found = [(start[inside], end[inside]) for start, end in both for inside in [(start >= first) & (start <= last)]]
    return found[0], found[1]


def _median(start: Times, end: Times) -> float | None:
    """Return the median length of some steps in ns; None of none."""
    return float(np.median(end - start)) if len(start) else None


def _distance(start: Times, end: Times) -> float | None:
    """Return the median distance of the starts of steps that follow one another, in ns; None of fewer than two."""
    after = np.append(start[1:], 0)[: len(start)]
    following = after >= end
    return float(np.median((after - start)[following])) if following.any() else None


def _same_phase(marked: TraceContext, bare: TraceContext, window: Window) -> float:
    """Return the share of the kernels' time in a window that has the same phase in both contexts."""
    operations = marked.operations
    rows = np.concatenate([operations.from_table(each) for each in (tables.KERNELS, tables.GRAPHS)])
    rows = rows[(operations.start[rows] < window.end_ns) & (operations.end[rows] > window.start_ns)]
    length = (operations.end - operations.start)[rows]
    phases = [
        np.array([each.phases.name(code) for code in range(-1, len(each.phases.names))])[
            each.phase_of_operations[rows] + 1
        ]
        for each in (marked, bare)
    ]
    # Without a range, or in that of a step alone, a kernel has no phase to compare.
    known = ~np.isin(phases[0], (BATCH, NONE))
    whole = int(length[known].sum())
    return float(length[known & (phases[0] == phases[1])].sum() / whole) if whole else 1.0
