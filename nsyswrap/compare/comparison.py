"""What a comparison is made of: how step times changed, what moved, findings, and whether the two can be compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from nsyswrap.compare.step_times import StepTimes, step_times
from nsyswrap.errors import UsageError
from nsyswrap.model import Finding, Report, Unit

MARGIN = 0.03
"""The smallest change of step time that is called faster or slower, as a share: a convention, not a measurement."""

Basis = Literal["step", "window"]


class Outcome(StrEnum):
    """What a comparison says."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE = "no difference"
    CANNOT_TELL = "cannot tell"


class IssueKind(StrEnum):
    """What may stand in the way of a comparison; those of ``ACCEPTABLE`` may be meant."""

    STEPS = "steps"
    INCOMPLETE = "incomplete"
    GPU = "gpu"
    TRACES = "traces"
    WINDOW = "window"
    COMMAND = "command"
    VERSIONS = "versions"
    WORK = "work"
    SAME = "same"


ACCEPTABLE = (IssueKind.INCOMPLETE, IssueKind.GPU, IssueKind.TRACES, IssueKind.WINDOW)
"""Hurdles that withhold the verdict unless they are accepted."""


@dataclass(frozen=True, slots=True)
class ComparisonOptions:
    """How two reports are compared.

    Attributes:
        margin: Smallest change of step time that counts, as a share.
        accept: Hurdles that are meant, each one of ``ACCEPTABLE``.

    Raises:
        UsageError: The margin is negative or not less than all of a step.
    """

    margin: float = MARGIN
    accept: frozenset[IssueKind] = frozenset()

    def __post_init__(self) -> None:
        """Check the margin."""
        if not 0 <= self.margin < 1:
            raise UsageError(
                f"a margin of {100 * self.margin:g} % says nothing",
                hint="give 0 or more, and less than 100: --margin 3",
            )


@dataclass(frozen=True, slots=True)
class ComparabilityIssue:
    """One way in which two reports differ that a reader must know before the verdict.

    Attributes:
        kind: Which.
        words: One sentence: what differs.
        blocks: Whether it withholds the verdict.
        hint: What to do about it; empty where nothing can be advised.
    """

    kind: IssueKind
    words: str
    blocks: bool
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Estimate:
    """How one measure of the step time changed.

    Attributes:
        label: What is measured.
        base_ns: In base.
        new_ns: In new.
        low: Lower end of the interval of ``change``.
        high: Upper end.
        drift: By how much the second half of either capture differs from its first, the larger of the two, as a share;
            0 for several runs of each side, which show by how much they differ themselves.
        noise: By how much one run of each differs with nothing changed, as a share; the interval holds it. 0 for
            several runs.
        outcome: What this measure alone says.
    """

    label: str
    base_ns: float
    new_ns: float
    low: float
    high: float
    drift: float
    noise: float
    outcome: Outcome

    @property
    def change(self) -> float:
        """Return new over base, less 1: -0.5 is half the time."""
        return self.new_ns / self.base_ns - 1

    @property
    def times(self) -> float:
        """Return how many times as fast new is as base."""
        return self.base_ns / self.new_ns


@dataclass(frozen=True, slots=True)
class Change:
    """One amount on both sides.

    Attributes:
        name: What it is the amount of.
        base: In base, in the unit of its table; None where it is not there.
        new: In new; None where it is not there.
        base_count: How often it occurs, a step or in the window; None where that says nothing.
        new_count: The same in new.
        low: Lower end of the interval of the difference; None where steps do not tell.
        high: Upper end.
    """

    name: str
    base: float | None
    new: float | None
    base_count: float | None = None
    new_count: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def delta(self) -> float:
        """Return new less base; what is not there counts as nothing."""
        return (self.new or 0) - (self.base or 0)


@dataclass(frozen=True, slots=True)
class ChangeTable:
    """Amounts of one kind on both sides.

    Attributes:
        key: Name in JSON.
        title: Heading.
        of: What the amounts are, such as "a step, mean over GPUs".
        unit: Unit of the amounts.
        changes: The largest difference first; parts of a whole in the order of the report.
    """

    key: str
    title: str
    of: str
    unit: Unit
    changes: tuple[Change, ...]

    @property
    def came(self) -> tuple[Change, ...]:
        """Return what is in new alone."""
        return tuple(one for one in self.changes if one.base is None)

    @property
    def went(self) -> tuple[Change, ...]:
        """Return what is in base alone."""
        return tuple(one for one in self.changes if one.new is None)


@dataclass(frozen=True, slots=True)
class FactChange:
    """One fact of a section on both sides; None where a side does not have it."""

    section: str
    title: str
    label: str
    unit: Unit
    base: int | float | str | None
    new: int | float | str | None


@dataclass(frozen=True, slots=True)
class FindingPair:
    """A finding in base, in new, or in both; costs are a step's, or a share of the window where there are no steps."""

    rule: str
    device_id: int | None
    base: Finding | None
    new: Finding | None
    base_cost: float
    new_cost: float


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two sides: a report, or the reports of several runs of one program.

    Attributes:
        name: What it goes by.
        reports: One a run.
        runs: The measured steps of each.
        middle: Which run stands for all where what moved is told: the one whose time per step is in the middle.
    """

    name: str
    reports: tuple[Report, ...]
    runs: tuple[StepTimes, ...]
    middle: int

    @classmethod
    def of(cls, name: str, reports: Sequence[Report]) -> "Side":
        """Return the side that some runs make, one at least."""
        runs = tuple(step_times(report) for report in reports)
        order = sorted(range(len(runs)), key=lambda at: float(runs[at].period.mean()) if runs[at].count else 0.0)
        return cls(name, tuple(reports), runs, order[(len(order) - 1) // 2])

    @property
    def report(self) -> Report:
        """Return the report that stands for all."""
        return self.reports[self.middle]

    @property
    def steps(self) -> StepTimes:
        """Return the measured steps of that report."""
        return self.runs[self.middle]

    @property
    def step_count(self) -> int:
        """Return how many measured steps its window holds."""
        return self.steps.count


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that is said about two sides.

    Attributes:
        base: What was before.
        new: What is now.
        options: How they were compared.
        outcome: What it comes to.
        verdict: The same in one sentence.
        hint: What to do where it cannot be told; empty where it can.
        issues: What a reader must know first, what withholds the verdict before the rest.
        estimates: Median step, then time per step; empty where there are too few steps.
        basis: Whether amounts are of one step, in ns, or shares of the window.
        tables: What moved, by kind.
        facts: Facts of all sections.
        solved: Findings of base that are gone.
        arisen: Findings of new that were not there.
        left: Findings of both.
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
    solved: tuple[FindingPair, ...]
    arisen: tuple[FindingPair, ...]
    left: tuple[FindingPair, ...]

    def table(self, key: str) -> ChangeTable | None:
        """Return the table of that key, or None where neither side has rows for it."""
        return next((table for table in self.tables if table.key == key), None)

    @property
    def of_runs(self) -> bool:
        """Return whether a side is several runs, so that intervals tell how runs differ and not how steps do."""
        return len(self.base.runs) + len(self.new.runs) > 2  # noqa: PLR2004 - one run each

    @property
    def blocked(self) -> bool:
        """Return whether something withholds the verdict."""
        return any(one.blocks for one in self.issues)

    def regression(self) -> float:
        """Return by how much a step became slower as a share; 0 where that is not shown."""
        if self.outcome is not Outcome.SLOWER:
            return 0.0
        return deciding(self.estimates, self.outcome).change


def deciding(estimates: Sequence[Estimate], outcome: Outcome) -> Estimate:
    """Return the estimate an outcome rests on: the first that says the same, or else the first."""
    return next((one for one in estimates if one.outcome is outcome), estimates[0])
