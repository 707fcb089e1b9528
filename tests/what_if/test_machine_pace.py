"""The pace of the machine in each step: of its cores from the time between launches, of its GPU from its kernels."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from export_builder import MAIN, ExportBuilder, thread, trace_of
from measured_costs import COST, US

from nsyswrap.base.intervals import Window
from nsyswrap.loop.context import Settings, TraceContext, find_context
from nsyswrap.report import build_report, choose_window
from nsyswrap.trace.tables import Trace
from nsyswrap.what_if.machine_pace import UNKNOWN_PACE, find_paces, kernel_factors

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
    """Return the slowdown of the one launching thread in a sample, by default the whole window; 1 if not known."""
    context = context_of(trace)
    window = choose_window(context)
    return find_paces(context, window, sample or window).get(MAIN, UNKNOWN_PACE).slowdown


FAST_THEN_SLOW = (1, 1, 1, 1, 1, *[1.5] * 12)


def test_most_steps_are_slower_than_the_fastest() -> None:
    """After the warm-up there are three fast steps and then twelve slow ones."""
    assert pace(trace_of(steps(FAST_THEN_SLOW))) == pytest.approx(1.5, abs=0.02)


def test_one_step_of_twenty_may_be_faster_by_an_error_of_the_clock() -> None:
    """Of 21 measured steps one seems to be twice as fast as the next one, which counts as the fastest."""
    assert pace(trace_of(steps((*[1.5] * 12, 0.5, 1, *[1.5] * 9)))) == pytest.approx(1.5, abs=0.02)


def test_a_machine_that_does_not_change_has_one_pace() -> None:
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
def test_too_little_shows_no_pace(builder: ExportBuilder) -> None:
    """A run without enough of the same code to compare counts as recorded at one pace."""
    assert pace(trace_of(builder)) == 1


@pytest.mark.parametrize(
    ("slow", "launches", "slowdown"), [(5, LAUNCHES, 1), (6, LAUNCHES, 1.5), (12, 19, 1), (12, 20, 1.5)]
)
def test_ten_steps_of_twenty_launches_show_a_pace(slow: int, launches: int, slowdown: float) -> None:
    """The first steps are fast, and some of them are warm-up."""
    found = steps((1, 1, 1, 1, 1, 1, *[1.5] * slow), launches=launches)
    assert pace(trace_of(found)) == pytest.approx(slowdown, abs=0.02)


def test_each_thread_has_its_own_pace() -> None:
    """The main thread has one pace. After the fifth step the other thread takes twice as long."""
    builder, other, at = ExportBuilder(), thread(4712), 0
    for number in range(14):
        first = at
        for who, every in ((MAIN, 20), (other, 20 if number < 5 else 40)):
            for launch in range(LAUNCHES):
                begin = (at + 10) * US
                span, name = (at * US, (at + 8) * US), f"kernel {launch % 3}"
                builder.kernel(begin, begin + 5 * US, name, launched=span, thread=who)
                at += every
        builder.range(f"step {number}", first * US, at * US)
    context = context_of(trace_of(builder))
    window = choose_window(context)
    paces = find_paces(context, window, window)
    assert {each: pace.slowdown for each, pace in paces.items()} == pytest.approx({MAIN: 1, other: 2}, abs=0.02)
    assert {each: pace.shown for each, pace in paces.items()} == pytest.approx({MAIN: 1, other: 2}, abs=0.02)


def test_kernels_that_take_longer_in_some_steps_show_the_pace_of_the_gpu() -> None:
    """Of each three kernels one takes four times as long. All take 10 % longer in the second half of the steps."""
    builder, at = ExportBuilder(), 0
    for number in range(20):
        first = at
        for launch in range(LAUNCHES):
            length = (4 if launch % 3 else 1) * (1000 if number < 10 else 1100)
            builder.kernel(at + 2 * US, at + 2 * US + length, f"kernel {launch % 3}", launched=(at, at + US))
            at += 20 * US
        builder.range(f"step {number}", first, at)
    context = context_of(trace_of(builder))
    window = choose_window(context)
    slow = Window(12 * LAUNCHES * 20 * US, 14 * LAUNCHES * 20 * US, "slow steps", "steps")
    assert kernel_factors(context, window, slow) == pytest.approx((1 / 1.1, 1), abs=0.001)
    fast = Window(6 * LAUNCHES * 20 * US, 8 * LAUNCHES * 20 * US, "fast steps", "steps")
    assert kernel_factors(context, window, fast) == pytest.approx((1, 1.1), abs=0.001)


def test_few_steps_show_no_pace_of_the_gpu() -> None:
    context = context_of(trace_of(steps((1, 1, 1, 1.5, 1.5))))
    window = choose_window(context)
    assert kernel_factors(context, window, window) == (1, 1)


def test_the_clock_of_another_run_may_be_one_step_higher_or_lower() -> None:
    """Of 1.5 GHz, 15 MHz are a hundredth. A GPU without kernels does not count."""
    builder = steps((1, 1, 1)).gpu(0, clockRate=1_500_000_000).gpu(1, clockRate=150_000_000)
    context = context_of(trace_of(builder))
    window = choose_window(context)
    assert kernel_factors(context, window, window) == pytest.approx((0.99, 1.01))


def test_the_step_without_the_profiler_is_at_the_recorded_pace() -> None:
    """A slow step of 24 launches takes 720 us. Less 3 us a launch it takes 648 us.

    It takes at least 360 us, with 5 us a launch at the fast pace; at most 93 % of the longest median step, with 2 us a
    launch. Five blocks of steps have medians of 480, 720, 720, 720 and 720 us, so the median itself may be
    longer by 102 us.
    """
    step = build_report(trace_of(steps(FAST_THEN_SLOW)), settings=Settings(profiler_cost=COST)).step
    assert step.recorded_ns == 720 * US
    assert step.alone is not None
    assert step.alone_source == "simulated"
    longest = (720 + 102) * (720 - 48) / 720
    assert step.alone.in_order == pytest.approx(((480 - 120) * US, (720 - 72) * US, longest * US), rel=0.03)


@pytest.mark.parametrize(("paces", "unseen"), [([1] * 16, 1.5), ([1, 1, *[1, 1.2] * 7], 1.25), (FAST_THEN_SLOW, 1.0)])
def test_the_lower_bound_is_at_the_fastest_pace_of_the_machine(paces: Sequence[float], unseen: float) -> None:
    """The machine was 1.5 times as slow at some times as at others; a thread may be faster by what it does not show.

    Fixed, a step takes 480 us minus 3 us a launch, or minus 5 us at most.
    """
    wide = replace(COST, pace_range=1.5)
    reports = [build_report(trace_of(steps(paces)), settings=Settings(profiler_cost=each)) for each in (wide, COST)]
    step, narrow = (report.step.alone for report in reports)
    notes = [section.notes[0] for report in reports if (section := report.section("profiler_cost")) is not None]
    assert ["the same code took up to 1.50 times as long" in each for each in notes] == [True, False]
    assert step is not None
    assert narrow is not None
    assert step.low == pytest.approx(min((480 - 72) / unseen, 480 - 120) * US, rel=0.04)
    assert (step.point, step.high) == (narrow.point, narrow.high)
