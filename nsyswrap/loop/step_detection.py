"""The steps of the training loop: ranges whose text ends in a number, each either warm-up or measured."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base import units
from nsyswrap.base.excerpt import Excerpt, StepsRead
from nsyswrap.base.intervals import Indices, Times, Window
from nsyswrap.base.memo import memo
from nsyswrap.base.patterns import compiled, time_limit
from nsyswrap.base.step_text import STEP_TEXT
from nsyswrap.events.operations import SOURCES, launch_calls
from nsyswrap.loop.injected_ranges import steps_before, without_doubtful_steps
from nsyswrap.model import Capture, Session
from nsyswrap.trace import tables
from nsyswrap.trace.tables import THREAD_BITS, THREAD_MASK, Trace, array, coded

_NUMBER = re.compile(r"\d+")

PATTERN: Final = "pattern"

# The first two steps allocate, tune and compile. Later steps count as warm-up while they take this many times the
# median of the steps after them. At most half of all steps are warm-up.
WARM_UP_STEPS = 2
WARM_UP_FACTOR = 2.0


@dataclass(frozen=True)
class Shared:
    """What the processes of a job have in common: when each is past its warm-up, and how many steps each takes then.

    Attributes:
        start_ns: From when, in ns.
        end_ns: Until when.
        count: Number of steps of each process.
    """

    start_ns: int
    end_ns: int
    count: int


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps of all processes, by process and start.

    Attributes:
        frame: One row for each step: process, thread (int64 ids), name, start, end (ns), warm_up (bool).
        processes: Processes whose steps count, where processes run one after another; None for all.
        notes: Which ranges that look like steps do not count, and why; how steps without ranges were found.
        source: "steps" from ranges, "pattern" from the work that repeats; the source of the window.
        read: Which measured steps of all these are, where ranges name them and the trace is a part of a capture.
        of_job: What these processes share with others of their job that are not in the trace; None without others.
    """

    frame: pd.DataFrame
    processes: frozenset[int] | None = None
    notes: tuple[str, ...] = ()
    source: Literal["steps", "pattern"] = "steps"
    read: StepsRead | None = None
    of_job: Shared | None = None

    @cached_property
    def counted(self) -> pd.DataFrame:
        """Return the rows of the processes whose steps count."""
        return self.frame if self.processes is None else self.frame[self.frame["process"].isin(self.processes)]

    @cached_property
    def shared(self) -> Shared:
        """Return when all processes are past their warm-up, and the number of measured steps of each."""
        if self.of_job is not None:
            return self.of_job
        start, end, each = array(self.frame, "start"), array(self.frame, "end"), self._past_warm_up
        if not each:
            return Shared(0, 0, 0)
        firsts, lasts = [start[rows[0]] for rows in each], [end[rows].max() for rows in each]
        begin, stop = (max(firsts), min(lasts)) if max(firsts) < min(lasts) else (min(firsts), max(lasts))
        return Shared(int(begin), int(stop), min(len(self._between(rows, begin, stop)) for rows in each))

    @cached_property
    def number(self) -> Indices:
        """Return the number of each step in its process, from 0; -1 for warm-up and for steps that do not count.

        Each process has the same numbers, so that totals over its measured steps can be divided by one count. They
        begin when all are past their warm-up, with the step that has its middle after that::

            rank 0    | warm-up | warm-up |    0    |    1    |    2    |
            rank 1      | warm-up | warm-up |    0    |    1    |    2    |

        Where a process takes several steps while another takes one, as many of them have the same number.
        """
        shared = self.shared
        each = [self._between(rows, shared.start_ns, shared.end_ns) for rows in self._past_warm_up]
        return _numbered(each, len(self.frame), shared.count)

    def number_inside(self, window: Window) -> Indices:
        """Return the number of each step in its process among those inside a window, as ``number`` does."""
        if self._is_of_all(window):
            return self.number
        inside = (array(self.frame, "start") >= window.start_ns) & (array(self.frame, "end") <= window.end_ns)
        # The user may look at a process that does not count elsewhere.
        for processes in (self.processes, None):
            each = [kept for rows in self._without_warm_up(processes) if len(kept := rows[inside[rows]])]
            if each:
                return _numbered(each, len(self.frame), min(map(len, each)))
        return _numbered([], len(self.frame), 0)

    @cached_property
    def _past_warm_up(self) -> list[Indices]:
        return self._without_warm_up(self.processes)

    def _without_warm_up(self, processes: frozenset[int] | None) -> list[Indices]:
        """Return the steps of each of some processes without its warm-up, as rows in order of start; None for all."""
        process, warm = array(self.frame, "process"), array(self.frame, "warm_up")
        each = tables.distinct(process).tolist() if processes is None else sorted(processes)
        found = [np.flatnonzero((process == one) & ~warm) for one in each]
        return [rows for rows in found if len(rows)]

    def _between(self, rows: Indices, begin: int, stop: int) -> Indices:
        """Return the steps of a process with their middle in an interval; one where there is none."""
        middle = self._middle[rows]
        inside = rows[(middle >= begin) & (middle <= stop)]
        return inside if len(inside) else rows[:1]

    @cached_property
    def _middle(self) -> npt.NDArray[np.float64]:
        middle: npt.NDArray[np.float64] = (array(self.frame, "start") + array(self.frame, "end")) / 2
        return middle

    def _is_of_all(self, window: Window) -> bool:
        """Return whether a window is that of all measured steps, not of some of them; by another clock, too."""
        middle = self._middle[self.number >= 0]
        return window.is_of_steps and bool(((middle >= window.start_ns) & (middle <= window.end_ns)).all())

    @cached_property
    def measured(self) -> pd.DataFrame:
        """Return the steps that count, without warm-up, each with its ``number``, which every process has."""
        return self.frame.assign(number=self.number)[self.number >= 0]

    def measured_window(self) -> Window | None:
        """Return the window of the measured steps of all processes; None without steps.

        It lasts from the start of the first to the end of the last, and includes the time between steps.
        """
        parts = self._spans.values()
        start, end = min((each[0] for each in parts), default=0), max((each[1] for each in parts), default=0)
        return Window(start, end, self._label(self.measured), self.source) if end > start else None

    @cached_property
    def _spans(self) -> dict[int, tuple[int, int]]:
        """Return the start of the first measured step of each process and the end of the last, by its global id."""
        process, start, end = (array(self.measured, name) for name in ("process", "start", "end"))
        each = {one: process == one for one in tables.distinct(process).tolist()}
        return {one: (int(start[mine].min()), int(end[mine].max())) for one, mine in each.items()}

    @property
    def total_ns(self) -> int:
        """Return the time from the start of the first measured step to the end of the last, mean over processes."""
        each = self._totals
        return round(sum(each) / max(len(each), 1))

    @property
    def longest_ns(self) -> int:
        """Return the same time of the process that takes longest: hosts of ranks that wait for it may run ahead."""
        return max(self._totals, default=0)

    @property
    def _totals(self) -> list[int]:
        return [end - start for start, end in self._spans.values()]

    def windows_of(self, window: Window) -> dict[int, Window]:
        """Return the window of the measured steps of each process, by its global id.

        Args:
            window: The window of all; another one has none of processes.
        """
        if not self._is_of_all(window):
            return {}
        return {one: replace(window, start_ns=start, end_ns=end) for one, (start, end) in self._spans.items()}

    def together(self, window: Window) -> Window:
        """Return the window of the process that begins last, in which all take as many steps; else the whole window.

        Args:
            window: The window of all; another one is returned.
        """
        own = self.windows_of(window).values()
        last = max(own, key=lambda each: (each.start_ns, each.end_ns), default=window)
        return last if all(each.end_ns > last.start_ns for each in own) else window

    def inside(self, excerpt: Excerpt, *, are_all_known: bool) -> "Steps":
        """Return the steps of the part of a capture that a trace holds.

        Args:
            excerpt: The part.
            are_all_known: Whether these are the steps of all the capture: ranges name them.
        """
        inside = (self.frame["start"] >= excerpt.start_ns) & (self.frame["end"] <= excerpt.end_ns)
        part = replace(self, frame=self.frame[inside].reset_index(drop=True))
        if not are_all_known or not len(part.measured):
            return part
        process = part.measured["process"].iloc[0]
        every, kept = (array(each[each["process"] == process], "start") for each in (self.measured, part.measured))
        read = StepsRead(int((every <= kept.min()).sum()), int((every <= kept.max()).sum()), len(every))
        return replace(part, read=read)

    @memo
    def measured_inside(self, window: Window) -> pd.DataFrame:
        """Return the measured steps of a window: those that make it up, else those that lie inside it."""
        if self._is_of_all(window):
            return self.measured
        inside = self.whole_inside(window)
        return inside[~inside["warm_up"]]

    @memo
    def in_all(self, window: Window) -> pd.DataFrame:
        """Return the measured steps, each with its number, whose number lies inside a window in all processes.

        The host of one rank may be some steps ahead of that of another.
        """
        steps = self.measured
        number = array(steps, "number")
        inside = (array(steps, "start") >= window.start_ns) & (array(steps, "end") <= window.end_ns)
        found: pd.DataFrame = steps[~np.isin(number, number[~inside])]
        return found

    def ends_ahead(self, window: Window) -> dict[int, int]:
        """Return when processes end the last step that all have in a window, in ns, by global id, if before its end."""
        steps = self.in_all(window)
        process, end = array(steps, "process"), array(steps, "end")
        last = {one: int(end[process == one].max()) for one in tables.distinct(process).tolist()}
        return {one: its for one, its in last.items() if its < window.end_ns} if len(last) > 1 else {}

    def whole_inside(self, window: Window) -> pd.DataFrame:
        """Return the steps that lie inside the window, warm-up included."""
        return self.frame[(self.frame["start"] >= window.start_ns) & (self.frame["end"] <= window.end_ns)]

    def measured_of(self, processes: npt.NDArray[np.int64], window: Window) -> pd.DataFrame:
        """Return the measured steps inside a window of some processes; those of all where these mark none.

        All ranks run the same steps at the same time, so the steps of another rank stand for those of one that marks
        none.
        """
        steps = self.measured_inside(window)
        own = np.isin(array(steps, "process"), processes)
        return steps[own] if own.any() else steps

    @property
    def measured_count(self) -> int:
        """Return the number of measured steps of each process: ranks take the same steps at the same time."""
        return self.shared.count

    def _label(self, measured: pd.DataFrame) -> str:
        names = measured["name"][measured["process"] == measured["process"].iloc[0]]
        skipped = int(self.counted["warm_up"].sum())
        processes = measured["process"].nunique()
        count = self.measured_count
        name = f"{names.iloc[0]} to {names.iloc[-1]}" if count > 1 else str(names.iloc[0])
        aside = f", {units.counted(skipped // processes, 'warm-up step')} left out" if skipped else ""
        how = " found by a pattern" if self.source == PATTERN else ""
        return f"{units.counted(count, 'measured step')}{how} ({name}{aside})"


def _numbered(each: Sequence[Indices], count: int, steps: int) -> Indices:
    """Return numbers from 0 to ``steps`` - 1 for the rows of each process, in order; -1 for the others of all rows."""
    number = np.full(count, -1)
    for rows in each:
        at_once = max(len(rows) // max(steps, 1), 1)
        kept = rows[: steps * at_once]
        number[kept] = np.arange(len(kept)) // at_once
    return number


def find_steps(trace: Trace, pattern: str = "") -> Steps:
    """Return the steps of a trace.

    Args:
        trace: The tables of one export.
        pattern: Regular expression searched in the text of ranges; empty for "batch", "step" or "iteration"
            followed by a number at the end.

    Raises:
        UsageError: The pattern is not a regular expression, or takes too long.
    """
    named = _named_as_steps(trace, step_matcher(pattern))
    used = gpu_time(trace) if len(tables.distinct(array(named, "process"))) > 1 else {}
    frame, notes = _of_working_processes(named, used)
    launching = _launching_threads(trace) if frame["thread"].nunique() > frame["process"].nunique() else set()
    if len(frame):
        frame = pd.concat([_one_family(group, launching) for group in _by_process(frame)])
    frame, left_open = frame[~frame["open"]], frame[frame["open"]]
    start, end = array(frame, "start"), array(frame, "end")
    order = np.lexsort([-end, end > start, start, array(frame, "process")])
    frame = frame.drop(columns="open").iloc[order]
    inner = np.concatenate([np.empty(0, bool), *map(_inside_another, _by_process(frame))])
    frame, overlapping = _in_turns(frame[~inner].reset_index(drop=True))
    before = steps_before(trace[tables.RANGES])
    begun = first_kernels(trace) if before and trace.excerpt is None else {}
    flags = []
    for group in _by_process(frame):
        process, start, end = int(array(group, "process")[0]), array(group, "start"), array(group, "end")
        flags.append(warm_up(end - start, before.get(process, 0)))
        if before.get(process, 0):
            flags[-1] |= while_gpu_is_behind(start, end, begun.get(process))
    frame["warm_up"] = np.concatenate(flags) if flags else np.empty(0, bool)
    processes, others = at_one_time(frame, used)
    nested = (f"Left out: {units.counted(int(inner.sum()), 'step')} inside another step.",) if inner.any() else ()
    return Steps(frame, processes, (*_never_ended(left_open), *nested, *overlapping, *notes, *others))


def _by_process(steps: pd.DataFrame) -> list[pd.DataFrame]:
    """Return the steps of each process, by its id."""
    process = array(steps, "process")
    known = tables.distinct(process).tolist()
    return [steps[process == each] for each in known] if len(known) > 1 else [steps] * len(known)


def _inside_another(steps: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return which steps of one thread lie inside another one: a loop takes its steps in turns, a recursion does not.

    Args:
        steps: Sorted by start; of those that start together, those without length first, then the longest.
    """
    start, end = array(steps, "start"), array(steps, "end")
    reach = np.maximum.accumulate(end)
    inside = np.zeros(len(steps), bool)
    inside[1:] = (end[1:] <= reach[:-1]) & (start[1:] < reach[:-1])
    return inside


def _in_turns(steps: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return steps that end at the latest where the next one of their process begins, and a note on those that did not.

    Ranges that start and end on their own, such as those of a pipeline with several steps in flight, may overlap. Their
    time would count several times.

    Args:
        steps: Sorted by process and start; none lies inside another.
    """
    start, end, process = (array(steps, name) for name in ("start", "end", "process"))
    until = np.append(start[1:], 0)[: len(steps)]
    cut = (np.append(process[1:], 0)[: len(steps)] == process) & (until < end)
    if not cut.any():
        return steps, ()
    which = units.counted(int(cut.sum()), "step")
    return steps.assign(end=np.where(cut, until, end)), (f"Cut where the next step begins: {which}.",)


def _named_as_steps(trace: Trace, matcher: re.Pattern[str]) -> pd.DataFrame:
    """Return the ranges whose text names a step: process, thread, name, start, end (ns) and whether it never ended."""
    ranges = trace[tables.RANGES]
    with time_limit("--step-range", "" if matcher is STEP_TEXT else matcher.pattern):
        wanted = tables.rows_where(ranges["text"], matcher.search)
    named = ranges[without_doubtful_steps(ranges, wanted)]
    return pd.DataFrame(
        {
            "process": tables.process_of(array(named, "thread")),
            "thread": array(named, "thread"),
            "name": named["text"].astype(str).to_numpy(),
            "start": array(named, "start"),
            "end": array(named, "end"),
            "open": array(named, "open"),
        }
    )


def gpu_time(trace: Trace) -> dict[int, int]:
    """Return the summed time of the operations of each process that has any, in ns; overlapping ones count in full."""
    by_process: dict[int, int] = {}
    for spec in SOURCES:
        codes, processes = pd.factorize(array(trace[spec], "process"))
        time = np.bincount(codes, array(trace[spec], "end") - array(trace[spec], "start"), minlength=len(processes))
        for process, each in zip(processes.tolist(), time.tolist(), strict=True):
            by_process[process] = by_process.get(process, 0) + round(each)
    return by_process


def _launching_threads(trace: Trace) -> set[int]:
    """Return the threads that launched a kernel or a graph; a thread that launches only copies may be a data loader."""
    threads: set[int] = set()
    for spec in (tables.KERNELS, tables.GRAPHS):
        call = launch_calls(trace, array(trace[spec], "process"), array(trace[spec], "correlation_id"))
        threads.update(tables.distinct(coded(trace[tables.CALLS], "thread")[call[call >= 0]]).tolist())
    return threads


def _of_working_processes(steps: pd.DataFrame, used: Mapping[int, int]) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the steps of processes that launched operations, and a note on the others; all if none did."""
    working = steps["process"].isin(used.keys())
    if not working.any() or working.all():
        return steps, ()
    idle = units.counted(steps["process"][~working].nunique(), "process")
    return steps[working], (f"Left out: the steps of {idle} without recorded work on a GPU.",)


def _never_ended(steps: pd.DataFrame) -> tuple[str, ...]:
    if not len(steps):
        return ()
    names = steps.sort_values("start")["name"].unique()
    which = f"{len(steps)} steps ({names[0]} to {names[-1]})" if len(names) > 1 else names[0]
    return (f"Left out: {which}, still open when the capture or the program stopped.",)


def at_one_time(frame: pd.DataFrame, used: Mapping[int, int]) -> tuple[frozenset[int] | None, tuple[str, ...]]:
    """Return the processes whose steps count where processes run one after another, and a note on the others.

    Ranks train at the same time, and all count. Where programs run one after another, as in a sweep, only the one that
    used the GPU longest counts: the time between programs and their differences are not properties of a step.
    """
    if len(tables.distinct(array(frame, "process"))) <= 1:
        return None, ()
    bounds = frame.groupby("process").agg(start=("start", "min"), end=("end", "max")).sort_values("start")
    group = (bounds["start"] >= bounds["end"].cummax().shift(fill_value=bounds["end"].max())).cumsum()
    together = [frozenset(int(process) for process in mine.index) for _, mine in bounds.groupby(group)]
    if len(together) == 1 or not len(frame):
        return None, ()
    worked = bounds.index.isin(used.keys()).any()
    time = used if worked else (frame["end"] - frame["start"]).groupby(frame["process"]).sum()
    chosen = max(together, key=lambda processes: sum(time[each] for each in processes))
    which = ", ".join(str(tables.pid(each)) for each in sorted(chosen))
    why = "used the GPU longest" if worked else "took most time in them"
    note = f"Processes took steps one after another: the steps of {which} count, which {why}."
    return chosen, (f"{note} To look at another process, choose its time with --window.",)


def step_matcher(pattern: str) -> re.Pattern[str]:
    """Return the pattern of the texts of steps: the user's, or the usual spellings where it is empty.

    Raises:
        UsageError: The pattern is not a regular expression.
    """
    return compiled("--step-range", pattern, "^iteration") if pattern else STEP_TEXT


def _one_family(steps: pd.DataFrame, launching: Collection[int]) -> pd.DataFrame:
    """Return the steps of one thread and one spelling: where "step 3" holds "batch 12", those that cover most time.

    Threads that launch kernels come first: a loader's thread numbers its batches, too. Ranges that never ended count as
    without length.
    """
    family = [_NUMBER.sub("#", name) for name in steps["name"]]
    length = np.where(array(steps, "open"), 0, array(steps, "end") - array(steps, "start"))
    time: dict[tuple[int, str], int] = {}
    keys = list(zip(steps["thread"].tolist(), family, strict=True))
    for key, ns in zip(keys, length.tolist(), strict=True):
        time[key] = time.get(key, 0) + ns
    chosen = max(time, key=lambda key: (key[0] in launching, time[key], key[1]))
    kept: pd.DataFrame = steps[np.array([key == chosen for key in keys], bool)]
    return kept


def first_kernels(trace: Trace) -> dict[int, int]:
    """Return the start of the first kernel of each process, in ns."""
    process, start = (array(trace[tables.KERNELS], name) for name in ("process", "start"))
    return {each: int(start[process == each].min()) for each in tables.distinct(process).tolist()}


def while_gpu_is_behind(start: Times, end: Times, first: int | None) -> npt.NDArray[np.bool_]:
    """Return the steps of a process, recorded from a step on, in which its GPU still ran what was launched before that.

    ::

        host    |recording begins: step 26 |  step 27  |  step 28  |  step 29  |
        GPU      .... 23 ...|..... 24 .....|... 25 ...|## 26 ##|## 27 ##|## 28 ##|     none of it recorded before 26

    They end before the first kernel starts, and so does what the GPU did at the begin of the step after them. At most
    half of the steps are left out.
    """
    behind = 0 if first is None else int(np.searchsorted(end, first, side="right"))
    return np.arange(len(start)) < min(behind + 1 if behind else 0, len(start) // 2)


def warm_up(duration: npt.NDArray[np.int64], before: int = 0) -> npt.NDArray[np.bool_]:
    """Return which steps of one process are warm-up.

    Args:
        duration: Length of each step in ns, in order, shape (n,).
        before: How many steps the process had taken before these.

    Returns:
        True for the first two steps, unless as many came before, and for the following ones while they take more than
        twice the median of all later steps; for at most half of the steps.
    """
    count = len(duration)
    most = count // 2
    leading = min(0 if before >= WARM_UP_STEPS else WARM_UP_STEPS, most)
    while leading < most and duration[leading] > WARM_UP_FACTOR * np.median(duration[leading + 1 :]):
        leading += 1
    return np.arange(count) < leading


def find_timed_steps(processes: Sequence[Mapping[str, Any]], pattern: str = "") -> Steps:
    """Return the steps of a run, found by the same rules as those of a capture.

    Args:
        processes: ``pid`` and ``ranges`` of each process; a range is a list of thread number, domain, text, start and
            end in ns.
        pattern: Regular expression of the ranges that are steps; empty for the usual spellings.

    Raises:
        UsageError: The pattern is no regular expression.
    """
    rows = [
        (start, end, (int(each["pid"]) << THREAD_BITS) | (thread & THREAD_MASK), text, domain)
        for each in processes
        for thread, domain, text, start, end in each["ranges"]
    ]
    timed = pd.DataFrame(rows, columns=["start", "end", "thread", "text", "domain"])
    timed = timed.assign(end_thread=timed["thread"], kind=0, open=False)
    ranges = timed.astype(dict(tables.RANGES.columns))[list(tables.RANGES.columns)]
    frames = {spec.name: spec.empty() for spec in tables.SPECS}
    frames[tables.RANGES.name] = ranges.sort_values("start", kind="stable", ignore_index=True)
    absent = frozenset(spec.name for spec in tables.SPECS if spec is not tables.RANGES)
    return find_steps(Trace(Capture("", 0), Session(), (), frames, {}, {}, {}, absent, {}), pattern)
