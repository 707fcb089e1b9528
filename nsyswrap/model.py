"""The types of a report: facts, findings and tables in sections, about one window of one capture.

Times are int64 ns since capture start, sizes bytes, ratios shares of 1. Only ``units`` rounds, when a value is shown.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from nsyswrap.base.interval import Interval
from nsyswrap.base.intervals import Times, Window
from nsyswrap.rules import rule_of
from nsyswrap.rules.program_kind import UNKNOWN, ProgramKind

if TYPE_CHECKING:  # the history does without it
    import pandas as pd

Unit = Literal["ns", "share", "count", "bytes", "flop", "text"]
Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.integer[Any]]
PARTS = "compute_ns communication_wait_ns communication_transfer_ns copy_exposed_ns memset_exposed_ns idle_ns"
"""Columns of the parts of GPU time."""


class Severity(StrEnum):
    """How much a finding matters."""

    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"

    @property
    def rank(self) -> int:
        """Return 0 for the most severe, so that findings sort by it."""
        return {"problem": 0, "warning": 1, "note": 2}[self.value]


@dataclass(frozen=True, slots=True)
class Capture:
    """The file that was read.

    Attributes:
        name: File name without its folder.
        bytes: Size of the export.
        folder: Its folder, as a command in the user's working folder may name it.
    """

    name: str
    bytes: int
    folder: str = "."


@dataclass(frozen=True, slots=True)
class Session:
    """When and how the capture was made; nothing here names a host, a user or a home folder.

    Attributes:
        nsys_version: Version of nsys that wrote the export, such as "2025.3.2.0"; empty if unknown.
        schema_version: Version of the export's schema, such as "3.20.3"; empty if unknown.
        started_utc: Start of the capture, ISO 8601 in UTC; empty if unknown.
        duration_ns: Length of the capture; 0 if unknown.
        command: The profiled command, one item for each argument.
        traces: What nsys traced, such as ("Cuda", "NvtxEvents").
        graph_trace: How CUDA graphs were traced: "Graph", "Node" or empty.
        driver_version: NVIDIA driver, such as "580.159.04"; empty if unknown.
        cuda_version: CUDA version the driver supports, such as "13.0"; empty if unknown.
        secrets: Names of environment variables in the capture that look like secrets.
    """

    nsys_version: str = ""
    schema_version: str = ""
    started_utc: str = ""
    duration_ns: int = 0
    command: tuple[str, ...] = ()
    traces: tuple[str, ...] = ()
    graph_trace: str = ""
    driver_version: str = ""
    cuda_version: str = ""
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU that ran something.

    Attributes:
        device_id: CUDA ordinal, as in the tables.
        name: Such as "NVIDIA H200".
        compute_capability: Such as (9, 0); None if unknown.
        sm_count: Streaming multiprocessors; 0 if unknown.
        memory_bytes: Size of its memory; 0 if unknown.
        sm_warps: Warps that a multiprocessor holds at once; 0 if unknown.
        sm_blocks: Blocks that it holds at once; 0 if unknown.
        sm_registers: 32-bit registers it has; 0 if unknown.
        sm_shared_bytes: Shared memory it has; 0 if unknown.
        memory_bytes_per_second: Peak rate of its memory; 0 if unknown.
        cache_bytes: Size of its L2 cache; 0 if unknown.
        clock_hz: Highest clock of its multiprocessors; 0 if unknown.
        rank: Number of the rank that used it; None where the capture has one rank only.
        bus: Its place on the PCI bus, such as "0000:1B:00.0"; empty if unknown.
    """

    device_id: int
    name: str
    compute_capability: tuple[int, int] | None = None
    sm_count: int = 0
    memory_bytes: int = 0
    sm_warps: int = 0
    sm_blocks: int = 0
    sm_registers: int = 0
    sm_shared_bytes: int = 0
    memory_bytes_per_second: int = 0
    cache_bytes: int = 0
    clock_hz: int = 0
    rank: int | None = None
    bus: str = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True)
class Fact:
    """One number with a unit, or a short text."""

    label: str
    value: int | float | str | None
    unit: Unit


# Starts of the evidence that names lines of Python: the one with most samples, and of the X-ray step the one that
# launches most of the operations, or most of those that end idle time.
MOST_SAMPLES, LAUNCHED_AT, ENDED_AT = "most samples: ", "launched at: ", "idle before launches at: "
# What comes before the module in it.
IN_MODULE = " in module "
_MODULE = re.compile(rf"{IN_MODULE}(.+?)(?: and [0-9,]+ more)?(?:, |$)")
SavingMethod = Literal["measured", "benchmarked", "simulated", "estimated"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem with its time lost, its predicted saving, advice and evidence.

    Attributes:
        rule: Key of the rule, such as "idle/data_wait".
        severity: How much it matters.
        headline: One sentence: what is wrong.
        lost_ns: Time lost to the problem inside the window; the mean over GPUs where it is about several of them.
        saving: The time that fixing it saves, in ns; None where nothing can be predicted.
        advice: One sentence: what to try.
        evidence: The numbers that support it, one line each.
        device_id: Its GPU; None for the whole capture.
        window: Interval of the numbers.
        saving_method: "measured" in a run with the fix, "benchmarked" beside it, "simulated" on the dependency graph or
            "estimated" by a formula; None without a prediction.
        what_if: The change behind a simulated saving, a ``WhatIf``; None otherwise. report.json does not hold it.
    """

    rule: str
    severity: Severity
    headline: str
    lost_ns: int
    saving: Interval[int] | None
    advice: str
    evidence: tuple[str, ...]
    device_id: int | None
    window: Window
    saving_method: SavingMethod | None = None
    what_if: object = field(default=None, compare=False, repr=False)

    @property
    def order(self) -> tuple[bool, int, int, str, int]:
        """Return the sort key: the largest predicted saving first, then the most time lost; notes after the rest.

        A finding without a prediction may save nothing or all of its time lost, so half of that counts. A late rank
        comes before what its host does that saves a quarter more, and slow steps after a cause that saves a quarter
        less.
        """
        saving = self.lost_ns // 2 if self.saving is None else self.saving.point
        saving = round(saving * rule_of(self.rule).weight)
        device = -1 if self.device_id is None else self.device_id
        return (self.severity is Severity.NOTE, -saving, -self.lost_ns, self.rule, device)

    @property
    def line(self) -> str | None:
        """Return the line of Python with most samples, or of the X-ray step, in words; None where it is not known."""
        return self.lines[0].partition(": ")[2] if self.lines else None

    @property
    def module(self) -> str | None:
        """Return the path of the module that launches most of what it is about; None where it is not known."""
        found = next((match for each in self.lines if (match := _MODULE.search(each))), None)
        return None if found is None else found[1]

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the evidence that names lines of Python; none where they are not known."""
        return tuple(each for each in self.evidence if each.startswith((MOST_SAMPLES, LAUNCHED_AT, ENDED_AT)))


@dataclass(frozen=True, slots=True)
class Section:
    """One analysis of one window.

    Attributes:
        key: Name in report.json, such as "ledger".
        title: Heading.
        window: Interval of the numbers.
        facts: Single numbers, in the order they are shown.
        tables: Tables by name; the suffix of a column's name is its unit.
        findings: Advice that follows from this section.
        notes: Limits, rows that are left out, and assumptions.
    """

    key: str
    title: str
    window: Window
    facts: tuple[Fact, ...] = ()
    tables: Mapping[str, "pd.DataFrame"] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()

    def fact(self, label: str) -> Fact | None:
        """Return the fact with this label, or None."""
        return next((fact for fact in self.facts if fact.label == label), None)


class KernelName(NamedTuple):
    """The name of operations and its classification; the verdict is empty for copies and memsets."""

    name: str
    verdict: str = ""
    precision: str = ""
    library: str = ""


@dataclass(frozen=True, slots=True)
class TimelineItems:
    """The single items of a row, in order of start: arrays of equal length.

    Attributes:
        start: ns since capture start.
        end: ns since capture start.
        code: Index into the row's classes.
        details: More whole numbers of each item, by name, such as ``phase`` or ``latency``.
    """

    start: Times
    end: Times
    code: Numbers
    details: Mapping[str, Numbers] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """One row of the timeline.

    Attributes:
        kind: "gpu", "stream", "phases", "steps", "thread", "range", "python" or "counter".
        label: Its label.
        device_id: GPU; -1 for none.
        process: Number of the process; 0 for none.
        thread: Number of the thread; 0 for none.
        classes: Meaning of the codes of its items and of the rows of its sums. Idle time of a GPU has its rule.
        sums: ns of each class in each bin, shape (classes, bins). For a counter hundredths of a per cent, -1 for none.
        exact: Whether each bin has all its items, shape (bins,).
        items: The items that touch an exact bin.
    """

    kind: str
    label: str
    device_id: int
    process: int
    thread: int
    classes: tuple[str, ...]
    sums: npt.NDArray[np.int64]
    exact: Flags
    items: TimelineItems


class LongGap(NamedTuple):
    """One of the longest idle spans."""

    device_id: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class TimelineData:
    """The content of a page's timeline: rows of sums over bins and, for some bins, of single items.

    Time is cut at *edges* into bins. Each row has the exact ns of each class in each bin, so a sum over consecutive
    bins is exact at every zoom. In the bins marked ``exact`` it also has every item::

        edges    |-----|-----|-----|-----|-----|-----|
        items          |x xx x|xxx x|
        exact       no   yes    yes   no    no    no
        sums       3     4      5     2     0     1      of each class

    The size of a timeline does not grow with the capture: bins and items are limited.

    Attributes:
        window: Interval of the report; idle time outside of it has no cause.
        edges: Bounds of the bins, ascending, ns since capture start, shape (bins + 1,). The window, the steps and the
            longest gaps start and end at an edge, so their sums are always exact.
        rows: The rows from top to bottom.
        gaps: The longest gaps of all GPUs, longest first; the page numbers them in this order.
        phases: Name of each phase code.
        texts: Texts that the numbers in details refer to, by the name of the detail.
        kernels: Names that the detail ``name`` of operations refers to.
        left_out: Sentences about what is not shown.
    """

    window: Window
    edges: Times
    rows: tuple[TimelineRow, ...]
    gaps: tuple[LongGap, ...]
    phases: tuple[str, ...]
    texts: Mapping[str, tuple[str, ...]]
    kernels: tuple[KernelName, ...]
    left_out: tuple[str, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Return whether every row has all its items."""
        return all(bool(row.exact.all()) for row in self.rows if row.kind != "counter")


AloneSource = Literal["this_process", "second_run", "simulated"]


@dataclass(frozen=True, slots=True)
class StepTimes:
    """The number, the median length and the mean time of the steps that make up the window.

    Attributes:
        count, recorded_ns: Measured steps of one process and their median length; None where there are none.
        alone: The median length without nsys, in ns; None where it is unknown.
        alone_source: What that comes from; None where it is unknown.
        total_ns: Time of all these steps, from the start of the first to the end of the last: the mean over processes,
            whose steps begin at different times. None for the length of the window.
        alone_total_ns: The same time in the program as it runs alone, of the longest process: hosts of ranks that wait
            for it may run ahead. None where it is unknown.
    """

    count: int | None = None
    recorded_ns: int | None = None
    alone: Interval[int] | None = None
    alone_source: AloneSource | None = None
    total_ns: int | None = None
    alone_total_ns: int | None = None

    def total_in(self, window: Window) -> int:
        """Return the time of all steps of a window, in ns."""
        return window.length_ns if self.total_ns is None else self.total_ns

    def mean_in(self, window: Window) -> int:
        """Return the time from the start of a step to the start of the next, in ns; a window has at least one step."""
        return self.total_in(window) // max(self.count or 0, 1)


NO_STEP = StepTimes()


PlanSource = Literal["simulated", "benchmarked", "measured"]


class PlannedChange(NamedTuple):
    """One change of the plan, made on top of those before it.

    Attributes:
        rule: Rule of the findings that it fixes.
        step: The time of a step with it and the changes before it, in ns.
        source: What its time comes from.
    """

    rule: str
    step: Interval[int]
    source: PlanSource = "simulated"

    def saving(self, now_ns: int) -> Interval[int]:
        """Return what it and those before it save of a step that takes so long now, in ns."""
        return self.step.map(lambda ns: now_ns - ns)


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes in the order that helps most.

    Attributes:
        step_ns: Mean time of a step now; None where there is no plan.
        changes: The changes.
        notes: Sentences: what limits the run after them, and which findings are not in the plan.
    """

    step_ns: int | None = None
    changes: tuple[PlannedChange, ...] = ()
    notes: tuple[str, ...] = ()


NO_PLAN = Plan()


@dataclass(frozen=True, slots=True)
class Report:
    """The report of one capture.

    Attributes:
        capture: File that was read.
        session: When and how it was made.
        gpus: GPUs that ran something, by device id.
        window: Interval of the numbers.
        verdict: One sentence: what limits this run.
        sections: The sections, in the order they are shown.
        findings: All findings, the largest predicted saving first.
        notes: What could not be analysed, and why.
        verdict_rule: Rule of the first finding; None where kernels alone limit the run or the capture cannot tell.
        step: The measured steps of the window.
        timeline: Content of the page's timeline; None where it was not requested or there is no GPU work.
        plan: The changes in the order that helps most.
        program_kind: What kind of program it is.
    """

    capture: Capture
    session: Session
    gpus: tuple[Gpu, ...]
    window: Window
    verdict: str
    sections: tuple[Section, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    verdict_rule: str | None = None
    step: StepTimes = NO_STEP
    timeline: TimelineData | None = None
    plan: Plan = NO_PLAN
    program_kind: ProgramKind = UNKNOWN

    def section(self, key: str) -> Section | None:
        """Return the section with this key, or None where it was skipped."""
        return next((section for section in self.sections if section.key == key), None)

    def with_section(self, section: Section) -> "Report":
        """Return the report with one more section at its end."""
        return replace(self, sections=(*self.sections, section))

    def rows(self, key: str, table: str) -> "pd.DataFrame | None":
        """Return a table of a section; None where it is missing or empty."""
        section = self.section(key)
        rows = section.tables.get(table) if section is not None else None
        return rows if rows is not None and len(rows) else None
