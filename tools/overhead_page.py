# ruff: noqa: INP001 - a part of tools/measure_overhead.py, not a package
"""The page docs/overhead.md: what nsys costs, and how well the step without it is simulated."""

import statistics
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

NEAR = 0.10
WIDTH = 120
HEAD = """# Overhead: what the profiler costs, and the step without it

nsys adds some microseconds to each call that it records. A program whose CPU sets the pace is slower under it; one
whose GPU does is not. nsyswrap measures the cost of a call on the machine and simulates the step without it: see
[the section on the profiler's own cost](sections/profiler_cost.md). `make overhead` lets each program take turns with
itself under `nsyswrap profile`, and writes this page from `reports/overhead.json`.
"""
TABLE = """
## Programs

Median step of each round, in ms. **alone**: without nsys. **recorded**: under `nsyswrap profile`, in turns with the
run alone. **slower**: the median of the recorded runs against that of the runs alone.
**simulated**: the step without the profiler, from each recorded run, with its interval. **off**: how far the simulated
step is from the step alone of its round, the median of the rounds. **held**: how many of the intervals hold the step
alone.

| program | alone | recorded | slower | simulated | off | held |
|---|---|---|---|---|---|---|
"""
OPTIONS = """
## Options

The step under nsys with some traces and options, in turns with the step alone, as a multiple of it.

"""


def off_share(row: Mapping[str, Any]) -> float | None:
    """Return how far the simulated step is from the step alone, as a share of it: the median of the rounds."""
    pairs = zip((each["step"]["alone"] for each in row["profiles"]), row["alone_ns"], strict=True)
    shares = [(simulated["point_ns"] - alone) / alone for simulated, alone in pairs if simulated is not None]
    return statistics.median(shares) if shares else None


def is_near(row: Mapping[str, Any]) -> bool:
    """Return whether the simulated step of a program is near the step alone."""
    off = off_share(row)
    return off is not None and abs(off) <= NEAR


def _rounds(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of each round of a program."""
    pairs = zip(row["alone_ns"], row["profiles"], strict=True)
    return [{"alone_ns": [alone], "profiles": [profile]} for alone, profile in pairs]


def is_held(step: Mapping[str, Any], alone_ns: int) -> bool:
    """Return whether the interval of a recorded run holds the step alone."""
    found = step["alone"]
    return found is not None and found["low_ns"] <= alone_ns <= found["high_ns"]


def line(row: Mapping[str, Any]) -> str:
    """Return the row of one program."""
    off, alone, steps = off_share(row), row["alone_ns"], [each["step"] for each in row["profiles"]]
    recorded = [step["recorded_ns"] for step in steps]
    cells = (
        row["program"].replace("_", " "),
        ", ".join(f"{each / 1e6:.2f}" for each in alone),
        ", ".join(f"{each / 1e6:.2f}" for each in recorded),
        f"{statistics.median(recorded) / statistics.median(alone):.2f} times",
        ", ".join(map(_simulated, steps)),
        "" if off is None else f"{round(100 * off, 1) + 0.0:+.1f} %",
        f"{_held(row)} of {len(steps)}",
    )
    return f"| {' | '.join(cells)} |"


def _simulated(step: Mapping[str, Any]) -> str:
    if step["alone"] is None:
        return "not simulated"
    low, point, high = (f"{step['alone'][key] / 1e6:.2f}" for key in ("low_ns", "point_ns", "high_ns"))
    return f"{point} ({low} to {high})"


def _held(row: Mapping[str, Any]) -> int:
    return sum(is_held(each["step"], alone) for each, alone in zip(row["profiles"], row["alone_ns"], strict=True))


def page(results: Mapping[str, Any]) -> str:
    """Return the whole page."""
    rows = results["programs"]
    near, profiles = sum(map(is_near, rows)), sum(len(row["profiles"]) for row in rows)
    single, held = sum(is_near(each) for row in rows for each in _rounds(row)), sum(map(_held, rows))
    share = f"{round(100 * NEAR)} %"
    summary = (
        f"Of {len(rows)} programs, the simulated step is within {share} of the step alone for {near}: the median of "
        f"its rounds. Of {profiles} single rounds, {single} are. Of {profiles} intervals, {held} hold the step alone."
    )
    texts = [
        f"\n{textwrap.fill(each, WIDTH, break_long_words=False, break_on_hyphens=False)}\n"
        for each in (summary, *results.get("remarks", ()))
    ]
    parts = [HEAD, _machine(results["machine"]), TABLE, *(f"{line(row)}\n" for row in rows), *texts]
    return "".join([*parts, _costs(results["machine"]), _options(results["options"])])


def _machine(machine: Mapping[str, Any]) -> str:
    if not machine:
        return "\nNothing was measured yet.\n"
    gpus, conditions = ", ".join(machine["gpus"]), machine["cost"]["conditions"]
    return (
        f"\nMeasured on: {gpus}, driver {machine['driver']}, {machine['cores']} cores of {conditions['cpu']}, nsys "
        f"{machine['nsys']}, Python {machine['python']}, torch {machine['torch']}.\n"
    )


def _costs(machine: Mapping[str, Any]) -> str:
    calls = machine["cost"]["calls"] if machine else {}
    if not calls:
        return ""
    rows = "".join(
        f"| {kind.replace('_', ' ')} | {each['alone_ns'] / 1e3:.2f} | {each['low_ns'] / 1e3:.2f} | "
        f"{each['usual_ns'] / 1e3:.2f} | {each['high_ns'] / 1e3:.2f} | {_slowdown(each)} |\n"
        for kind, each in calls.items()
    )
    return (
        "\n## Calls\n\nWhat nsys added to one call on this machine, in us, as the profiles above used it. "
        "**slowdown**:\nhow many times as long the work from one launch to the next took, usually and at most.\n\n"
        f"| call | alone | adds at least | usually | at most | slowdown |\n|---|---|---|---|---|---|\n{rows}"
    )


def _slowdown(call: Mapping[str, Any]) -> str:
    return " to ".join(f"{each:.2f}" for each in call.get("slowdown", ()))


def _options(options: Sequence[Mapping[str, Any]]) -> str:
    if not options:
        return ""
    labels = [label for label in options[0]["runs"] if label != "alone"]
    head = f"| recorded | {' | '.join(each['program'].replace('_', ' ') for each in options)} |\n"
    rule = f"|---|{'---|' * len(options)}\n"
    rows = "".join(
        f"| {label} | {' | '.join(_times_alone(each['runs'], label) for each in options)} |\n" for label in labels
    )
    return f"{OPTIONS}{head}{rule}{rows}"


def _times_alone(runs: Mapping[str, int], label: str) -> str:
    """Return the step of a run as a multiple of the step alone."""
    return f"{runs[label] / runs['alone']:.2f}"
