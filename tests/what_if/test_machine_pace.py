"""The pace of the machine in each step, from the time that the same code takes between two launches."""

from collections.abc import Callable, Sequence

import pytest
from export_builder import ExportBuilder
from measured_costs import COST, US

from nsyswrap.intervals import Window
from nsyswrap.loop.context import Settings, TraceContext, find_context
from nsyswrap.report import build_report, choose_window
from nsyswrap.tables import Trace
from nsyswrap.what_if.machine_pace import slowdown

TraceOf = Callable[[ExportBuilder], Trace]
LAUNCHES = 24


def steps(paces: Sequence[float], *, launches: int = LAUNCHES, mixed: bool = False) -> ExportBuilder:
    """Return steps of launches 20 us apart at a pace of 1: three kernels in turn, or another kernel in each step."""
    builder, at = ExportBuilder(), 0
    for number, pace in enumerate(paces):
        first, every = at, round(20 * pace)
        for launch in range(launches):
            name = f"kernel {number}" if mixed else f"kernel {launch % 3}"
            builder.kernel((at + 10) * US, (at + 15) * US, name, launched=(at * US, (at + 8) * US))
            at += every
        builder.range(f"step {number}", first * US, at * US)
    return builder


def context_of(trace: Trace) -> TraceContext:
    """Return the context of a trace whose cost is known."""
    return find_context(trace, Settings(profiler_cost=COST))


def pace(trace: Trace, sample: Window | None = None) -> float:
    """Return the slowdown of a sample; of the whole window by default."""
    context = context_of(trace)
    window = choose_window(context)
    return slowdown(context, window, sample or window)


FAST_THEN_SLOW = (1, 1, 1, 1, 1, *[1.5] * 12)


def test_most_steps_are_slower_than_the_fastest(trace_of: TraceOf) -> None:
    """After the warm-up there are three fast steps and then twelve slow ones."""
    assert pace(trace_of(steps(FAST_THEN_SLOW))) == pytest.approx(1.5, abs=0.02)


def test_a_sample_of_fast_steps_is_not_slower(trace_of: TraceOf) -> None:
    """Each of the first five steps has 24 launches, 20 us apart."""
    sample = Window(2 * LAUNCHES * 20 * US, 5 * LAUNCHES * 20 * US, "fast steps", "steps")
    assert pace(trace_of(steps(FAST_THEN_SLOW)), sample) == pytest.approx(1, abs=0.02)


def test_a_machine_that_does_not_change_has_one_pace(trace_of: TraceOf) -> None:
    assert pace(trace_of(steps([1] * 14))) == 1


@pytest.mark.parametrize(
    "builder",
    [
        steps((1, 1, 1, 1, 1.5, 1.5, 1.5, 1.5)),
        steps(FAST_THEN_SLOW, launches=10),
        steps(FAST_THEN_SLOW, mixed=True),
    ],
    ids=["few steps", "few launches", "other code in each step"],
)
def test_too_little_shows_no_pace(trace_of: TraceOf, builder: ExportBuilder) -> None:
    """A run without enough of the same code to compare counts as recorded at one pace."""
    assert pace(trace_of(builder)) == 1


def test_the_step_without_the_profiler_is_at_the_fastest_pace(trace_of: TraceOf) -> None:
    """A slow step of 24 launches takes 720 us. At the fast pace it takes 480 us minus 3 us a launch; at most 672."""
    step = build_report(trace_of(steps(FAST_THEN_SLOW)), settings=Settings(profiler_cost=COST)).step
    assert step.median_ns == 720 * US
    assert step.without_profiler_ns == pytest.approx((480 - 72) * US, rel=0.03)
    assert step.without_profiler_high_ns == pytest.approx((720 - 48) * US, rel=0.03)


def test_the_section_says_how_much_slower_the_machine_was(trace_of: TraceOf) -> None:
    for paces, said in ((FAST_THEN_SLOW, True), ([1] * 14, False)):
        report = build_report(trace_of(steps(paces)), settings=Settings(profiler_cost=COST))
        section = report.section("profiler_cost")
        assert section is not None
        assert ("times as slow as in its fastest steps" in section.notes[0]) == said
