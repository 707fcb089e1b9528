"""The section on the profiler's own cost: calls, idle time, and the step without the profiler."""

import pytest
from analysis_fixtures import run_section, window
from export_builder import ExportBuilder, trace_of
from measured_costs import COST, US

from nsyswrap.base.interval import Interval
from nsyswrap.loop.context import Settings, find_context
from nsyswrap.model import Section
from nsyswrap.report import build_report
from nsyswrap.sections import profiler_cost
from nsyswrap.sections.profiler_cost import NOT_MEASURED, NOT_SIMULATED
from nsyswrap.trace.tables import Trace
from nsyswrap.what_if.without_profiler import WithoutProfiler

MEASURED = Settings(profiler_cost=COST)


def steps(count: int = 8, *, launches: int = 10, kernel: int = 5, ranges: bool = True) -> ExportBuilder:
    """Return steps with a launch every 20 us, whose kernels begin 2 us after the call."""
    builder, length = ExportBuilder(), launches * 20
    for number in range(count):
        first = 100 + number * length
        if ranges:
            builder.range(f"step {number}", first * US, (first + length) * US)
        for at in range(first, first + length, 20):
            builder.kernel((at + 10) * US, (at + 10 + kernel) * US, launched=(at * US, (at + 8) * US))
    return builder


def fact(section: Section, name: str) -> float | None:
    found = section.fact(name)
    assert found is not None
    assert not isinstance(found.value, str)
    return found.value


def section_of(trace: Trace, settings: Settings = MEASURED) -> Section:
    found = build_report(trace, settings=settings).section("profiler_cost")
    assert found is not None
    return found


def test_the_step_loses_the_cost_of_its_launches() -> None:
    """The cost is ten launches of 3 us (2 to 5 us), and a range of 2 us that begins and ends in the step."""
    section = section_of(trace_of(steps()))
    assert fact(section, "recorded_step_ns") == 200 * US
    wanted = {"without_profiler_ns": 168, "without_profiler_low_ns": 148, "without_profiler_high_ns": 178}
    for name, step in wanted.items():
        assert fact(section, name) == pytest.approx(step * US, rel=0.01)
    share = fact(section, "without_profiler_share")
    assert share == pytest.approx(168 / 200, rel=0.01)
    assert "Without the profiler the run takes" in section.notes[0]


def test_calls_are_listed_by_kind_costliest_first() -> None:
    """Six measured steps have ten launches and one range each. A kind of call that was not measured costs nothing."""
    table = section_of(trace_of(steps())).tables["calls"]
    rows = dict(zip(table["kind"], table[["count", "usual_ns", "total_ns"]].to_numpy().tolist(), strict=True))
    assert rows["launches"] == [60, 3 * US, 180 * US]
    assert rows["operations on the GPU"] == [60, 0, 0]
    assert rows["NVTX ranges"] == [6, 2 * US, pytest.approx(12 * US, rel=0.1)]
    assert len(rows) == 3
    assert table["kind"].iloc[0] == "launches"


def test_the_idle_time_of_the_section_is_that_of_the_cause() -> None:
    report = build_report(trace_of(steps()), settings=MEASURED)
    section, idle = report.section("profiler_cost"), report.section("idle")
    assert section is not None
    assert idle is not None
    table = idle.tables["attribution"]
    assert fact(section, "profiler_idle_ns") == table.loc[table["cause"] == "profiler", "idle_ns"].sum() > 0


def test_without_steps_there_are_shares_and_no_step() -> None:
    section = section_of(trace_of(steps(ranges=False)))
    assert fact(section, "recorded_step_ns") is fact(section, "without_profiler_ns") is None
    share = fact(section, "without_profiler_share")
    assert share is not None
    assert 0.8 < share < 0.9


def test_a_capture_without_a_measured_cost_says_so() -> None:
    report = build_report(trace_of(steps()))
    section = report.section("profiler_cost")
    assert section is not None
    assert (section.notes, section.facts, dict(section.tables)) == ((NOT_MEASURED,), (), {})
    assert (report.step.alone, report.step.alone_source) == (None, None)


def test_a_run_that_cannot_be_simulated_has_no_step_without_the_profiler() -> None:
    """The launch call of one kernel is missing."""
    trace = trace_of(steps().kernel(1_000 * US, 1_001 * US, correlation=777_777))
    section = section_of(trace)
    assert section.notes == (NOT_SIMULATED,)
    assert fact(section, "without_profiler_ns") is None
    assert len(section.tables["calls"])


def test_the_section_can_be_made_for_any_window() -> None:
    """The window may be a user's, which does not consist of steps."""
    context = find_context(trace_of(steps()), MEASURED)
    chosen = window(300 * US, 500 * US)
    section = run_section(profiler_cost, context, chosen)
    assert fact(section, "recorded_step_ns") is None
    assert section.tables["calls"].set_index("kind").loc["launches", "count"] == 10


@pytest.mark.parametrize(("factor", "is_said"), [(1.01, False), (1.03, True)])
@pytest.mark.parametrize(("pace", "words"), [("slowdown", "as slow as in its"), ("machine", "pace of this machine")])
def test_a_change_of_pace_is_said_from_two_per_cent_on(pace: str, words: str, factor: float, *, is_said: bool) -> None:
    """That of a thread while it was recorded, and that of the machine while the cost was measured."""
    share = Interval(0.8, 0.9, 1.0)
    said = profiler_cost._note(WithoutProfiler(share, share, **{pace: factor}))  # noqa: SLF001 - its text
    assert (words in said) == is_said
