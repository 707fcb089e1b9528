"""The types of the gate: runs with their step times and parts, and the result."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from nsyswrap.base import units
from nsyswrap.base.errors import UsageError
from nsyswrap.compare.comparison import ComparabilityIssue, IssueKind
from nsyswrap.rules import rule_name
from nsyswrap.rules.work_names import LEDGER_NAMES
from nsyswrap.runs.run import Account

FIND = 0.05
"""The smallest slowdown that must not pass unseen, as a share: what most jobs want to find."""
LEAST = 0.01
"""The smallest slowdown that fails, as a share: a convention."""
FEWEST_NEW = 3
"""New runs that a verdict needs, unless one is allowed. Ours: the middle of three is no single disturbed run."""
FALSE_ALARMS = 0.01
"""How often an unchanged program may be called slower, as a share: a convention."""

MOST_FIND = 10.0
"""The largest `find`, as a share."""


class GateOutcome(StrEnum):
    """The result of the gate."""

    PASSES = "passes"
    REGRESSED = "regressed"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True)
class GateOptions:
    """What the user wants to find.

    Attributes:
        find: Smallest slowdown that must not pass unseen, as a share.
        false_alarms: How often an unchanged program may be called slower, as a share.
        allow_one: Whether fewer than three new runs are enough.

    Raises:
        UsageError: The slowdown is out of range.
    """

    find: float = FIND
    false_alarms: float = FALSE_ALARMS
    accept: frozenset[IssueKind] = frozenset()
    allow_one: bool = False

    def __post_init__(self) -> None:
        """Check the slowdown."""
        if not LEAST < self.find <= MOST_FIND:
            hint = f"use more than {100 * LEAST:g}, which never fails, up to {100 * MOST_FIND:g}: --find 5"
            raise UsageError(f"--find {100 * self.find:g} is out of range", hint=hint)


@dataclass(frozen=True, slots=True)
class TimedRun:
    """One run of a program as the gate sees it.

    Attributes:
        mean_ns: Time per step: mean from the start of a step to the start of the next.
        parts: ns a step of each part of a step, by its words; empty where unknown.
        commit: Commit of the program; empty if unknown.
        waiting_ns: ns a step that the loop waits for a CPU core that others use; None where it was not measured.
    """

    name: str
    mean_ns: float
    median_ns: float
    parts: Mapping[str, float] = field(default_factory=dict)
    commit: str = ""
    waiting_ns: float | None = None


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure of the step time: earlier runs against new ones.

    Attributes:
        new_ns: Median of the new runs; of two the smaller.
        limit: Change that the noise between runs explains, as a share; infinite where it is unknown.
    """

    label: str
    earlier_ns: float
    new_ns: float
    limit: float
    outcome: GateOutcome

    @property
    def change(self) -> float:
        """Return new over earlier, minus 1."""
        return self.new_ns / self.earlier_ns - 1

    @property
    def most(self) -> float:
        """Return the largest slowdown that is not excluded, as a share; at least 0."""
        return max((1 + self.change) * (1 + self.limit) - 1, 0.0)


@dataclass(frozen=True, slots=True)
class PartChange:
    """A part of the step that takes longer in the new runs than noise explains.

    Attributes:
        delta_ns: New less earlier, ns a step.
        share: The same as a share of an earlier step.
    """

    words: str
    delta_ns: float
    share: float


@dataclass(frozen=True, slots=True)
class Gate:
    """The result of the gate.

    Attributes:
        earlier: The runs that were compared with, in order.
        new: The new runs; with earlier ones that belong to the same step, if there are.
        hint: What to do where the result is "cannot tell"; empty otherwise.
        measures: Time per step, then the median step; empty where runs are missing.
        blame: Parts that explain a slowdown, the largest first.
        more_runs: Number of new runs that would tell in any case; None where unknown, or where the gate tells.
        notes: Sentences about the series: steps and drift of the earlier runs.
        issues: Differences between the runs that a reader must know; those that withhold the verdict come first.
    """

    earlier: tuple[TimedRun, ...]
    new: tuple[TimedRun, ...]
    options: GateOptions
    outcome: GateOutcome
    verdict: str
    hint: str = ""
    measures: tuple[Measure, ...] = ()
    blame: tuple[PartChange, ...] = ()
    more_runs: int | None = None
    notes: tuple[str, ...] = ()
    issues: tuple[ComparabilityIssue, ...] = ()


def noise_words(limit: float) -> str:
    """Return a limit of the noise in words: ``up to 3.4 %``; beyond ``MOST_FIND`` the number means nothing."""
    return f"up to {units.share(limit)}" if limit <= MOST_FIND else f"more than {100 * MOST_FIND:,.0f} %"


def parts_of_accounts(accounts: Iterable[Account]) -> Mapping[str, float]:
    """Return ns a step of each part of a step, by its words: they add up to the time per step where GPUs worked."""
    of_steps = [each for each in accounts if each.step_ns is not None]
    kinds = {each.kind for each in of_steps}
    # Idle time and waits have rows of their own where their parts are known.
    replaced = {name for kind, name in (("idle", "idle_ns"), ("wait", "communication_wait_ns")) if kind in kinds}
    parts: dict[str, float] = {}
    for each in of_steps:
        if each.kind != "ledger" or each.name not in replaced:
            words = _part_words(each)
            parts[words] = parts.get(words, 0.0) + (each.step_ns or 0.0)
    return parts


def _part_words(account: Account) -> str:
    if account.kind == "ledger":
        return "idle GPU" if account.name == "idle_ns" else LEDGER_NAMES.get(account.name, account.name)
    known = f" ({rule_name(account.rule)})" if account.rule else ""
    return f"wait for rank {account.name}{known}" if account.kind == "wait" else f"idle GPU{known}"
