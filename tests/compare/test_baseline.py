"""The report compares the measured step of a run without nsys with the simulated step."""

from dataclasses import replace

import pytest
from export_builder import ExportBuilder, trace_of
from measured_costs import COST, US

from nsyswrap.base.interval import Interval
from nsyswrap.compare.baseline import with_baseline, without_baseline
from nsyswrap.loop.context import Settings
from nsyswrap.loop.step_detection import Steps, find_timed_steps
from nsyswrap.model import NO_STEP, Report
from nsyswrap.report import build_report


@pytest.fixture
def report() -> Report:
    """Return the report of eight steps of 200 us, with ten launches each."""
    builder = ExportBuilder()
    for number in range(8):
        first = 100 + number * 200
        builder.range(f"step {number}", first * US, (first + 200) * US)
        for at in range(first, first + 200, 20):
            builder.kernel((at + 10) * US, (at + 15) * US, launched=(at * US, (at + 8) * US))
    return build_report(trace_of(builder), settings=Settings(profiler_cost=COST))


def alone(lengths: list[int], first: int = 0) -> Steps:
    """Return the steps of a run without nsys, in us."""
    at, ranges = 0, []
    for number, length in enumerate(lengths, first):
        ranges.append([9, "", f"step {number}", at, at + length * US])
        at += length * US
    return find_timed_steps([{"pid": 9, "ranges": ranges}])


def note(report: Report) -> str:
    """Return the last note of the section on the profiler's cost."""
    section = report.section("profiler_cost")
    assert section is not None
    return section.notes[-1]


def test_the_measured_step_stands_beside_the_simulated(report: Report) -> None:
    """The note has both: 170 us measured and 168 us simulated. The first two of eight steps are warm-up."""
    found = with_baseline(report, alone([900, 900, 170, 170, 170, 160, 180, 170]))
    assert found.step.alone == Interval(161_256, 170 * US, 178_744)
    assert found.step == replace(report.step, alone=found.step.alone, alone_source="second_run")
    section = found.section("profiler_cost")
    assert section is not None
    difference = section.fact("baseline_difference_share")
    assert difference is not None
    assert difference.value == pytest.approx(168 / 170 - 1, abs=0.01)
    assert "170 µs (6 steps)" in note(found)
    assert "is inside this interval" in note(found)
    assert len(found.sections) == len(report.sections)


def test_only_steps_that_both_runs_measured_count(report: Report) -> None:
    """The capture ended after step 7, and later steps are slower."""
    found = with_baseline(report, alone([900, 900, *[170] * 6, *[500] * 20]))
    assert found.step.alone == Interval(170 * US, 170 * US, 170 * US)


def test_a_step_outside_the_interval_is_said(report: Report) -> None:
    found = with_baseline(report, alone([100] * 8))
    assert "is outside this interval" in note(found)


def test_a_run_without_steps_says_what_to_do(report: Report) -> None:
    found = with_baseline(report, alone([]))
    assert found.step == report.step
    assert "the run without nsys shows 0 of its steps; mark steps with ranges of torch.cuda.nvtx" in note(found)
    assert "the report is not about steps" in note(with_baseline(replace(report, step=NO_STEP), alone([100] * 8)))


def test_without_a_simulated_step_the_measured_one_is_given_alone(report: Report) -> None:
    """For a capture without a GPU, for example, the section is added."""
    bare = replace(report, step=replace(report.step, alone=None, alone_source=None), sections=())
    found = with_baseline(bare, alone([170] * 8))
    assert note(found) == "Measured without nsys: a step takes 170 µs (6 steps)."
    assert [each.key for each in found.sections] == ["profiler_cost"]


def test_a_run_that_failed_is_a_note(report: Report) -> None:
    found = without_baseline(report, "the program ended with exit code 3")
    assert note(found) == "The step without nsys was not measured: the program ended with exit code 3."
    assert found.step == report.step
