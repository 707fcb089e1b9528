# ruff: noqa: INP001 - a part of tools/measure_overhead.py, not a package
"""The page docs/overhead.md: what nsys costs, and how well the step without it is simulated."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

NEAR = 0.10
WIDTH = 120
HEAD = """# Overhead: what the profiler costs, and the step without it

nsys adds some microseconds to each call that it records. A program whose CPU sets the pace is slower under it; one
whose GPU does is not. nsyswrap measures the cost of a call on the machine and simulates the step without it: see
[the section on the profiler's own cost](sections/profiler_cost.md). `make overhead` runs each program alone, under
`nsyswrap profile`, and alone again, and writes this page from `reports/overhead.json`.
"""
TABLE = """
## Programs

Median step, in ms. **alone**: runs without nsys. **recorded**: under `nsyswrap profile`.
**simulated**: the step without the profiler, from the recorded run, with its interval. **off**: the simulated step
against the mean of the runs alone. **held**: whether the interval overlaps the runs alone.

| program | alone | recorded | slower | simulated | off | held |
|---|---|---|---|---|---|---|
"""
OPTIONS = """
## Options

The step under nsys with some traces and options, as a multiple of the step alone.

"""


def simulated(row: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the simulated interval of a program in ns; None where there is none."""
    low, high = row["step"]["without_profiler_low_ns"], row["step"]["without_profiler_high_ns"]
    return None if low is None or high is None else (low, high)


def off_share(row: Mapping[str, Any]) -> float | None:
    """Return how far the simulated step is from the mean of the runs alone, as a share of it."""
    found, alone = row["step"]["without_profiler_ns"], sum(row["alone_ns"]) / len(row["alone_ns"])
    return None if found is None else (found - alone) / alone


def is_held(row: Mapping[str, Any]) -> bool:
    """Return whether the interval overlaps the runs alone."""
    found = simulated(row)
    return found is not None and found[0] <= max(row["alone_ns"]) and found[1] >= min(row["alone_ns"])


def line(row: Mapping[str, Any]) -> str:
    """Return the row of one program."""
    found, off = simulated(row), off_share(row)
    alone, recorded = row["alone_ns"], row["step"]["median_ns"]
    step = row["step"]["without_profiler_ns"]
    times = f"{step / 1e6:.2f} ({found[0] / 1e6:.2f} to {found[1] / 1e6:.2f})" if found else "not simulated"
    cells = (
        row["program"].replace("_", " "),
        ", ".join(f"{each / 1e6:.2f}" for each in alone),
        f"{recorded / 1e6:.2f}",
        f"{recorded / (sum(alone) / len(alone)):.2f} times",
        times,
        "" if off is None else f"{100 * off:+.1f} %",
        "yes" if is_held(row) else "no",
    )
    return f"| {' | '.join(cells)} |"


def page(results: Mapping[str, Any]) -> str:
    """Return the whole page."""
    rows = results["programs"]
    near = sum(1 for row in rows if (off := off_share(row)) is not None and abs(off) <= NEAR)
    held = sum(map(is_held, rows))
    summary = (
        f"\nOf {len(rows)} programs, the simulated step is within {round(100 * NEAR)} % of the step alone for {near}, "
        f"and its interval holds {held}.\n"
    )
    remarks = [f"\n{textwrap.fill(each, WIDTH, break_long_words=False)}\n" for each in results.get("remarks", ())]
    parts = [HEAD, _machine(results["machine"]), TABLE, *(f"{line(row)}\n" for row in rows), summary, *remarks]
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
        f"{each['usual_ns'] / 1e3:.2f} | {each['high_ns'] / 1e3:.2f} |\n"
        for kind, each in calls.items()
    )
    return (
        "\n## Calls\n\nWhat nsys added to one call on this machine, in us, as the profiles above used it.\n\n"
        f"| call | alone | adds at least | usually | at most |\n|---|---|---|---|---|\n{rows}"
    )


def _options(options: Sequence[Mapping[str, Any]]) -> str:
    if not options:
        return ""
    labels = [label for label in options[0]["runs"] if not label.startswith("alone")]
    head = f"| recorded | {' | '.join(each['program'].replace('_', ' ') for each in options)} |\n"
    rule = f"|---|{'---|' * len(options)}\n"
    rows = "".join(f"| {label} | {' | '.join(_ratio(each['runs'], label) for each in options)} |\n" for label in labels)
    return f"{OPTIONS}{head}{rule}{rows}"


def _ratio(runs: Mapping[str, int | None], label: str) -> str:
    """Return the step of a run as a multiple of the mean step alone; empty where a run failed."""
    alone, time = [time for name, time in runs.items() if name.startswith("alone") and time], runs[label]
    return f"{time / (sum(alone) / len(alone)):.2f}" if alone and time else ""
