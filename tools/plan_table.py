"""Check the plans of programs with several faults against the steps that were measured with the faults fixed."""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import fault_captures
import numpy as np
from fault_programs import constants

from nsyswrap.compare.plan_score import BESIDE
from nsyswrap.hardware.link_rates import read_rates
from nsyswrap.loop.context import Settings, find_context, find_states
from nsyswrap.model import Plan, PlannedChange
from nsyswrap.ranks.collectives import find_collectives
from nsyswrap.report import report_of
from nsyswrap.trace.load import load_export
from nsyswrap.what_if.fixed_step import typical
from nsyswrap.what_if.plan import find_plan
from nsyswrap.what_if.simulate import find_simulation

CAPTURES = Path(__file__).resolve().parent.parent / "tests" / "captures" / "plans"
STEPS = "steps.json"
# With a few steps only, one slow step decides what the mean step takes.
MOST_BYTES = 768 * 1024
SEPARATOR = "+"


COPY_RATES = CAPTURES.parent / "faults" / "copy_rates.json"
PROGRAMS = Path(__file__).resolve().parent.parent / "workloads" / "combined"
NEAR = 0.25
Steps = Mapping[str, Mapping[str, int]]
HEADS = "| program | change | predicted step, ms | measured step, ms | missed |"
ABOUT = """Each program of `workloads/combined` has two or three faults, each with a switch. It is profiled with every
set of its faults fixed; `tools/judge_plans.py` does that again. The plan below is that of the capture with all faults:
each change is simulated on top of those before it. It leaves out findings that the program has no switch for."""
MEANINGS = (
    "- **predicted step**: the mean step after this change and those before it, and its range.",
    "- **measured step**: the mean step of the run with these faults fixed, and of the run before this change.",
    "- **missed**: *interval*, where the measured step is outside of the predicted one. *step*, *saving*: the step, or",
    "  what is saved of that with all faults, is off by more than 25 %. *order*: another fault, fixed in its place,",
    "  leaves a step that is shorter by more than 3 %.",
)
LIMITS = """The captures are cut to 768 KiB, so the step that a plan begins with may differ from the measured one. Most
programs were profiled once with each set, 20 to 36 steps, on machines whose cores others share."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program with several faults, as its constants describe it.

    Attributes:
        faults: The rule of each fault, by the name of its switch.
    """

    name: str
    faults: Mapping[str, str]

    @property
    def sets(self) -> tuple[frozenset[str], ...]:
        """Return every set of faults that can be fixed: none, each alone, all, then the rest."""
        sizes = sorted(range(len(self.faults) + 1), key=lambda size: (size > 1 and size < len(self.faults), size))
        return tuple(frozenset(each) for size in sizes for each in combinations(sorted(self.faults), size))


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one planned change came out; times in ns.

    Attributes:
        change: The planned change; None where the plan has none for this fault.
        now_ns: A step with all faults, in the capture with the plan.
        base_ns: A measured step with all faults.
        before_ns: A measured step before this change.
        measured_ns: A measured step after it.
        best_ns: The shortest measured step after any one of the changes that could come here.
    """

    program: str
    switch: str
    change: PlannedChange | None
    now_ns: int
    base_ns: int
    before_ns: int
    measured_ns: int
    best_ns: int

    @property
    def is_within(self) -> bool:
        """Return whether the measured step is in the predicted interval."""
        return self.change is not None and self.measured_ns in self.change.step

    @property
    def step_is_near(self) -> bool:
        """Return whether the predicted step is within a quarter of the measured step."""
        return self.change is not None and abs(self.change.step.point - self.measured_ns) <= NEAR * self.measured_ns

    @property
    def saving_is_near(self) -> bool:
        """Return whether the predicted saving is within a quarter of the measured saving."""
        saved = self.base_ns - self.measured_ns
        return self.change is not None and abs(self.now_ns - self.change.step.point - saved) <= NEAR * abs(saved)

    @property
    def is_first(self) -> bool:
        """Return whether no other change would have left a step that is shorter by more than that."""
        return self.change is not None and self.measured_ns <= (1 + BESIDE) * self.best_ns


def label(name: str, fixed: frozenset[str]) -> str:
    """Return the name of a capture: that of the program, and of what is fixed."""
    return SEPARATOR.join([name, *sorted(fixed)])


def find_programs(folder: Path) -> list[Program]:
    """Return the programs of a folder with several faults, by name; modules without FAULTS are left out."""
    own = {path.stem: constants(path) for path in sorted(folder.glob("*.py"))}
    return [Program(name, each["FAULTS"]) for name, each in own.items() if "FAULTS" in each]


def measured(export: Path) -> dict[str, int]:
    """Return the number of measured steps of an export, their median and their mean time, in ns."""
    steps = find_context(load_export(export)).steps
    window, frame = steps.measured_window(), steps.measured
    length = frame["end"].to_numpy() - frame["start"].to_numpy()
    count = steps.measured_count
    mean = window.length_ns // count if window and count else 0
    return {"count": count, "median_ns": round(float(np.median(length))) if count else 0, "mean_ns": mean}


def section(captures: Path, folder: Path = PROGRAMS) -> list[str]:
    """Return the lines of docs/faults.md on plans."""
    known = captures / STEPS
    steps: Steps = json.loads(known.read_text()) if known.exists() else {}
    rows, left_out = [], []
    for program in find_programs(folder):
        packed = captures / f"{program.name}.sqlite.xz"
        if not packed.exists():
            left_out.append(f"`{program.name}`")
        else:
            rows += judge(program, packed, steps)
    lines = ["## Plans", "", *ABOUT.splitlines(), "", *MEANINGS, ""]
    table = [HEADS, "|---" * (HEADS.count("|") - 1) + "|", *map(_row, rows)]
    missing = ["", f"Not measured: {', '.join(left_out)}."] if left_out else []
    return [*lines, *table, "", _summary(rows), *missing, "", *LIMITS.splitlines()]


def judge(program: Program, packed: Path, steps: Steps) -> list[Outcome]:
    """Return how each change of a program's plan came out, in order; planted faults alone are planned."""
    plan = plan_of(packed, frozenset(program.faults.values()))
    times = {
        fixed: steps[label(program.name, fixed)]["mean_ns"]
        for fixed in program.sets
        if label(program.name, fixed) in steps
    }
    switches = {rule: switch for switch, rule in program.faults.items()}
    now, base = plan.step_ns or 0, times[frozenset()]
    found, fixed = [], frozenset[str]()
    for each in plan.changes:
        more = fixed | {switches[each.rule]}
        if more not in times:
            break
        best = min(
            times[fixed | {other}] for other in program.faults if other not in fixed and fixed | {other} in times
        )
        found.append(Outcome(program.name, switches[each.rule], each, now, base, times[fixed], times[more], best))
        fixed = more
    missed = [switch for switch in program.faults if switch not in fixed]
    return [*found, *(Outcome(program.name, each, None, now, base, 0, 0, 0) for each in missed)]


def plan_of(packed: Path, rules: frozenset[str]) -> Plan:
    """Return the plan of a packed capture, made of the findings of some rules."""
    settings = Settings(copy_rates=read_rates(json.loads(COPY_RATES.read_text())))
    with tempfile.TemporaryDirectory() as folder:
        context = find_context(load_export(fault_captures.unpack(packed, Path(folder))), settings)
        report = report_of(context)
    simulation = find_simulation(context, find_states(context, report.window), report.window, find_collectives(context))
    findings = [each for each in report.findings if each.rule in rules]
    return find_plan(simulation, findings, typical(report.step, report.window))


def _row(one: Outcome) -> str:
    if one.change is None:
        return f"| `{one.program}` | `{one.switch}` | not in the plan | | |"
    low, point, high = (f"{each / 1e6:.2f}" for each in one.change.step.in_order)
    predicted = f"{point} ({low} to {high})"
    order = f"order: another leaves {one.best_ns / 1e6:.2f}"
    parts = (
        ("interval", one.is_within),
        ("step", one.step_is_near),
        ("saving", one.saving_is_near),
        (order, one.is_first),
    )
    cells = (
        f"`{one.program}`",
        f"`{one.switch}` (`{one.change.rule}`)",
        predicted,
        f"{one.measured_ns / 1e6:.2f} of {one.before_ns / 1e6:.2f}",
        ", ".join(name for name, is_right in parts if not is_right),
    )
    return f"| {' | '.join(cells)} |"


def _summary(rows: list[Outcome]) -> str:
    made = [each for each in rows if each.change]
    counts = [
        sum(each)
        for each in zip(*((o.is_first, o.step_is_near, o.saving_is_near, o.is_within) for o in made), strict=True)
    ]
    first, near, saved, within = counts or (0, 0, 0, 0)
    return (
        f"{len(made)} of {len(rows)} faults are in a plan. {first} changes come in the right order, {near} predicted "
        f"steps are within 25 % of the measured one, {saved} predicted savings are, and {within} measured steps are in "
        "the interval."
    )
