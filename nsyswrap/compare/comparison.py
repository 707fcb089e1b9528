"""The types of a comparison: step times, changed amounts, findings, and what limits the comparison."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

from nsyswrap.base.errors import UsageError
from nsyswrap.base.interval import Interval
from nsyswrap.compare.step_times import MeasuredSteps, step_count, step_times
from nsyswrap.model import Finding, Report, Section, Unit

FIND = 0.02
"""The smallest change of step time that must not pass unseen, as a share: a convention."""
MOST_FIND = 10.0
"""The largest value of it, as a share."""

Basis = Literal["step", "window"]


class Outcome(StrEnum):
    """The result of a comparison."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE = "no difference"
    CANNOT_TELL = "cannot tell"


class IssueKind(StrEnum):
    """What may make two reports hard to compare; the user can accept those in ``ACCEPTABLE``."""

    STEPS = "steps"
    MACHINE = "machine"
    INCOMPLETE = "incomplete"
    GPU = "gpu"
    TRACES = "traces"
    WINDOW = "window"
    COMMAND = "command"
    VERSIONS = "versions"
    WORK = "work"
    SAME = "same"


ACCEPTABLE = (IssueKind.MACHINE, IssueKind.INCOMPLETE, IssueKind.GPU, IssueKind.TRACES, IssueKind.WINDOW)
"""Kinds of issues that withhold the verdict unless the user accepts them."""
OTHERS = (IssueKind.MACHINE, IssueKind.GPU, IssueKind.VERSIONS, IssueKind.COMMAND, IssueKind.WORK)
"""Kinds of issues about what is compared with what: a verdict begins with them."""


@dataclass(frozen=True, slots=True)
class ComparisonOptions:
    """How two reports are compared.

    Attributes:
        find: Smallest change that must not pass unseen, as a share: "no difference" excludes it.
        accept: Kinds of issues that the user accepts, out of ``ACCEPTABLE``.

    Raises:
        UsageError: The change is out of range.
    """

    find: float = FIND
    accept: frozenset[IssueKind] = frozenset()

    def __post_init__(self) -> None:
        """Check the change."""
        if not 0 < self.find <= MOST_FIND:
            raise UsageError(
                f"--find {100 * self.find:g} is out of range",
                hint=f"use more than 0, up to {100 * MOST_FIND:g}: --find 2",
            )


@dataclass(frozen=True, slots=True)
class ComparabilityIssue:
    """One difference between two reports that a reader must know before the verdict."""

    kind: IssueKind
    message: str
    blocks: bool
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Estimate:
    """How one measure of the step time changed.

    Attributes:
        change: New over base, minus 1: -0.5 is half the time.
        noise: How much two runs differ when nothing changed, as a share; the interval includes it. 0 for several runs.
    """

    label: str
    base_ns: float
    new_ns: float
    change: Interval[float]
    noise: float
    outcome: Outcome

    @property
    def times(self) -> float:
        """Return base over new: 2 is twice as fast."""
        return self.base_ns / self.new_ns


@dataclass(frozen=True, slots=True)
class AmountChange:
    """One amount on both sides.

    Attributes:
        base: Amount in base, in the unit of its table; None where base has none.
        base_count: How often it occurs in base, for each step or in the window; None where it is not counted.
        difference: New minus base, with its range; None where the steps give no range.
    """

    name: str
    base: float | None
    new: float | None
    base_count: float | None = None
    new_count: float | None = None
    difference: Interval[float] | None = None

    @property
    def delta(self) -> float:
        """Return new minus base; a missing amount counts as 0."""
        return (self.new or 0) - (self.base or 0)


@dataclass(frozen=True, slots=True)
class ChangeTable:
    """Amounts of one kind on both sides.

    Attributes:
        of: What the amounts refer to, such as "a step, mean over GPUs".
        changes: The largest difference first; parts of the ledger in the order of the report.
    """

    key: str
    title: str
    of: str
    unit: Unit
    changes: tuple[AmountChange, ...]


@dataclass(frozen=True, slots=True)
class FactChange:
    """One fact of a section on both sides; None where a side lacks it."""

    section: str
    title: str
    label: str
    unit: Unit
    base: int | float | str | None
    new: int | float | str | None


class FindingChange(StrEnum):
    """How a finding changed from base to new, in the order in which findings are listed."""

    NEW = "new"
    LARGER = "larger"
    SAME = "same"
    SMALLER = "smaller"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class MovedTime:
    """Idle time that belongs to one rule in base and to another in new, in the same cause and phase.

    Attributes:
        amount: ns a step, or a share of the window.
        to_other: Whether the other rule has it in new; False where it had it in base.
    """

    rule: str
    amount: float
    to_other: bool


@dataclass(frozen=True, slots=True)
class FindingPair:
    """The findings of one rule and GPU on both sides.

    Attributes:
        base_lost: Time lost to the rule in base: ns a step, or a share of the window. It counts without a finding, too.
        change: How it changed; time that only moved to another rule does not count as a change.
        moved: Time that moved to or from other rules, the largest first.
    """

    rule: str
    device_id: int | None
    base: Finding | None
    new: Finding | None
    base_lost: float
    new_lost: float
    change: FindingChange
    moved: tuple[MovedTime, ...] = ()


class RunMachine(NamedTuple):
    """Where a run was made, as its run.json says; empty where it does not.

    Attributes:
        machine: What identifies the machine: its processor, cores and memory.
    """

    machine: str = ""
    torch: str = ""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two sides: a report, or the reports of several runs of one program.

    Attributes:
        middle: Index of the run with the median time per step, which represents the others in tables of changes.
    """

    name: str
    reports: tuple[Report, ...]
    runs: tuple[MeasuredSteps, ...]
    middle: int
    origins: tuple[RunMachine, ...]

    @classmethod
    def of(cls, name: str, reports: Sequence[Report], origins: Sequence[RunMachine] = ()) -> "Side":
        """Return the side that these runs make up; there is at least one run. Without origins they are unknown."""
        runs = tuple(step_times(report) for report in reports)
        order = sorted(range(len(runs)), key=lambda at: float(runs[at].period.mean()) if runs[at].count else 0.0)
        known = tuple(origins) or (RunMachine(),) * len(runs)
        return cls(name, tuple(reports), runs, order[(len(order) - 1) // 2], known)

    @property
    def origin(self) -> RunMachine:
        """Return where the run was made that represents all runs."""
        return self.origins[self.middle]

    @property
    def report(self) -> Report:
        """Return the report that represents all runs."""
        return self.reports[self.middle]

    @property
    def steps(self) -> MeasuredSteps:
        """Return the measured steps of that report."""
        return self.runs[self.middle]

    @property
    def step_count(self) -> int:
        """Return the number of measured steps that its totals count."""
        return step_count(self.report, self.steps)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of two sides.

    Attributes:
        hint: What to do where the result is "cannot tell"; empty otherwise.
        issues: Differences that a reader must know first; those that withhold the verdict come first.
        estimates: Median step, then time per step; empty where there are too few steps.
        basis: Whether amounts are ns of one step or shares of the window.
        findings: Findings of both sides, in order of their change, then of time lost.
        plan_score: How new did against the plan of base; None where base has no plan.
    """

    base: Side
    new: Side
    options: ComparisonOptions
    outcome: Outcome
    verdict: str
    hint: str
    issues: tuple[ComparabilityIssue, ...]
    estimates: tuple[Estimate, ...]
    basis: Basis
    tables: tuple[ChangeTable, ...]
    facts: tuple[FactChange, ...]
    findings: tuple[FindingPair, ...]
    plan_score: Section | None = None

    def table(self, key: str) -> ChangeTable | None:
        """Return the table of that key; None where no side has rows for it."""
        return next((table for table in self.tables if table.key == key), None)

    def findings_that_are(self, change: FindingChange) -> tuple[FindingPair, ...]:
        """Return the findings that changed in one way."""
        return tuple(one for one in self.findings if one.change is change)

    @property
    def of_runs(self) -> bool:
        """Return whether a side has several runs; intervals are then about runs and not about steps."""
        return len(self.base.runs) + len(self.new.runs) > 2  # noqa: PLR2004 - one run each

    @property
    def deciding(self) -> Estimate:
        """Return the estimate that the outcome rests on; there are estimates."""
        return deciding(self.estimates, self.outcome)


def deciding(estimates: Sequence[Estimate], outcome: Outcome) -> Estimate:
    """Return the estimate that an outcome rests on: the first with the same outcome, else the first."""
    return next((one for one in estimates if one.outcome is outcome), estimates[0])
