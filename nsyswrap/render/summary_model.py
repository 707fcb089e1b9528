"""What every form of the report shows first: ledger, idle time by root cause, findings.

Nothing is measured here. Tables and facts of the sections are looked up, summed over rows and divided by their
window once, so page, terminal and Markdown show the same numbers.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from nsyswrap.base import units
from nsyswrap.base.intervals import Window
from nsyswrap.model import Finding, Gpu, Report, Section
from nsyswrap.render.escape import visible
from nsyswrap.render.rows import plain
from nsyswrap.render.vocabulary import LEDGER_PARTS, LedgerPart, cause_name
from nsyswrap.rules.ranks import LATE

if TYPE_CHECKING:
    from nsyswrap.compare.comparison import FindingPair

Row = dict[str, Any]

# Parts of the ledger that are shown even where they are zero on all GPUs.
_ALWAYS_SHOWN = ("compute", "idle")
_MOST_CAUSES = 2


@dataclass(frozen=True, slots=True)
class LedgerAmount:
    """A part of a ledger: which part, its time, and its share of the window."""

    part: LedgerPart
    ns: int
    share: float


@dataclass(frozen=True, slots=True)
class IdlePart:
    """Idle time of one GPU that belongs to one rule, over all phases or in one.

    Attributes:
        rule: Key of the rule that the time is attributed to, whether or not its finding is shown.
        phase: Phase; empty where all phases are added.
        causes: Keys of the causes with their idle time, largest first.
    """

    rule: str
    phase: str
    device_id: int
    ns: int
    share: float
    causes: tuple[tuple[str, int], ...]

    @property
    def cause_names(self) -> str:
        """Return the names of the largest causes; empty where the rule is the cause itself."""
        if self.rule.startswith("idle/"):
            return ""
        names = [cause_name(cause) for cause, _ in self.causes]
        return ", ".join([*names[:_MOST_CAUSES], *(["..."] if len(names) > _MOST_CAUSES else [])])

    @property
    def first_cause(self) -> str:
        """Return the name of the largest cause; empty where the rule is the cause itself."""
        return cause_name(self.causes[0][0]) if self.cause_names else ""


@dataclass(frozen=True, slots=True)
class DeviceLedger:
    """Where the time of one GPU went: parts that add up to the window, and its idle time by rule."""

    device_id: int
    name: str
    window_ns: int
    parts: tuple[LedgerAmount, ...]
    idle: tuple[IdlePart, ...]
    rank: int | None = None

    @property
    def idle_ns(self) -> int:
        """Return the idle time, which is the last part."""
        return self.parts[-1].ns


def rows(section: Section | None, table: str) -> list[Row]:
    """Return the rows of a table as dictionaries of plain Python values; none where it is missing."""
    if section is None or table not in section.tables:
        return []
    return records(section.tables[table])


def records(frame: pd.DataFrame) -> list[Row]:
    """Return a frame's rows as dictionaries; ints, floats, texts and None only."""
    names = [str(name) for name in frame.columns]
    columns = [plain(column) for _, column in frame.items()]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def ledgers(report: Report) -> tuple[DeviceLedger, ...]:
    """Return the ledger of each GPU, in order of GPU; empty where the report has none.

    A part that is zero on all GPUs is left out.
    """
    found = sorted(rows(report.section("ledger"), "devices"), key=lambda row: int(row["device_id"]))
    shown = [part for part in LEDGER_PARTS if part.key in _ALWAYS_SHOWN or any(row.get(part.column) for row in found)]
    gpus = {gpu.device_id: gpu for gpu in report.gpus}
    idle: dict[int, list[IdlePart]] = {}
    for each in idle_by_phase(report, {int(row["device_id"]): int(row["window_ns"]) for row in found}):
        idle.setdefault(each.device_id, []).append(each)
    ledgers = []
    for row in found:
        device, window = int(row["device_id"]), int(row["window_ns"])
        times = ((part, int(row.get(part.column) or 0)) for part in shown)
        parts = tuple(LedgerAmount(part, ns, ns / window) for part, ns in times)
        gpu, causes = gpus.get(device, Gpu(device, "")), over_phases(idle.get(device, ()), device)
        ledgers.append(DeviceLedger(device, gpu.name, window, parts, causes, gpu.rank))
    return tuple(ledgers)


NO_GPU_WORK = "no GPU work recorded"


def gpu_names(report: Report) -> str:
    """Return the kinds of GPU and the number of each, such as ``2 × NVIDIA H200``; empty without a GPU."""
    names = [gpu.name for gpu in report.gpus]
    kinds = sorted(set(names))
    counted = (units.times(names.count(kind), kind) if names.count(kind) > 1 else kind for kind in kinds)
    return visible(", ".join(counted))


def gpus_in_words(report: Report) -> str:
    """Return the kinds of GPU and the number of each; without any, whether their work or description is missing."""
    return gpu_names(report) or (NO_GPU_WORK if report.section("ledger") is None else "GPU unknown")


def idle_by_phase(report: Report, windows: dict[int, int] | None = None) -> tuple[IdlePart, ...]:
    """Return the idle time of each GPU by rule and phase, largest first.

    Args:
        report: The report.
        windows: Length of the window of each GPU, ns; that of the report where it is not given.
    """
    causes: dict[tuple[int, str, str], dict[str, int]] = {}
    for row in rows(report.section("idle"), "attribution"):
        mine = causes.setdefault((int(row["device_id"]), str(row["rule"]), str(row["phase"])), {})
        mine[str(row["cause"])] = mine.get(str(row["cause"]), 0) + int(row["idle_ns"])
    whole = windows or {}
    return _largest_first(
        _idle_part(rule, phase, device, mine, whole.get(device, report.window.length_ns))
        for (device, rule, phase), mine in causes.items()
    )


def over_phases(parts: Iterable[IdlePart], device_id: int) -> tuple[IdlePart, ...]:
    """Return the idle time of one GPU by rule, all phases added, largest first."""
    causes: dict[str, dict[str, int]] = {}
    shares: dict[str, float] = {}
    for one in parts:
        if one.device_id == device_id:
            shares[one.rule] = shares.get(one.rule, 0.0) + one.share
            mine = causes.setdefault(one.rule, {})
            for cause, ns in one.causes:
                mine[cause] = mine.get(cause, 0) + ns
    return _largest_first(
        IdlePart(rule, "", device_id, sum(mine.values()), shares[rule], _by_time(mine)) for rule, mine in causes.items()
    )


def _idle_part(rule: str, phase: str, device_id: int, causes: dict[str, int], window_ns: int) -> IdlePart:
    ns = sum(causes.values())
    return IdlePart(rule, phase, device_id, ns, ns / window_ns, _by_time(causes))


def _by_time(times: dict[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(times.items(), key=lambda pair: (-pair[1], pair[0])))


def short(window: Window) -> str:
    """Return a window's label without the text in parentheses; the top of the report has the whole label."""
    return window.label.split(" (", maxsplit=1)[0]


def finding_groups(report: Report) -> tuple[tuple[Finding, ...], ...]:
    """Return the findings in groups: the same rule and advice on several GPUs is one group.

    Findings about no GPU stay apart: only their headlines say which process they are about. Groups and their findings
    keep the order of the report.
    """
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in report.findings:
        who = finding.headline if finding.device_id is None else ""
        groups.setdefault((finding.rule, finding.advice, who), []).append(finding)
    return tuple(tuple(group) for group in groups.values())


def device_of_verdict(report: Report) -> int | None:
    """Return the GPU that the verdict is about; None for all of them, as where they wait for a late rank."""
    first = next((each for each in report.findings if each.rule == report.verdict_rule), None)
    return None if first is None or first.rule == LATE.key else first.device_id


def place(finding: "Finding | FindingPair") -> str:
    """Return what a finding is about: a GPU, or the whole capture."""
    return "whole capture" if finding.device_id is None else f"GPU {finding.device_id}"


def code_line(finding: Finding) -> str:
    """Return where a finding is in the program, such as "Launched at: train.py:40"; empty where it is not known."""
    return finding.lines[0][0].upper() + finding.lines[0][1:] if finding.lines else ""


def finding_share(finding: Finding) -> str:
    """Return the time lost as a share of the window; empty where it exceeds it, as a sum over GPUs can."""
    if not 0 < finding.lost_ns <= finding.window.length_ns:
        return ""
    return f"{units.share_of(finding.lost_ns, finding.window.length_ns)} of {short(finding.window)}"


def _largest_first(parts: Iterable[IdlePart]) -> tuple[IdlePart, ...]:
    return tuple(sorted(parts, key=lambda one: (-one.ns, one.device_id, one.rule, one.phase)))
