"""What every form of the report shows first, taken from its sections: ledger, causes, key numbers.

Nothing is measured here. Tables and facts of the sections are looked up, summed over rows and divided by their
window, once, so that page, terminal and Markdown cannot disagree.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from nsyswrap import units
from nsyswrap.intervals import Window
from nsyswrap.model import Fact, Finding, Report, Section
from nsyswrap.render import gaps
from nsyswrap.render.vocabulary import LEDGER_PARTS, LedgerPart

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Amount:
    """A part of a ledger row: which, how long, and its share of the window."""

    part: LedgerPart
    ns: int
    share: float


@dataclass(frozen=True, slots=True)
class Cause:
    """Idle time of one cause, over all phases or in one.

    Attributes:
        cause: Key of the cause.
        phase: Phase; empty where all phases are taken together.
        device_id: GPU.
        ns: Idle time.
        share: Of the window of that GPU.
        gap_count: How many gaps have it.
    """

    cause: str
    phase: str
    device_id: int
    ns: int
    share: float
    gap_count: int


@dataclass(frozen=True, slots=True)
class DeviceLedger:
    """Where the time of one GPU went: parts that add up to the window, and the causes of its idle part."""

    device_id: int
    name: str
    window_ns: int
    parts: tuple[Amount, ...]
    causes: tuple[Cause, ...]

    @property
    def idle_ns(self) -> int:
        """Idle time, the last part."""
        return self.parts[-1].ns


@dataclass(frozen=True, slots=True)
class KeyNumber:
    """One number that is shown large.

    Attributes:
        label: What it is.
        value: The number with its unit.
        note: What it is a share of, and what else belongs to it.
    """

    label: str
    value: str
    note: str


def rows(section: Section | None, table: str) -> list[Row]:
    """Return the rows of a table as dictionaries of plain Python values; none where it is missing."""
    if section is None or table not in section.tables:
        return []
    return records(section.tables[table])


def records(frame: pd.DataFrame) -> list[Row]:
    """Return a frame's rows as dictionaries; ints, floats, texts and None only."""
    names = [str(name) for name in frame.columns]
    columns = [plain(frame.iloc[:, at]) for at in range(len(names))]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def plain(column: "pd.Series[Any]") -> list[Any]:
    """Return a column as plain Python values; NaN, NA and infinities become None."""
    values: list[Any] = column.tolist()
    if column.dtype.kind in "iub":
        return values
    if column.dtype.kind == "f":
        return [value if -float("inf") < value < float("inf") else None for value in values]
    return [None if units.is_missing(value) else value for value in values]


def ledgers(report: Report) -> tuple[DeviceLedger, ...]:
    """Return the ledger of each GPU, in order of GPU; nothing where the report has none."""
    names = {gpu.device_id: gpu.name for gpu in report.gpus}
    found = []
    for row in rows(report.section("ledger"), "devices"):
        device, window = int(row["device_id"]), int(row["window_ns"])
        parts = tuple(
            Amount(part, int(row.get(part.column) or 0), int(row.get(part.column) or 0) / window)
            for part in LEDGER_PARTS
        )
        found.append(DeviceLedger(device, names.get(device, ""), window, parts, ()))
    windows = {ledger.device_id: ledger.window_ns for ledger in found}
    by_device = causes(report, windows)
    return tuple(
        DeviceLedger(one.device_id, one.name, one.window_ns, one.parts, merged(by_device, one.device_id))
        for one in sorted(found, key=lambda one: one.device_id)
    )


def causes(report: Report, windows: dict[int, int]) -> tuple[Cause, ...]:
    """Return the idle time of each GPU, cause and phase, dearest first.

    Args:
        report: The report.
        windows: Length of the window of each GPU, ns.
    """
    found = (
        Cause(
            cause=str(row["cause"]),
            phase=str(row["phase"]),
            device_id=int(row["device_id"]),
            ns=int(row["idle_ns"]),
            share=int(row["idle_ns"]) / windows.get(int(row["device_id"]), report.window.length_ns),
            gap_count=int(row["gap_count"]),
        )
        for row in rows(report.section("idle"), "causes")
    )
    return _dearest(found)


def merged(parts: Iterable[Cause], device_id: int) -> tuple[Cause, ...]:
    """Return the causes of one GPU with their phases taken together, dearest first."""
    totals: dict[str, Cause] = {}
    for one in parts:
        if one.device_id != device_id:
            continue
        before = totals.get(one.cause) or Cause(one.cause, "", device_id, 0, 0.0, 0)
        totals[one.cause] = Cause(
            one.cause, "", device_id, before.ns + one.ns, before.share + one.share, before.gap_count + one.gap_count
        )
    return _dearest(totals.values())


def worst_gaps(report: Report, most: int) -> gaps.Longest:
    """Return the longest gaps of all GPUs."""
    section = report.section("idle")
    if section is None or "gaps" not in section.tables:
        return gaps.Longest((), 0, 0)
    return gaps.longest(section.tables["gaps"], most)


def key_numbers(report: Report) -> tuple[KeyNumber, ...]:
    """Return busy share, idle share, tensor-core share and median step, as far as they were measured."""
    return (*_busy_and_idle(report), *_tensor_cores(report), *_median_step(report))


def short(window: Window) -> str:
    """Return a window's label without what stands in parentheses; the whole label heads the report."""
    return window.label.split(" (", maxsplit=1)[0]


def finding_groups(report: Report) -> tuple[tuple[Finding, ...], ...]:
    """Return the findings, those of one rule with one advice together: the same matter on several GPUs.

    Groups, and findings in them, stay in the order of the report.
    """
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in report.findings:
        groups.setdefault((finding.rule, finding.advice), []).append(finding)
    return tuple(tuple(group) for group in groups.values())


def place(finding: Finding) -> str:
    """Return what a finding is about: a GPU, or the whole capture."""
    return "whole capture" if finding.device_id is None else f"GPU {finding.device_id}"


def cost_and_gain(finding: Finding) -> str:
    """Return what a finding costs and what mending it gains, in words; nothing where it is not about time."""
    gain = f"gain {units.gain(finding.saving_low_ns, finding.saving_high_ns)}"
    if finding.lost_ns <= 0:
        return gain if finding.saving_high_ns else ""
    share = finding_share(finding)
    cost = f"costs {units.duration(finding.lost_ns)}" + (f", {share}" if share else "")
    return f"{cost}; {gain}"


def finding_share(finding: Finding) -> str:
    """Return a finding's cost as a share of its window, or nothing where it spans several GPUs' time."""
    if not 0 < finding.lost_ns <= finding.window.length_ns:
        return ""
    return f"{units.share_of(finding.lost_ns, finding.window.length_ns)} of {short(finding.window)}"


def median_step(report: Report) -> Fact | None:
    """Return the median time of a step, where steps were found."""
    section = report.section("steps")
    if section is None:
        return None
    timed = [fact for fact in section.facts if fact.unit == "ns" and not units.is_missing(fact.value)]
    return next((fact for fact in timed if "median" in fact.label.lower()), None)


def _busy_and_idle(report: Report) -> tuple[KeyNumber, ...]:
    found = ledgers(report)
    section = report.section("ledger")
    if not found or section is None:
        return ()
    window, idle = sum(one.window_ns for one in found), sum(one.idle_ns for one in found)
    note = f"of {short(section.window)}"
    if len(found) > 1:
        note += f", mean of {len(found)} GPUs"
    return (
        KeyNumber("GPU busy", units.share_of(window - idle, window), note),
        KeyNumber("GPU idle", units.share_of(idle, window), note),
    )


def _tensor_cores(report: Report) -> tuple[KeyNumber, ...]:
    section = report.section("tensor_cores")
    if section is None:
        return ()
    low, high, counter = (section.fact(label) for label in ("share_low", "share_high", "counter_share"))
    if low is None or high is None:
        return ()
    measured = _number(low) is not None
    note = f"of kernel time in {short(section.window)}" if measured else f"in {short(section.window)}"
    if counter is not None and not units.is_missing(counter.value):
        least = section.fact("counter_share_low") or counter
        note += f"; by counter {units.share_band(_number(least), _number(counter))}"
    return (KeyNumber("tensor-core share", units.share_band(_number(low), _number(high)), note),)


def _median_step(report: Report) -> tuple[KeyNumber, ...]:
    fact, section = median_step(report), report.section("steps")
    if fact is None or section is None:
        return ()
    return (KeyNumber("median step", units.text(fact.value, "ns"), f"over {short(section.window)}"),)


def _number(fact: Fact) -> float | None:
    return None if fact.value is None or isinstance(fact.value, str) else float(fact.value)


def _dearest(parts: Iterable[Cause]) -> tuple[Cause, ...]:
    return tuple(sorted(parts, key=lambda one: (-one.ns, one.device_id, one.cause, one.phase)))
