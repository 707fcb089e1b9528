"""The plan has an order of changes, the time of a step after each, and an end. Without a simulation there is none."""

from dataclasses import replace

import numpy as np
import pytest
from analysis_fixtures import window
from export_builder import MAIN, ExportBuilder, trace_of
from real_captures import RealContext, RealReport, of_captures
from savings import saving_of
from simulations import US, simulate, simulate_trace

from nsyswrap.base.interval import Interval
from nsyswrap.base.intervals import Spans
from nsyswrap.model import Finding, Severity
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.fixed_step import CurrentStep
from nsyswrap.what_if.plan import FEW, NO_STEPS, NOT_SIMULATED, NOTHING_SAVES, UNKNOWN, find_plan
from nsyswrap.what_if.saving import WhatIf
from nsyswrap.what_if.simulate import Simulation

TURNS = 10
# Ten turns of 100 µs as ten steps.
STEP = CurrentStep(Interval(100 * US, 100 * US, 100 * US), 100 * US * TURNS)


def finding(
    rule: str, change: Change | None, severity: Severity = Severity.WARNING, *, or_nothing: bool = False
) -> Finding:
    """Return a finding with the change that fixes it. Without a change, its saving is not simulated."""
    what_if = None if change is None else WhatIf(change, "", or_nothing)
    return Finding(
        rule,
        severity,
        "",
        0,
        None,
        "",
        (),
        0,
        window(0, 1_000 * US),
        None if change is None else "simulated",
        what_if,
    )


def host(*parts: tuple[float, float]) -> Change:
    """Return a change that removes host time from each turn: pairs of start and end in µs."""
    start = np.array([(number * 100 + first) * US for number in range(TURNS) for first, _ in parts], np.int64)
    end = np.array([(number * 100 + last) * US for number in range(TURNS) for _, last in parts], np.int64)
    return Change(host={MAIN: Spans(start, end)})


def launching(length: int = 5) -> Simulation:
    """Return a run of turns of 100 µs: a launch, a kernel of some µs, and a host that works until the next turn.

    A last launch ends the run, so that each turn counts.
    """
    builder = ExportBuilder()
    for number in range(TURNS + 1):
        at = number * 100 * US
        builder.kernel(at + 10 * US, at + (10 + length) * US, launched=(at, at + 4 * US))
    return simulate_trace(trace_of(builder), window(0, 2_000 * US))


def test_the_change_that_saves_most_comes_first_and_the_next_is_on_top_of_it() -> None:
    """Of 100 µs a turn, one change saves 30 µs and another 50 µs, with 10 µs in common: 50, then 30 µs are left."""
    findings = [finding("a/small", host((10, 40))), finding("b/large", host((30, 80)))]
    plan = find_plan(launching(), findings, STEP)
    assert [each.rule for each in plan.changes] == ["b/large", "a/small"]
    assert [each.step.point for each in plan.changes] == [50_000, 30_000]
    assert plan.notes == ("After that, the CPU sets the pace.",)


def test_a_note_comes_after_warnings_and_problems() -> None:
    """It saves more, by a simulation alone."""
    findings = [finding("a/note", host((30, 80)), Severity.NOTE), finding("b/warning", host((10, 40)))]
    changes = find_plan(launching(), findings, STEP).changes
    assert [(each.rule, each.step.point) for each in changes] == [("b/warning", 70_000), ("a/note", 30_000)]


def test_a_change_that_may_save_nothing_widens_the_range_of_its_row_and_of_those_after_it() -> None:
    """The first change saves 60 of 100 µs or nothing. The second one saves 10 µs in any case, with its own error."""
    findings = [finding("a/x", host((10, 70)), or_nothing=True), finding("b/x", host((75, 85)))]
    first, second = (each.step for each in find_plan(launching(), findings, STEP).changes)
    assert (first.point, first.high) == (40_000, 100_000)
    assert second.point == 30_000
    assert 90_000 <= second.high < 100_000


def test_the_findings_of_one_rule_on_several_gpus_are_one_change() -> None:
    plan = find_plan(launching(), [finding("a/x", host((10, 40))), finding("a/x", host((50, 60)))], STEP)
    assert [(each.rule, each.step.point) for each in plan.changes] == [("a/x", 60_000)]


def test_a_change_that_saves_less_than_one_per_cent_is_not_in_the_plan() -> None:
    """A turn takes 101.5 µs. A saving of 1.2 µs is in the plan, and a saving of 1 µs is not."""
    simulation = launching()
    assert len(find_plan(simulation, [finding("a/x", host((10, 11.2)))], STEP).changes) == 1
    plan = find_plan(simulation, [finding("a/x", host((10, 11)))], STEP)
    assert (plan.changes, plan.notes) == ((), (NOTHING_SAVES,))


def test_two_changes_that_save_only_together_are_both_planned() -> None:
    """Host and GPU both take 100 µs a turn. One change alone saves nothing, and both together leave 40 µs."""
    simulation = launching(100)
    rows = simulation.operations
    faster = Change(operations=rows[:-1], factor=0.4)
    plan = find_plan(simulation, [finding("a/host", host((10, 70))), finding("b/gpu", faster)], STEP)
    assert {each.rule for each in plan.changes} == {"a/host", "b/gpu"}
    assert plan.changes[0].step.point == pytest.approx(100_000, abs=1_000)
    assert plan.changes[1].step.point == pytest.approx(40_000, abs=1_000)
    assert find_plan(simulation, [finding("b/gpu", faster)], STEP).changes == ()


def test_a_finding_that_nothing_simulates_is_named_beside_the_plan() -> None:
    """Findings that are only notes are not named."""
    findings = [finding("a/x", host((10, 40))), finding("steps/uneven", None)]
    notes = find_plan(launching(), [*findings, finding("b/note", None, Severity.NOTE)], STEP).notes
    assert notes[-1] == "Not in the plan, because nothing simulates their saving: slow steps."


def test_without_steps_or_a_simulation_there_is_no_plan_and_a_reason() -> None:
    simulation, findings = launching(), [finding("a/x", host((10, 40)))]
    assert find_plan(simulation, findings, None).notes == (NO_STEPS,)
    lost = simulate_trace(trace_of(ExportBuilder().kernel(0, 10)), window(0, 1_000))
    assert find_plan(lost, [finding("a/x", None)], STEP).notes == (NOT_SIMULATED,)
    nothing = find_plan(None, [], STEP)
    assert (nothing.changes, nothing.notes) == ((), ())


def ends_late(late: int) -> Simulation:
    """Return a run of 100 steps of 100 µs. Its last kernel begins late by some µs for no visible reason."""
    builder = ExportBuilder()
    for number in range(101):
        begin = number * 100 + 10 + (late if number == 100 else 0)
        builder.kernel(begin * US, (begin + 5) * US, launched=(number * 100 * US, (number * 100 + 4) * US))
    return simulate_trace(trace_of(builder), window(0, 11_000 * US))


def test_a_simulation_that_is_off_widens_the_range() -> None:
    """It is off by 2.5 µs a step, so the range is wider by 1.645 times as much at least, on both sides."""
    begin = np.arange(100) * 100 * US
    half = Change(host=Spans(begin + 10 * US, begin + 50 * US))
    step = CurrentStep(Interval(100 * US, 100 * US, 100 * US), 10_000 * US)
    exact, off = (find_plan(ends_late(late), [finding("a/x", half)], step).changes[0] for late in (0, 250))
    assert exact.step.point == off.step.point == 60 * US
    assert off.step.width > exact.step.width
    assert off.step.high - 60 * US >= 1.645 * 2.5 * US


@pytest.mark.parametrize(("low", "is_known"), [(40, True), (30, False)])
def test_a_step_whose_range_says_nothing_is_named(low: int, is_known: bool) -> None:  # noqa: FBT001
    """The step now is known to a factor of 2.5, or of 3.3; the saving has an error of its own."""
    step = replace(STEP, length=Interval(low * US, 60 * US, 100 * US))
    notes = find_plan(launching(), [finding("a/x", host((10, 12)))], step).notes
    assert (UNKNOWN.format(fixed="if fixed") in notes) is not is_known


def test_under_five_steps_there_is_a_caution() -> None:
    few = replace(STEP, count=4)
    assert FEW.format(count=4) in find_plan(launching(), [finding("a/x", host((10, 40)))], few).notes
    assert FEW.format(count=5) not in find_plan(launching(), [finding("a/x", host((10, 40)))], STEP).notes


@pytest.mark.parametrize(("late", "predicts"), [(500, True), (550, False)])
def test_a_simulation_that_is_off_by_a_twentieth_predicts_nothing(late: int, predicts: bool) -> None:  # noqa: FBT001
    """The run takes 10 ms and some hundred µs."""
    assert ends_late(late).predicts == predicts


@of_captures(["mnist_counters_python", "cnn_amp", "bench_source"])
def test_the_plan_of_a_real_run_begins_with_a_finding_and_only_gets_shorter(
    name: str, real_context: RealContext, real_report: RealReport
) -> None:
    """The first change saves as much as its finding predicts. No change in the plan makes the step longer."""
    report = real_report(name)
    plan = report.plan
    assert plan.step_ns is not None
    first = next(each for each in report.findings if each.rule == plan.changes[0].rule)
    share = saving_of(first).point / report.window.length_ns
    assert plan.changes[0].step.point == pytest.approx(plan.step_ns * (1 - share), abs=1)
    times = [plan.step_ns, *(each.step.point for each in plan.changes)]
    assert times == sorted(times, reverse=True)
    assert simulate(real_context(name)).predicts
    assert plan.notes[0].startswith("After that, ")
