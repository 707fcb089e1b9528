"""The judge of plans: sets of fixed faults, outcomes against measured steps, and the table of docs/faults.md."""

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from nsyswrap.model import PlannedChange

ROOT = Path(__file__).resolve().parents[2]
CAPTURES = ROOT / "tests" / "captures" / "plans"
PROGRAMS = ROOT / "workloads" / "combined"
MS = 1_000_000


@pytest.fixture(scope="module")
def table() -> Iterator[ModuleType]:
    """Import tools/plan_table.py in the same way as the other tools do."""
    sys.path.insert(0, str(ROOT / "tools"))
    yield importlib.import_module("plan_table")
    sys.path.remove(str(ROOT / "tools"))


def test_every_set_of_faults_is_profiled_and_what_a_plan_needs_first_comes_first(table: ModuleType) -> None:
    three = table.Program("three", "a shape", "", {"b": "x/b", "a": "x/a", "c": "x/c"})
    labels = [table.label("three", each) for each in three.sets]
    assert labels == ["three", "three+a", "three+b", "three+c", "three+a+b+c", "three+a+b", "three+a+c", "three+b+c"]


def test_programs_are_read_with_their_faults(table: ModuleType) -> None:
    found = {each.name: each for each in table.find_programs(PROGRAMS)}
    assert found["pictures"].faults == {"workers": "idle/data_wait", "optimizer": "optimizer/many_kernels"}
    assert "switches" not in found


@pytest.mark.parametrize(
    ("low_ms", "high_ms", "measured_ms", "best_ms", "within", "step", "saving", "first"),
    [
        (4.0, 6.0, 5.0, 5.0, True, True, True, True),
        (4.0, 4.5, 5.0, 4.9, False, True, True, True),
        (8.0, 8.1, 9.0, 9.0, False, True, False, True),
        (4.0, 6.0, 5.0, 4.0, True, True, True, False),
        (1.0, 6.0, 2.0, 2.0, True, False, True, True),
    ],
)
def test_an_outcome_is_judged_by_step_saving_interval_and_order(  # noqa: PLR0913 - a row of the table
    low_ms: float,
    high_ms: float,
    measured_ms: float,
    best_ms: float,
    *,
    within: bool,
    step: bool,
    saving: bool,
    first: bool,
    table: ModuleType,
) -> None:
    """A step of 10 ms: the saving of 2 ms is not near 1 ms, and another change that leaves 4 of 5 ms comes first."""
    low, high, measured, best = (round(each * MS) for each in (low_ms, high_ms, measured_ms, best_ms))
    one = table.Outcome("p", "s", PlannedChange("x/s", low, high), 10 * MS, 10 * MS, 10 * MS, measured, best)
    assert (one.is_within, one.step_is_near, one.saving_is_near, one.is_first) == (within, step, saving, first)


def test_the_plans_of_the_captures_are_in_order_and_near_what_was_measured(table: ModuleType) -> None:
    """At least eight programs, each fault in the plan, each change in order, each step within 25 %."""
    steps = json.loads((CAPTURES / table.STEPS).read_text())
    judged = {}
    for program in table.find_programs(PROGRAMS):
        packed = CAPTURES / f"{program.name}.sqlite.xz"
        if packed.exists():
            judged[program.name] = table.judge(program, packed, steps)
    assert len(judged) >= 8
    outcomes = [each for mine in judged.values() for each in mine]
    assert [(each.program, each.switch) for each in outcomes if each.change is None] == []
    assert [(each.program, each.switch) for each in outcomes if not each.is_first] == []
    assert [(each.program, each.switch) for each in outcomes if not each.step_is_near] == []
