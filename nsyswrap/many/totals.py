"""Adds up the sums of many captures, one at a time and in their order, so that the result is always the same."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import NamedTuple

from nsyswrap.many.capture_sums import LEDGER, CaptureSums, FindingSum
from nsyswrap.many.outliers import Outlier, StepAccount, find_outliers, usual_steps
from nsyswrap.model import Severity

# What captures are grouped by, in the order of the page.
GROUPINGS = ("program", "gpu", "host", "day")
UNKNOWN = "unknown"
NO_GPU = "none"


class CaptureRow(NamedTuple):
    """One capture in the list of all.

    Attributes:
        name: Its path below the folder of all captures.
        program, gpu, host, day: Its groups; the program with its arguments.
        gpu_ns: GPU time of its window.
        step_ns: Median step; None where there are no steps.
        usual_share: Its step as a share of the usual one of its program and GPUs; None where there is none to compare.
        busy_ns, idle_ns: GPU time with and without an operation.
        rule: Rule of the finding that loses most; empty without one.
    """

    name: str
    program: str
    gpu: str
    host: str
    day: str
    gpu_ns: int
    step_ns: int | None
    usual_share: float | None
    busy_ns: int
    idle_ns: int
    rule: str
    lost_ns: int
    verdict: str

    def group(self, grouping: str) -> str:
        """Return its group in one of ``GROUPINGS``."""
        return str(getattr(self, grouping))


class FindingRow(NamedTuple):
    """The findings of one rule over all captures.

    Attributes:
        severity: The most severe of them.
        saving_ns: Predicted saving as GPU time, of the captures that have a prediction; None where none has.
        median_share: Median over these captures of the share of their GPU time that is lost.
        most_share: The largest share, and ``worst`` the capture that has it.
    """

    rule: str
    severity: str
    captures: int
    lost_ns: int
    saving_ns: int | None
    median_share: float
    most_share: float
    worst: str

    @property
    def is_of_program(self) -> bool:
        """Return whether it may be why programs are slow."""
        return is_of_program(self.rule, self.severity)


class KernelRow(NamedTuple):
    """The launches of one kernel over all captures."""

    name: str
    captures: int
    launches: int
    total_ns: int


class GroupRow(NamedTuple):
    """The captures of one program, GPU, host or day.

    Attributes:
        ledger: GPU time by row of the ledger; adds up to ``gpu_ns``.
        usual_share: Median over the captures of the step as a share of the usual one; None where none is compared.
        rule: Rule of the finding that loses most; empty without one.
    """

    name: str
    captures: int
    gpu_ns: int
    ledger: Mapping[str, int]
    usual_share: float | None
    rule: str
    lost_ns: int


class FailedRow(NamedTuple):
    """A capture that could not be read or analyzed, and why."""

    name: str
    error: str


@dataclass(frozen=True, slots=True)
class ManyCaptures:
    """What many captures have in common.

    Attributes:
        failed: Those without sums.
        repeated: Captures that are the same as another one, and the name of that one; they count once.
        ledger: GPU time by row of the ledger; adds up to the windows of all GPUs.
        idle: Idle GPU time by rule; adds up to the ledger's idle time.
        findings: Findings by rule, those that lose most first; notes after the rest.
        kernels: Kernels by name, the most time first.
        other_kernels: Kernels below the largest of their capture, in one row without a name.
        outliers: Captures whose step is far from that of their like.
        groups: For each of ``GROUPINGS``, its groups, the most GPU time first; days in their order.
        without_steps: Number of captures without steps, whose step cannot be compared.
    """

    captures: tuple[CaptureRow, ...]
    failed: tuple[FailedRow, ...]
    repeated: tuple[tuple[str, str], ...]
    ledger: Mapping[str, int]
    idle: Mapping[str, int]
    findings: tuple[FindingRow, ...]
    kernels: tuple[KernelRow, ...]
    other_kernels: KernelRow
    outliers: tuple[Outlier, ...]
    groups: Mapping[str, tuple[GroupRow, ...]]
    without_steps: int

    @property
    def gpu_ns(self) -> int:
        """Return the GPU time of all captures."""
        return sum(self.ledger.values())

    @property
    def kernel_ns(self) -> int:
        """Return the time of all kernels."""
        return sum(each.total_ns for each in self.kernels) + self.other_kernels.total_ns


def is_of_program(rule: str, severity: str) -> bool:
    """Return whether a finding may be why a program is slow: no note, and not about the capture itself."""
    return severity != Severity.NOTE.value and not rule.startswith("capture/")


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sum of each key over some mappings."""
    found: Counter[str] = Counter()
    for part in parts:
        found.update(part)
    return dict(found)


def _problems(sums: CaptureSums) -> dict[str, int]:
    """Return the GPU time that each finding of the program loses."""
    return {each.rule: each.lost_ns for each in sums.findings if is_of_program(each.rule, each.severity)}


def totals_of(
    captures: Iterable[tuple[str, CaptureSums | str]], repeated: Sequence[tuple[str, str]] = ()
) -> ManyCaptures:
    """Return the totals of many captures.

    Args:
        captures: Name and sums of each, or the reason why it has none. They are read once, one at a time.
        repeated: Name of each capture that is left out, and of the one that it is the same as.
    """
    failed, found, accounts = [], list[tuple[CaptureRow, CaptureSums]](), []
    # The other kernels of a capture have no name.
    kernels = {"": KernelRow("", 0, 0, 0)}
    for name, sums in captures:
        if isinstance(sums, str):
            failed.append(FailedRow(name, sums))
            continue
        for kernel, launches, total in (*sums.kernels, *([sums.other_kernels] if sums.other_kernels.launches else [])):
            known = kernels.get(kernel, KernelRow(kernel, 0, 0, 0))
            of_all = (known.captures + 1, known.launches + launches, known.total_ns + total)
            kernels[kernel] = KernelRow(kernel, *of_all)
        # Kernels are what takes memory.
        found.append((_row(name, sums), replace(sums, kernels=())))
        if sums.step_ns and sums.step_count and sums.gpus:
            accounts.append(StepAccount.of(name, sums))
    usual = usual_steps(accounts)
    listed = [(row._replace(usual_share=usual.get(row.name)), sums) for row, sums in found]
    other_kernels = kernels.pop("")
    idle = _sum(sums.idle for _, sums in listed)
    return ManyCaptures(
        captures=tuple(row for row, _ in listed),
        failed=tuple(failed),
        repeated=tuple(repeated),
        ledger=_sum((dict.fromkeys(LEDGER, 0), *(sums.ledger for _, sums in listed))),
        idle=dict(sorted(idle.items(), key=lambda each: (-each[1], each[0]))),
        findings=_findings(listed),
        kernels=tuple(sorted(kernels.values(), key=lambda each: (-each.total_ns, each.name))),
        other_kernels=other_kernels,
        outliers=find_outliers(accounts),
        groups={grouping: _groups(grouping, listed) for grouping in GROUPINGS},
        without_steps=len(listed) - len(accounts),
    )


def _row(name: str, sums: CaptureSums) -> CaptureRow:
    rule, lost = _most(_problems(sums))
    return CaptureRow(
        name=name,
        program=f"{sums.program} {sums.arguments}".strip() or UNKNOWN,
        gpu=gpu_words(sums.gpus),
        host=sums.host or UNKNOWN,
        day=sums.started_utc[:10] or UNKNOWN,
        gpu_ns=sums.gpu_ns,
        step_ns=sums.step_ns,
        usual_share=None,
        busy_ns=sums.gpu_ns - sums.ledger["idle_ns"],
        idle_ns=sums.ledger["idle_ns"],
        rule=rule,
        lost_ns=lost,
        verdict=sums.verdict,
    )


def _most(lost: Mapping[str, int]) -> tuple[str, int]:
    """Return the rule that loses most, and how much; an empty rule where nothing is lost."""
    rule = min(lost, key=lambda one: (-lost[one], one), default="")
    return (rule, lost[rule]) if rule and lost[rule] else ("", 0)


def gpu_words(gpus: Sequence[str]) -> str:
    """Return the GPUs of a capture in words: ``2 x NVIDIA H200``."""
    names = sorted(set(gpus))
    return " and ".join(f"{gpus.count(name)} x {name or UNKNOWN}" for name in names) or NO_GPU


def _findings(listed: Sequence[tuple[CaptureRow, CaptureSums]]) -> tuple[FindingRow, ...]:
    by_rule: dict[str, list[tuple[FindingSum, float, str]]] = {}
    for row, sums in listed:
        for each in sums.findings:
            share = each.lost_ns / sums.gpu_ns if sums.gpu_ns else 0.0
            by_rule.setdefault(each.rule, []).append((each, share, row.name))
    rows = []
    for rule, found in by_rule.items():
        severity = min((each.severity for each, *_ in found), key=lambda one: Severity(one).rank)
        savings = [each.saving_ns for each, *_ in found if each.saving_ns is not None]
        _, most, worst = min(found, key=lambda one: (-one[1], one[2]))
        numbers = len(found), sum(each.lost_ns for each, *_ in found), sum(savings) if savings else None
        rows.append(FindingRow(rule, severity, *numbers, median(share for _, share, _ in found), most, worst))
    note = Severity.NOTE.value
    return tuple(sorted(rows, key=lambda one: (one.severity == note, -one.lost_ns, one.rule)))


def _groups(grouping: str, listed: Sequence[tuple[CaptureRow, CaptureSums]]) -> tuple[GroupRow, ...]:
    members: dict[str, list[tuple[CaptureRow, CaptureSums]]] = {}
    for row, sums in listed:
        members.setdefault(row.group(grouping), []).append((row, sums))
    groups = []
    for name, its in members.items():
        ledger = _sum(sums.ledger for _, sums in its)
        shares = [row.usual_share for row, _ in its if row.usual_share is not None]
        lost = _most(_sum(_problems(sums) for _, sums in its))
        groups.append(GroupRow(name, len(its), sum(ledger.values()), ledger, median(shares) if shares else None, *lost))
    return tuple(sorted(groups, key=lambda each: (each.name if grouping == "day" else "", -each.gpu_ns, each.name)))
