# ruff: noqa: INP001, T201 - a program for the terminal, not a package
"""Measure how often `nsyswrap compare` reports faster or slower when nothing changed: the rates in docs/compare.md.

    python tools/compare_false_alarms.py                      simulated steps
    python tools/compare_false_alarms.py CAPTURE...           the steps of real captures, split in two
    python tools/compare_false_alarms.py --pairs CAPTURE...   several runs of one program, each against each
    python tools/compare_false_alarms.py --groups N CAPTURE...   the same, N runs of them against N others

A capture may be an export, a report.json, or a folder that profile wrote.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nsyswrap.cli.compare import names_of, report_at
from nsyswrap.cli.inputs import ReadOptions
from nsyswrap.compare import MARGIN, Outcome, compare_reports
from nsyswrap.compare.comparability import FEWEST_STEPS
from nsyswrap.compare.estimates import decide, estimate_changes
from nsyswrap.compare.step_times import MeasuredSteps, step_times

Series = npt.NDArray[np.float64]
Maker = Callable[[np.random.Generator, int], Series]

RUNS = 1_000
COUNTS = (10, 29, 58, 116)
STEP_NS = 5e6
OUTLIER_SHARE = 0.04


def autoregressive(correlation: float, spread: float) -> Maker:
    """Return a function that draws steps, each similar to the one before it."""

    def draw(generator: np.random.Generator, count: int) -> Series:
        noise = generator.standard_normal(count + 50)
        values = np.zeros(count + 50)
        for at in range(1, len(values)):
            values[at] = correlation * values[at - 1] + np.sqrt(1 - correlation**2) * noise[at]
        return STEP_NS * np.exp(spread * values[50:])

    return draw


def periodic(every: int, factor: float) -> Maker:
    """Return a function that draws steps; every k-th is longer, as with k loader workers or gradient accumulation."""

    def draw(generator: np.random.Generator, count: int) -> Series:
        late = (np.arange(count) + generator.integers(every)) % every == 0
        return STEP_NS * np.where(late, factor, 1.0) * np.exp(0.05 * generator.standard_normal(count))

    return draw


def with_outliers(generator: np.random.Generator, count: int) -> Series:
    """Return steps with 4 % outliers that take 2 to 20 times as long."""
    rare = generator.random(count) < OUTLIER_SHARE
    factor = np.where(rare, generator.uniform(2, 20, count), 1.0)
    return STEP_NS * factor * np.exp(0.08 * generator.standard_normal(count))


KINDS: dict[str, Maker] = {
    "independent, 10 % spread": autoregressive(0.0, 0.10),
    "autocorrelation 0.3, 10 % spread": autoregressive(0.3, 0.10),
    "autocorrelation 0.6, 10 % spread": autoregressive(0.6, 0.10),
    "autocorrelation 0.8, 10 % spread": autoregressive(0.8, 0.10),
    "autocorrelation -0.45, 15 % spread": autoregressive(-0.45, 0.15),
    "every 8th step twice as long": periodic(8, 2.0),
    "every 4th step 1.6 times as long": periodic(4, 1.6),
    "every 2nd step 1.3 times as long": periodic(2, 1.3),
    "4 % outliers, 2 to 20 times": with_outliers,
}


def outcome(base: Series, new: Series) -> Outcome:
    """Return the outcome for two series of steps, one right after the other."""
    sides = [MeasuredSteps(one, one) for one in (base, new)]
    return decide(estimate_changes(sides[:1], sides[1:], MARGIN)).outcome


def simulate(effect: float) -> Iterator[str]:
    """Yield rows of a Markdown table: how often a change was reported, and how often the result was open."""
    for name, draw in KINDS.items():
        cells = []
        for count in COUNTS:
            generator = np.random.default_rng(count)
            said = Counter(outcome(draw(generator, count), (1 + effect) * draw(generator, count)) for _ in range(RUNS))
            changed = said[Outcome.FASTER] + said[Outcome.SLOWER]
            cells.append(f"{100 * changed / RUNS:.1f} ({100 * said[Outcome.CANNOT_TELL] / RUNS:.1f})")
        yield f"| {name} | {' | '.join(cells)} |"


def split(path: Path) -> Iterator[str]:
    """Yield the outcome for odd and even steps, and for the first and second half."""
    steps = step_times(report_at(path, ReadOptions()))
    middle = steps.count // 2
    if middle < FEWEST_STEPS:
        return
    halves = {
        "odd and even": (slice(0, None, 2), slice(1, None, 2)),
        "halves": (slice(0, middle), slice(middle, None)),
    }
    for name, (one, other) in halves.items():
        sides = [MeasuredSteps(steps.length[at], steps.period[at]) for at in (one, other)]
        estimates = estimate_changes(sides[:1], sides[1:], MARGIN)
        changes = "; ".join(
            f"{each.label} {100 * each.change.point:+.1f} [{100 * each.change.low:+.1f}, {100 * each.change.high:+.1f}]"
            for each in estimates
        )
        yield f"| {path.stem} | {name} | {sides[0].count} | {decide(estimates).outcome} | {changes} |"


def compare_runs(paths: list[Path]) -> Iterator[str]:
    """Yield the outcome for each pair of runs of one program, and how often each outcome occurred."""
    reports = [report_at(path, ReadOptions()) for path in paths]
    said: Counter[str] = Counter()
    for (one, base), (other, new) in combinations(zip(paths, reports, strict=True), 2):
        found = compare_reports([base], [new], (str(one), str(other)))
        said[found.outcome.value] += 1
        changes = "; ".join(f"{each.label} {100 * each.change.point:+.1f} %" for each in found.estimates)
        names = names_of(one, other)
        yield f"| {names[0]} | {names[1]} | {found.outcome.value} | {changes} |"
    counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(said.items()))
    yield f"{said.total()} pairs: {counts}"


def compare_groups(size: int, paths: list[Path]) -> Iterator[str]:
    """Yield how often each outcome occurred for N runs and N other runs, over all such groups."""
    reports = [report_at(path, ReadOptions()) for path in paths]
    said: Counter[str] = Counter()
    for base in combinations(range(len(reports)), size):
        rest = [at for at in range(base[0] + 1, len(reports)) if at not in base]
        for new in combinations(rest, size):
            sides = [[reports[at] for at in group] for group in (base, new)]
            said[compare_reports(sides[0], sides[1], ("base", "new")).outcome.value] += 1
    counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(said.items()))
    yield f"{size} runs against {size}: {said.total()} pairs: {counts}"


def main(paths: list[str]) -> None:
    """Print the rates of simulated steps, or the outcomes of real ones."""
    if paths[:1] == ["--pairs"]:
        for row in compare_runs([Path(path) for path in paths[1:]]):
            print(row, flush=True)
        return
    if paths[:1] == ["--groups"]:
        for row in compare_groups(int(paths[1]), [Path(path) for path in paths[2:]]):
            print(row, flush=True)
        return
    if paths:
        for path in paths:
            for row in split(Path(path)):
                print(row, flush=True)
        return
    for effect in (0.0, 0.05, 0.10):
        print(f"\nin 100: said faster or slower (cannot tell), new {100 * effect:.0f} % slower, {RUNS} pairs a cell")
        print(f"| steps | {' | '.join(map(str, COUNTS))} |")
        for row in simulate(effect):
            print(row, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
