"""The page docs/overhead.md: how well reports describe programs without the profiler, and what nsys costs."""

import math
import statistics
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from nsyswrap.base import units
from nsyswrap.base.interval import NAMES, Interval
from nsyswrap.base.intervals import Window
from nsyswrap.model import StepTimes
from nsyswrap.verdict import LIMIT_SHARE, says_idle
from nsyswrap.what_if.fixed_step import WIDEST_FACTOR, CurrentStep, is_known, typical

WIDTH = 120
# Rows of the tables: numbers that are off by more. Ours.
STEP_OFF, FIX_OFF = 0.08, 0.20
KINDS = {"fault": "", "fix": ", fixed"}
HEAD = """# Overhead: what the profiler costs, and the step without it

nsys slows a program whose CPU sets the pace, and not one whose GPU does. The first screen of a report is about the
program as it runs alone. `make overhead` runs programs alone and under `nsyswrap profile`, in turns on the same cores,
and writes this page from `reports/overhead.json`.
"""
STEPS = f"""
## The step alone

Times of a step in ms. **alone**: without nsys, the median over turns of the median step. **turns**: how far a turn is
from it, at most. **recorded**: under nsys. **report**: the step alone in the report, with its range; none where that is
wider than a factor of {WIDEST_FACTOR}. **off**: how far it is from the measured step alone. **own**: how far the steps
are that the recorded process took before it was recorded. **held**: whether the range holds the measured step. The rows
are those where it does not, or that are off by more than {100 * STEP_OFF:.0f} %. `reports/overhead.json` has all
programs.

| program | alone | turns | recorded | report | off | own | held |
|---|---|---|---|---|---|---|---|
"""
PLANS = f"""
## The step with the fix

Mean times of a step in ms. **with the fix**: the fixed program alone. **predicted**: the step with the first changes of
the plan, with its range. Where these are not the planted faults alone, it is the step without the one fault, by its
finding. Programs with several faults there, or whose step the report calls unknown, are left out. **width**: of the
range, as a share of the measured step. The rows are those where the range does not hold the step, or that are off by
more than {100 * FIX_OFF:.0f} %.

| program | alone | with the fix | turns | predicted | off | held | width |
|---|---|---|---|---|---|---|---|
"""
VERDICTS = """
## What limits the run

The GPU is as busy alone as its work in the recording takes of the mean step alone.
"""


class Compared(NamedTuple):
    """A number of a report beside what was measured; times in ns.

    Attributes:
        before_ns: The step alone.
        recorded_ns: The step under nsys.
        found: The interval of the report; None where it has none, or one too wide to say something.
        turns: How far a turn of the program is from the median turn, at most, as a share of it.
        own_ns: The step of the recorded process before it was recorded; None where it timed none.
    """

    program: str
    before_ns: int
    measured_ns: int
    recorded_ns: int | None
    found: Mapping[str, int] | None
    turns: float = 0.0
    own_ns: int | None = None

    @property
    def own_off(self) -> float:
        """Return how far the steps of the recorded process are from the measured time, as a share of it."""
        return self.own_ns / self.measured_ns - 1 if self.own_ns else math.nan

    @property
    def off(self) -> float:
        """Return how far the point is from the measured time, as a share of it."""
        return self.found["point_ns"] / self.measured_ns - 1 if self.found else math.nan

    @property
    def is_held(self) -> bool:
        """Return whether the interval holds the measured time."""
        return self.found is not None and self.found["low_ns"] <= self.measured_ns <= self.found["high_ns"]

    @property
    def width(self) -> float:
        """Return the width of the interval as a share of the measured time."""
        return (self.found["high_ns"] - self.found["low_ns"]) / self.measured_ns if self.found else math.nan


def steps_of(rows: Sequence[Mapping[str, Any]]) -> list[Compared]:
    """Return the step alone of each report."""
    return [
        Compared(
            f"{_name(row)}{suffix}",
            row[kind]["median_ns"],
            row[kind]["median_ns"],
            row[kind]["report"]["step"]["recorded_ns"],
            _known(row[kind]["report"]["step"]["alone"]),
            _spread(row[kind]),
            row[kind]["report"].get("own_ns"),
        )
        for row in rows
        for kind, suffix in KINDS.items()
        if "report" in row.get(kind, ())
    ]


def plans_of(rows: Sequence[Mapping[str, Any]]) -> list[Compared]:
    """Return the predicted step of each program with a fix."""
    found = []
    for row in (each for each in rows if "fix" in each):
        predicted = _predicted(row["fault"]["report"], row["rules"])
        before, after = row["fault"], row["fix"]
        turns = max(_spread(before), _spread(after))
        found.append(Compared(_name(row), before["mean_ns"], after["mean_ns"], None, predicted, turns))
    return found


def _spread(run: Mapping[str, Any]) -> float:
    return float(max(abs(each / run["median_ns"] - 1) for each in run["turns_ns"]))


def _predicted(report: Mapping[str, Any], rules: Sequence[str]) -> Mapping[str, int] | None:
    """Return the step after the first changes of a plan, if these are those of the rules; else by the one finding."""
    count = len(set(rules))
    first = report["plan"][:count]
    if count and {each["rule"] for each in first} == set(rules):
        return _known(first[-1]["step"])
    savings = [each["saving"] for each in report.get("findings", ()) if each["rule"] in rules and each["saving"]]
    now = _now(report["step"]) if count == 1 and savings else None
    return None if now is None else _known(_as_found(now.after(_interval(savings[0]))))


def _now(step: Mapping[str, Any]) -> CurrentStep | None:
    """Return the time of a step of a report now."""
    alone = None if step["alone"] is None else _interval(step["alone"])
    times = StepTimes(
        step["count"], step["recorded_ns"], alone, step["alone_source"], step["total_ns"], step["alone_total_ns"]
    )
    return typical(times, Window(0, max(step["total_ns"], 1), "", "steps"))


def _interval(found: Mapping[str, int]) -> Interval[int]:
    return Interval(*(found[f"{name}_ns"] for name in NAMES))


def _as_found(time: Interval[int]) -> Mapping[str, int]:
    return {f"{name}_ns": ns for name, ns in zip(NAMES, time.in_order, strict=True)}


def _known(found: Mapping[str, int] | None) -> Mapping[str, int] | None:
    """Return an interval of a report; None where the report calls it unknown."""
    return found if found and is_known(_interval(found)) else None


def lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield from map(_step_line, steps_of(rows))
    yield from map(_plan_line, plans_of(rows))


def page(results: Mapping[str, Any]) -> str:
    rows = sorted(results["programs"], key=lambda row: (row["program"], row.get("gpu", "")))
    steps, plans = steps_of(rows), plans_of(rows)
    parts = [HEAD, _wrapped(_measured_on(results["machine"], rows))]
    if rows:
        shown = (each for each in steps if not each.is_held or abs(each.off) > STEP_OFF)
        said = f"{_summary('step alone', steps)} {_between_turns(rows)}{_of_own(steps)}"
        parts += [STEPS, *(f"{_step_line(each)}\n" for each in shown), _wrapped(said)]
        parts += [
            PLANS,
            *(
                f"{_plan_line(each)}\n"
                for each in plans
                if each.found and (not each.is_held or abs(each.off) > FIX_OFF)
            ),
            _wrapped(_summary("predicted step", plans)),
        ]
        parts += [VERDICTS, *map(_wrapped, _verdicts(rows))]
    return "".join([*parts, _costs(results["machine"]), *map(_wrapped, results.get("remarks", ()))])


def _name(row: Mapping[str, Any]) -> str:
    """Return the name of a program, and the short one of the GPU that it was measured on."""
    gpu = row.get("gpu", "").removeprefix("NVIDIA ").partition(" ")[0]
    name = str(row["program"]).rpartition(".")[2].replace("_", " ")
    return f"{name} ({gpu})" if gpu else name


def _step_line(one: Compared) -> str:
    recorded, (report, off, held) = "" if one.recorded_ns is None else _ms(one.recorded_ns), _judged(one)
    own = f"{100 * one.own_off + 0.0:+.1f} %" if one.own_ns else ""
    return _cells(one.program, _ms(one.measured_ns), _share(one.turns), recorded, report, off, own, held)


def _plan_line(one: Compared) -> str:
    width = _share(one.width) if one.found else ""
    return _cells(one.program, _ms(one.before_ns), _ms(one.measured_ns), _share(one.turns), *_judged(one), width)


def _share(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")


def _judged(one: Compared) -> tuple[str, str, str]:
    if one.found is None:
        return "none", "", ""
    low, point, high = (_ms(one.found[f"{key}_ns"]) for key in ("low", "point", "high"))
    return f"{point} ({low} to {high})", f"{100 * one.off + 0.0:+.1f} %", "yes" if one.is_held else "no"


def _cells(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _ms(ns: float) -> str:
    return f"{ns / 1e6:.2f}"


def _summary(what: str, compared: Sequence[Compared]) -> str:
    """Return how near the numbers of reports are, in a sentence or two."""
    known = [each for each in compared if each.found]
    if not known:
        return f"No report has a {what}."
    return (
        f"{len(known)} of {len(compared)} reports have a {what}. It is off by {_errors(known)}. The range holds the "
        f"measured step in {sum(each.is_held for each in known)} of them, and its median width is "
        f"{100 * statistics.median(each.width for each in known):.0f} % of the step."
    )


def _errors(known: Sequence[Compared]) -> str:
    return _shares(sorted(abs(each.off) for each in known))


def _shares(errors: Sequence[float]) -> str:
    return f"{100 * statistics.median(errors):.1f} % (median), {100 * _ninth(errors):.1f} % (90th percentile)"


def _ninth(errors: Sequence[float]) -> float:
    return errors[math.ceil(0.9 * len(errors)) - 1]


def _between_turns(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return how far a turn alone is from the other turns of the same run: the pace of the machine changes."""
    runs = [row[kind]["turns_ns"] for row in rows for kind in KINDS if kind in row]
    errors = sorted(
        abs(each / statistics.median(others) - 1)
        for turns in runs
        for at, each in enumerate(turns)
        if (others := [*turns[:at], *turns[at + 1 :]])
    )
    if not errors:
        return ""
    return f"A turn without nsys is off from the other turns of its program by {_shares(errors)}."


def _of_own(steps: Sequence[Compared]) -> str:
    """Return how far the steps of the recorded processes are from those alone, and the reports from them."""
    known = [each for each in steps if each.found and each.own_ns]
    if not known:
        return ""
    own = sorted(abs(each.own_off) for each in known)
    near = sorted(abs(each.found["point_ns"] / (each.own_ns or 1) - 1) for each in known if each.found)
    return (
        f" The steps that {len(known)} recorded processes took before they were recorded are off from those alone by "
        f"{_shares(own)}, and the reports from these steps by {_shares(near)}."
    )


def _verdicts(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    kinds = [(row, kind, suffix) for row in rows for kind, suffix in KINDS.items()]
    runs = [(f"{_name(row)}{suffix}", row[kind]) for row, kind, suffix in kinds if "report" in row.get(kind, ())]
    busy = [(name, run, run["report"]["busy_ns"]) for name, run in runs if run["report"].get("busy_ns")]
    full = [(name, run) for name, run, ns in busy if ns > (1 - LIMIT_SHARE) * run["mean_ns"]]
    made = [(name, run) for name, run in full if says_idle(run["report"]["verdict_rule"])]
    yield (
        f"{len(full)} of {len(busy)} programs keep the GPU busy for more than {100 * (1 - LIMIT_SHARE):.0f} % of the "
        f"time alone. The verdicts of {len(made) or 'none'} of these say that it waits."
    )
    for name, run in made:
        busy_share = run["report"]["busy_ns"] / run["mean_ns"]
        yield f"- {name}, {100 * busy_share:.0f} % busy: {run['report']['verdict']}"


def _wrapped(text: str) -> str:
    indent = "  " if text.startswith("- ") else ""
    filled = textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return f"\n{filled}\n"


def _measured_on(machine: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    if not machine:
        return "Nothing was measured yet."
    gpus = Counter(row.get("gpu") or "no GPU" for row in rows)
    named = ", ".join(f"{gpu} ({units.counted(count, 'program')})" for gpu, count in gpus.most_common())
    return (
        f"Measured on: {named}; driver {machine['driver']}, {machine['cores']} cores of "
        f"{(machine['cost'] or {}).get('conditions', {}).get('cpu', 'a CPU')}, nsys {machine['nsys']}, Python "
        f"{machine['python']}, torch {machine['torch']}."
    )


def _costs(machine: Mapping[str, Any]) -> str:
    calls = (machine.get("cost") or {}).get("calls", {})
    if not calls:
        return ""
    rows = "".join(
        f"| {kind.replace('_', ' ')} | {_us(each['alone_ns'])} | {_us(each['low_ns'])} | {_us(each['usual_ns'])} | "
        f"{_us(each['high_ns'])} | {_slowdown(each)} |\n"
        for kind, each in calls.items()
    )
    return (
        "\n## Calls\n\nWhat nsys added to one call on this machine, in us, as the profiles above used it. "
        "**slowdown**:\nhow many times as long the work from one launch to the next took, usually and at most.\n\n"
        f"| call | alone | adds at least | usually | at most | slowdown |\n|---|---|---|---|---|---|\n{rows}"
    )


def _us(ns: float) -> str:
    """Return a time in us; one that would round to zero is below 0.01."""
    shown = f"{ns / 1e3:.2f}"
    return "<0.01" if shown == "0.00" else shown


def _slowdown(call: Mapping[str, Any]) -> str:
    return " to ".join(f"{each:.2f}" for each in call.get("slowdown", ()))
