"""`nsyswrap verify`: whether two programs do the same work, and which of them is faster.

Each program runs once as it is, so that its caches are filled as they are when it is timed, and then with its work
recorded. Only if both do the same work, they run in turns, without nsys and without a record, and their times are
compared: BASE, NEW, NEW, BASE, and so on, since a machine warms up and drifts.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nsyswrap.base import units
from nsyswrap.base.interval import Interval
from nsyswrap.compare.bootstrap import runs_interval
from nsyswrap.compare.comparison import Outcome
from nsyswrap.experiments.verify_checks import RoundingGrowth, WorkCheck, WorkOutcome, checks, growth_of
from nsyswrap.experiments.verify_runs import (
    KeptWork,
    ProgramTime,
    VerifiedProgram,
    WorkRun,
    recorded,
    roundoff_of,
    run_once,
    timed,
)

Side = VerifiedProgram | KeptWork
NAMES = ("BASE", "NEW")
CONFIDENCE = 0.95
FEWEST_TURNS = 3
# A range wider than this factor is not shown.
_WIDE = 3.0


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """How two programs are verified.

    Attributes:
        find: Smallest change of time that must not pass unseen, as a share.
        most_turns: Largest number of timed runs of each program; 0 compares the work alone.
        timeout_s: Seconds after which a run is ended.
        keeps: Whether the runs are kept: then those with rounding errors are made, too.
    """

    find: float = 0.05
    most_turns: int = 10
    timeout_s: float = 600.0
    keeps: bool = False


class Timing(NamedTuple):
    """Which program is faster.

    Attributes:
        outcome: The answer.
        ratio: Time of NEW over that of BASE, with its interval of 95 %.
        base_ns: Times of BASE, in order.
        new_ns: Times of NEW, in order.
        of: What was timed: a step, or the whole run.
    """

    outcome: Outcome
    ratio: Interval[float]
    base_ns: tuple[float, ...]
    new_ns: tuple[float, ...]
    of: str

    @property
    def is_narrow(self) -> bool:
        """Return whether the interval says how much faster or slower NEW is."""
        return self.ratio.high <= _WIDE * self.ratio.low


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of `nsyswrap verify`.

    Attributes:
        base: Name of BASE.
        new: Name of NEW.
        work: Whether they do the same work.
        checks: What was compared.
        timing: Which is faster; None where that was not measured.
        notes: Limits of the result.
        options: How it was made.
    """

    base: str
    new: str
    work: WorkOutcome
    checks: tuple[WorkCheck, ...]
    timing: Timing | None
    notes: tuple[str, ...]
    options: VerifyOptions

    @property
    def outcome(self) -> str:
        """Return the answer in some words."""
        if self.work is not WorkOutcome.SAME or self.timing is None:
            return self.work.value
        return f"{self.work.value}, {self.timing.outcome.value}"

    @property
    def passes(self) -> bool | None:
        """Return whether NEW does the same work and is not slower; None where that is not known."""
        if self.work is not WorkOutcome.SAME:
            return False if self.work is WorkOutcome.OTHER else None
        if self.timing is None or self.timing.outcome in (Outcome.FASTER, Outcome.NO_DIFFERENCE):
            return True
        return False if self.timing.outcome is Outcome.SLOWER else None

    @property
    def verdict(self) -> str:
        """Return the answer in one or two sentences."""
        failed = [each for each in self.checks if each.outcome is not WorkOutcome.SAME]
        if failed:
            first = min((each for each in failed if each.outcome is self.work), key=lambda each: each.is_value).words
            more = len(failed) - 1
            rest = f" {units.counted(more, 'more check').capitalize()} failed." if more else ""
            if self.work is WorkOutcome.CANNOT_TELL:
                return f"Cannot tell whether the work is the same. {first}{rest}"
            return f"NEW does other work: {first.replace('In step', 'in step', 1)}{rest}"
        start = "NEW does the same work as BASE"
        if self.timing is None:
            return f"{start}."
        return f"{start} and {_faster_or_slower(self.timing, self.options.find)}."


def _faster_or_slower(timing: Timing, find: float) -> str:
    """Return which program is faster, in words; a range that is wide says nothing."""
    slow = timing.outcome in (Outcome.SLOWER, Outcome.CANNOT_TELL)
    ends = (timing.ratio.low, timing.ratio.point, timing.ratio.high)
    low, point, high = map(units.factor, ends if slow else sorted(1 / each for each in ends))
    is_wide = not timing.is_narrow
    match timing.outcome:
        case Outcome.FASTER:
            return "is faster; by how much is uncertain" if is_wide else f"is {point} times as fast ({low} to {high})"
        case Outcome.SLOWER:
            more = (
                "by how much is uncertain"
                if is_wide
                else f"a {timing.of} takes {point} times as long ({low} to {high})"
            )
            return f"is slower; {more}"
        case Outcome.NO_DIFFERENCE:
            return f"takes the same time, within {100 * find:g} %"
    uncertain = (
        "the times of its runs differ too much" if is_wide else f"a {timing.of} takes {low} to {high} times as long"
    )
    return f"may be faster or slower: {uncertain}"


def verify(
    base: Side, new: Side, options: VerifyOptions, progress: Callable[[str], object] = lambda _words: None
) -> tuple[Verification, KeptWork, KeptWork]:
    """Run two programs, and return whether they do the same work and which is faster, with the runs of each.

    Raises:
        UnfinishedError: A run took too long, or cannot be started.
    """
    runs = _Runs((base, new), options, progress)
    found = runs.checks()
    work, timing, notes = worst(found), None, []
    if work is WorkOutcome.SAME and options.most_turns:
        timing = runs.timing()
        if any(isinstance(each, KeptWork) for each in (base, new)):
            notes.append("The programs were timed one after the other: other load may have come or gone in between.")
    result = Verification(base.name, new.name, work, found, timing, tuple(notes), options)
    return result, runs.kept(0), runs.kept(1)


def worst(found: Sequence[WorkCheck]) -> WorkOutcome:
    """Return whether the work is the same by all checks together."""
    outcomes = {each.outcome for each in found}
    return next((each for each in (WorkOutcome.OTHER, WorkOutcome.CANNOT_TELL) if each in outcomes), WorkOutcome.SAME)


class _Runs:
    """The runs of both programs, made when they are needed."""

    def __init__(self, sides: tuple[Side, Side], options: VerifyOptions, progress: Callable[[str], object]) -> None:
        self._sides, self._options, self._progress = sides, options, progress
        self._work: list[WorkRun] = []
        self._growth: dict[int, RoundingGrowth | None] = {}
        self._times: list[list[ProgramTime]] = [
            list(each.times) if isinstance(each, KeptWork) else [] for each in sides
        ]

    def kept(self, side: int) -> KeptWork:
        """Return the runs of one program."""
        growth = self._grown(side) if self._options.keeps else None
        grown, roundoff = (growth.run, growth.roundoff) if growth is not None else (None, 0.0)
        return KeptWork(self._sides[side].name, self._work[side], grown, roundoff, tuple(self._times[side]))

    def checks(self) -> tuple[WorkCheck, ...]:
        """Return the checks of the work."""
        for side, name in zip(self._sides, NAMES, strict=True):
            if not isinstance(side, KeptWork):
                self._progress(f"running {name}, {side.name}, for the files that it makes once")
                run_once(side, self._options.timeout_s)
        self._work = [self._recorded(number) for number in (0, 1)]
        return compared(self._work[0], self._work[1], lambda: self._grown(0), self._again)

    def _again(self) -> WorkRun | None:
        """Return another run of NEW; None where it is kept."""
        new = self._sides[1]
        if isinstance(new, KeptWork):
            return None
        self._progress("recording NEW again, to see whether it repeats itself")
        return recorded(new, self._options.timeout_s)

    def _recorded(self, number: int) -> WorkRun:
        side, name = self._sides[number], NAMES[number]
        if isinstance(side, KeptWork):
            return side.work
        self._progress(f"recording the work of {name}, {side.name}")
        return recorded(side, self._options.timeout_s)

    def _grown(self, number: int) -> RoundingGrowth | None:
        """Return how far rounding changes the values of a program; None where it is kept without that."""
        if number not in self._growth:
            side, name = self._sides[number], NAMES[number]
            roundoff = max(map(roundoff_of, self._work))
            if isinstance(side, KeptWork):
                grown = side.grown if side.roundoff >= roundoff else None
                self._growth[number] = None if grown is None else RoundingGrowth(side.roundoff, grown)
            else:
                self._progress(f"recording {name} with rounding errors, to see how far they grow")
                self._growth[number] = growth_of(roundoff, recorded(side, self._options.timeout_s, roundoff))
        return self._growth[number]

    def timing(self) -> Timing | None:
        """Time both programs in turns until it is clear which is faster; None where kept runs have too few times."""
        looks = max(self._options.most_turns - FEWEST_TURNS + 1, 1)
        found = None
        for turn in range(self._options.most_turns):
            self._progress(f"timing turn {turn + 1} of at most {self._options.most_turns}")
            for number in (0, 1) if turn % 2 == 0 else (1, 0):
                side = self._sides[number]
                if not isinstance(side, KeptWork):
                    self._times[number].append(timed(side, self._options.timeout_s))
            counts = list(map(len, self._times))
            if turn + 1 < min(FEWEST_TURNS, self._options.most_turns) or min(counts) < 1 or sum(counts) < FEWEST_TURNS:
                continue
            found = decided(self._times[0], self._times[1], self._options.find, 1 - (1 - CONFIDENCE) / looks)
            if found.outcome is not Outcome.CANNOT_TELL or all(isinstance(each, KeptWork) for each in self._sides):
                break
        return found


def compared(
    base: WorkRun,
    new: WorkRun,
    grown: Callable[[], RoundingGrowth | None],
    again: Callable[[], WorkRun | None],
) -> tuple[WorkCheck, ...]:
    """Return the checks of the work of two programs; values that are not equal need more runs.

    ``grown`` returns how far rounding changes the values of BASE; None where that is not known. ``again`` returns
    another run of NEW; None where there is none.
    """
    found = checks(base, new)
    failed = [each for each in found if each.outcome is not WorkOutcome.SAME]
    if not failed or not all(each.is_value for each in failed):
        return found
    growth = grown()
    if growth is None:
        words = "Values differ, and no run of BASE shows how far rounding of this size changes them. Give its program."
        return _uncertain(found, words)
    found = checks(base, new, growth)
    if worst(found) is not WorkOutcome.OTHER:
        return found
    repeated = again()
    if repeated is None or worst([each for each in checks(new, repeated, growth) if each.is_value]) is WorkOutcome.SAME:
        return found
    return _uncertain(found, "NEW does not repeat itself: two of its own runs differ, too. Set its seeds.")


def _uncertain(found: Sequence[WorkCheck], words: str) -> tuple[WorkCheck, ...]:
    """Return checks whose values differ for a reason that may not be the work."""
    return tuple(
        each._replace(outcome=WorkOutcome.CANNOT_TELL, words=words)
        if each.is_value and each.outcome is WorkOutcome.OTHER
        else each
        for each in found
    )


def decided(base: Sequence[ProgramTime], new: Sequence[ProgramTime], find: float, confidence: float) -> Timing:
    """Return which program is faster.

    There are at least two runs of each, and as many of both. ``find`` is the smallest change that must not pass unseen,
    as a share. The confidence is that of this look: with all looks together, the interval holds the true ratio in 95 %
    of cases.

    Source: Bonferroni's correction for several looks; the interval is that of ``compare`` for several runs.
    """
    steps = [[each.step_ns for each in side] for side in (base, new)]
    has_steps = all(each is not None for side in steps for each in side)
    times = steps if has_steps else [[each.run_ns for each in side] for side in (base, new)]
    logs = [np.log(np.array(side, dtype=np.float64)) for side in times]
    interval = runs_interval(logs[0], logs[1], confidence)
    ratio = interval.map(math.exp)
    outcome = Outcome.CANNOT_TELL
    if ratio.high < 1:
        outcome = Outcome.FASTER
    elif ratio.low > 1:
        outcome = Outcome.SLOWER
    elif 1 - find < ratio.low and ratio.high < 1 + find:
        outcome = Outcome.NO_DIFFERENCE
    plain = [tuple(float(each) for each in side if each is not None) for side in times]
    return Timing(outcome, ratio, plain[0], plain[1], "step" if has_steps else "run")
