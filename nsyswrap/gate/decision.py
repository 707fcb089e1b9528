"""Decides whether new runs are slower than earlier ones, by the noise of the earlier ones, and names the parts."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from nsyswrap.base import units
from nsyswrap.compare.bootstrap import Series
from nsyswrap.compare.comparison import OTHERS, ComparabilityIssue
from nsyswrap.compare.estimates import MEAN, MEDIAN
from nsyswrap.gate.change_points import ChangePoint, SeriesShape, SeriesTrend, change_points, trend_of
from nsyswrap.gate.noise import FEWEST, MOST, blame_words, blamed, is_certain, limit, middle, runs_needed
from nsyswrap.gate.timed_runs import (
    FEWEST_NEW,
    LEAST,
    Gate,
    GateOptions,
    GateOutcome,
    Measure,
    TimedRun,
    noise_words,
)

# After a change of the program, the runs before it count only where fewer runs than this came after it.
SHORTEST_REFERENCE = 5
# A step that began at most this many runs before the new ones is found together with them.
MOST_BEFORE = 2


class _Split(NamedTuple):
    """Earlier and new runs, as they are compared, sentences about how they were chosen, and runs of a new level."""

    earlier: tuple[TimedRun, ...]
    new: tuple[TimedRun, ...]
    notes: tuple[str, ...] = ()
    recent: tuple[TimedRun, ...] = ()


def judge(
    earlier: Sequence[TimedRun],
    new: Sequence[TimedRun],
    options: GateOptions | None = None,
    issues: Sequence[ComparabilityIssue] = (),
    left_out: Sequence[str] = (),
) -> Gate:
    """Return whether new runs are slower than earlier ones.

    Args:
        earlier: Runs of the program before, in order of time.
        new: The newest runs, at least one.
        options: What the user wants to find.
        issues: Differences between the runs; one that blocks withholds the verdict.
        left_out: Sentences about earlier runs that do not count.
    """
    chosen = options or GateOptions()
    others = [one.message for one in issues if one.kind in OTHERS and not one.blocks]
    since = _since_last_change(earlier)
    few = _too_few(len(since.earlier), len(new), chosen, left_out)
    if few is not None:
        cannot, (verdict, hint) = GateOutcome.CANNOT_TELL, few
        found = Gate(tuple(earlier), tuple(new), chosen, cannot, verdict, hint=hint, issues=tuple(issues))
    else:
        found = _judged(since, new, chosen, issues)
    return replace(found, verdict=" ".join([*others, found.verdict]), notes=(*found.notes, *left_out))


def withheld(
    earlier: Sequence[TimedRun], new: Sequence[TimedRun], options: GateOptions, issues: Sequence[ComparabilityIssue]
) -> Gate:
    """Return the result for new runs that cannot be compared with any: the first issue that blocks says why."""
    block = next(one for one in issues if one.blocks)
    cannot, verdict = GateOutcome.CANNOT_TELL, f"Cannot tell: {block.message}"
    return Gate(tuple(earlier), tuple(new), options, cannot, verdict, hint=block.hint, issues=tuple(issues))


def _judged(since: _Split, new: Sequence[TimedRun], chosen: GateOptions, issues: Sequence[ComparabilityIssue]) -> Gate:
    """Return the result for enough runs, without what differs between the runs."""
    split = _with_recent_step(since, new, chosen)
    measures = _measures(split, chosen)
    outcome = _outcome(measures)
    if outcome is GateOutcome.REGRESSED and (waits := _longer_waits(split, chosen)):
        return _other_load(split, measures, waits, chosen, issues)
    needed = None
    if outcome is GateOutcome.CANNOT_TELL:
        # These tell in any case: below half of what must be found, a slowdown is shown or excluded.
        needed = runs_needed(_logarithms(split.earlier)[0], math.log1p(chosen.find) / 2, chosen.false_alarms / 2)
    blame = blamed(split.earlier, split.new, chosen.false_alarms) if outcome is GateOutcome.REGRESSED else ()
    block = next((one for one in issues if one.blocks), None)
    verdict = _sentence(outcome, measures, chosen) + (blame_words(blame) if blame else "") + "."
    return Gate(
        earlier=(*since.earlier[: len(split.earlier)], *split.recent),
        new=split.new,
        options=chosen,
        outcome=outcome if block is None else GateOutcome.CANNOT_TELL,
        verdict=verdict if block is None else f"Cannot tell: {block.message} Apart from that: {verdict}",
        hint=_hint(split, measures, outcome, chosen, needed) if block is None else block.hint,
        measures=measures,
        blame=blame,
        more_runs=needed,
        notes=(*since.notes, *split.notes, *_trend_notes(split.earlier)),
        issues=tuple(issues),
    )


def _too_few(earlier: int, new: int, options: GateOptions, left_out: Sequence[str]) -> tuple[str, str] | None:
    """Return the verdict and the hint where there are too few runs; None where there are enough."""
    if earlier < FEWEST:
        why = " ".join(
            [f"Cannot tell: {units.counted(earlier, 'earlier run')}, too few to show how much runs differ.", *left_out]
        )
        return why, f"give at least {FEWEST} runs of the program before the change with --against, better 10 or more"
    if new < FEWEST_NEW and not options.allow_one:
        return (
            f"Cannot tell: {units.counted(new, 'new run')}, and a verdict needs {FEWEST_NEW}.",
            f"run the program {FEWEST_NEW} times, or use --allow-one",
        )
    return None


def _longer_waits(split: _Split, options: GateOptions) -> float:
    """Return by how many ns a step the new runs wait longer for a CPU core, if the slowdown is not shown without it.

    A program that others keep from its cores is slower, but not by a change of its own. 0 where waits are unknown,
    where they hardly grew, or where a step without them is slower, too.
    """
    known = [[run for run in runs if run.waiting_ns is not None] for runs in (split.earlier, split.new)]
    if len(known[0]) < FEWEST or len(known[1]) < len(split.new):
        return 0.0
    before, now = (np.array([run.waiting_ns or 0.0 for run in runs]) for runs in known)
    longer = middle(now) - float(np.median(before))
    whole = float(np.median([run.mean_ns for run in split.earlier]))
    if longer <= LEAST * whole:
        return 0.0
    own = [np.log([max(run.mean_ns - (run.waiting_ns or 0.0), 1.0) for run in runs]) for runs in known]
    slower = _measure("a step without waits for a core", own[0], own[1], options).outcome is GateOutcome.REGRESSED
    return 0.0 if slower else longer


def _other_load(
    split: _Split,
    measures: tuple[Measure, ...],
    waits_ns: float,
    options: GateOptions,
    issues: Sequence[ComparabilityIssue],
) -> Gate:
    """Return that a slowdown is not the program's own as far as the runs show."""
    shown = _deciding(measures, GateOutcome.REGRESSED)
    verdict = (
        f"Cannot tell: {units.change(shown.change)} a step ({units.duration(shown.new_ns)} instead of "
        f"{units.duration(shown.earlier_ns)}), but the new runs wait {units.duration(waits_ns)} a step longer for a "
        "CPU core, and without these waits no slowdown is shown."
    )
    hint = "run again without other load; if there is none, look at what the program's own processes do"
    outcome = GateOutcome.CANNOT_TELL
    return Gate(
        split.earlier, split.new, options, outcome, verdict, hint, measures, notes=split.notes, issues=tuple(issues)
    )


def _logarithms(runs: Sequence[TimedRun]) -> tuple[Series, Series]:
    """Return the logarithms of time per step and median step of each run."""
    return np.log([run.mean_ns for run in runs]), np.log([run.median_ns for run in runs])


def _points(runs: Sequence[TimedRun]) -> tuple[ChangePoint, ...]:
    """Return the change points of the time per step of some runs, in logarithms."""
    return _points_of(tuple(run.mean_ns for run in runs))


@lru_cache(maxsize=4)
def _points_of(means_ns: tuple[float, ...]) -> tuple[ChangePoint, ...]:
    """Return the change points of a series; one decision looks for those of the same runs more than once."""
    return change_points(np.log(means_ns))


def _trend(runs: Sequence[TimedRun]) -> SeriesTrend:
    """Return the shape of the time per step of some runs, in logarithms."""
    return trend_of(_logarithms(runs)[0], _points(runs))


def _since_last_change(earlier: Sequence[TimedRun]) -> _Split:
    """Return the earlier runs since their level last changed together with the commit.

    A level that changes while the commit stays is noise of the machine and remains part of the noise, and so does one
    where commits are unknown, and a drift, which has no levels.
    """
    if len(earlier) < 2 * FEWEST or _trend(earlier).shape is SeriesShape.DRIFT:
        return _Split(tuple(earlier), ())
    for point in reversed(_points(earlier)):
        before, after = earlier[point.first - 1], earlier[point.first]
        with_program = before.commit and after.commit and before.commit != after.commit
        if with_program and len(earlier) - point.first >= SHORTEST_REFERENCE:
            note = (
                f"Earlier runs count from {after.name} on: there the program changed and a step became "
                f"{longer_words(math.expm1(point.change))}."
            )
            return _Split(tuple(earlier[point.first :]), (), (note,))
    return _Split(tuple(earlier), ())


def _with_recent_step(since: _Split, new: Sequence[TimedRun], options: GateOptions) -> _Split:
    """Return the runs with a slowdown that began shortly before the new runs.

    Where the program had changed there, the new runs are compared with the level since: the commit after a slow one is
    not slow itself. Else the runs since then count as new ones.
    """
    earlier = since.earlier
    plain = _Split(earlier, tuple(new))
    # Each place that is tried may give a false alarm, so all of them together get half of the share.
    strict = replace(options, false_alarms=options.false_alarms / (2 * MOST_BEFORE))
    points = _points([*earlier, *new])
    for point in points:
        before = len(earlier) - point.first
        if not 0 < before <= MOST_BEFORE or point.first < FEWEST or point.change <= 0:
            continue
        began, last = earlier[point.first], earlier[point.first - 1]
        moved = _Split(earlier[: point.first], (*earlier[point.first :], *new))
        if _outcome(_measures(moved, strict)) is not GateOutcome.REGRESSED:
            continue
        if began.commit and last.commit and began.commit != last.commit and began.commit != new[0].commit:
            recent = earlier[point.first :]
            change = middle(_logarithms(recent)[0]) - float(np.median(_logarithms(moved.earlier)[0]))
            size = longer_words(math.expm1(change))
            note = f"A step became {size} at {began.name}, before the new runs: they are compared with it."
            factor = math.exp(change)
            at_level = tuple(
                replace(
                    run,
                    mean_ns=factor * run.mean_ns,
                    median_ns=factor * run.median_ns,
                    parts={name: factor * ns for name, ns in run.parts.items()},
                )
                for run in moved.earlier
            )
            return _Split(at_level, tuple(new), (note,), recent)
        note = f"The step began at {began.name}, {units.counted(before, 'run')} before the new ones."
        return moved._replace(notes=(note,))
    return plain


def longer_words(change: float) -> str:
    """Return a change of the step time in words: ``4.1 % longer``, ``2.0 % shorter``."""
    return f"{units.share(abs(change))} {'longer' if change > 0 else 'shorter'}"


def _measures(split: _Split, options: GateOptions) -> tuple[Measure, ...]:
    before, now = _logarithms(split.earlier), _logarithms(split.new)
    return tuple(
        _measure(label, one, other, options) for label, one, other in zip((MEAN, MEDIAN), before, now, strict=True)
    )


def _measure(label: str, earlier: Series, new: Series, options: GateOptions) -> Measure:
    """Return one measure; each of the two may give half of the false alarms."""
    level, now = float(np.median(earlier)), middle(new)
    allowed = options.false_alarms / 2
    noise = limit(earlier, len(new), allowed)
    if now - level > max(noise, math.log1p(LEAST)):
        is_slower = is_certain(earlier, new, allowed)
        outcome = GateOutcome.REGRESSED if is_slower else GateOutcome.CANNOT_TELL
    elif now - level + noise < math.log1p(options.find):
        outcome = GateOutcome.PASSES
    else:
        outcome = GateOutcome.CANNOT_TELL
    # Beyond what a float holds, the limit is infinite.
    most = math.expm1(noise) if noise < np.log(np.finfo(np.float64).max) else math.inf
    return Measure(label, math.exp(level), math.exp(now), most, outcome)


def _outcome(measures: Sequence[Measure]) -> GateOutcome:
    """Return the outcome of both measures: time per step decides, since it is the time that training takes.

    The median step may show what outliers hide. It counts unless the time per step excludes as much.
    """
    of_mean, of_median = measures
    if of_median.outcome is GateOutcome.REGRESSED and of_mean.outcome is not GateOutcome.REGRESSED:
        least = (1 + of_median.change) / (1 + of_median.limit) - 1
        return GateOutcome.REGRESSED if of_mean.most >= least else GateOutcome.CANNOT_TELL
    return of_mean.outcome


def _sentence(outcome: GateOutcome, measures: Sequence[Measure], options: GateOptions) -> str:
    """Return the verdict without its full stop."""
    shown = _deciding(measures, outcome)
    which = "a step" if shown.label == MEAN else "the median step"
    times = f"{units.duration(shown.new_ns)} instead of {units.duration(shown.earlier_ns)}"
    noise = f"unchanged runs may differ by {noise_words(shown.limit)}"
    if outcome is GateOutcome.REGRESSED:
        return f"Regressed: {units.change(shown.change)} {which} ({times}; {noise})"
    if outcome is GateOutcome.PASSES:
        most = units.share(max(shown.most, LEAST))
        return f"Passes: {units.change(shown.change)} {which} ({times}); a slowdown of more than {most} is excluded"
    if shown.change > max(shown.limit, LEAST):
        return (
            f"Cannot tell: {units.change(shown.change)} {which} ({times}; {noise}), but so few runs may be longer by "
            "chance"
        )
    return (
        f"Cannot tell: {units.change(shown.change)} {which} ({times}), but {noise}, so a slowdown of "
        f"{units.percent(options.find)} is neither shown nor excluded"
    )


def _deciding(measures: Sequence[Measure], outcome: GateOutcome) -> Measure:
    return next((one for one in measures if one.outcome is outcome), measures[0])


def _hint(
    split: _Split, measures: Sequence[Measure], outcome: GateOutcome, options: GateOptions, needed: int | None
) -> str:
    """Return how many runs would tell; empty where the gate tells."""
    if outcome is not GateOutcome.CANNOT_TELL:
        return ""
    have, earlier = len(split.new), _logarithms(split.earlier)[0]
    change = math.log1p(measures[0].change)
    as_slow = runs_needed(earlier, change, options.false_alarms / 2) if change > math.log1p(LEAST) else None
    words = []
    if as_slow is not None and as_slow > have and (needed is None or as_slow < needed):
        words.append(f"{units.counted(as_slow - have, 'more run')} as slow would show a regression")
    if needed is not None and needed > len(earlier) // 2:
        words.append(f"about {units.counted(needed, 'new run')} against {2 * needed} earlier ones would tell")
    elif needed is not None and needed > have:
        words.append(f"{units.counted(needed - have, 'more new run')} would tell")
    if not words:
        words.append(
            f"more than {MOST} runs would be needed: make runs more alike first, with more steps, no other load and "
            "fixed clocks, or find larger slowdowns only (--find)"
        )
    return "; ".join(words)


def _trend_notes(earlier: Sequence[TimedRun]) -> Iterator[str]:
    """Yield sentences about a step or a drift of the earlier runs, which makes the noise larger."""
    trend = _trend(earlier)
    size = units.change(math.expm1(trend.change))
    if trend.shape is SeriesShape.DRIFT:
        yield f"The earlier runs drift by {size} from the first to the last, and the noise includes this."
    if trend.shape is SeriesShape.STEP:
        yield (
            f"The earlier runs change by {size} at {earlier[trend.first].name} (run {trend.first + 1} of "
            f"{len(earlier)}), and the noise includes this. If the program changed there, give the runs from there on."
        )
