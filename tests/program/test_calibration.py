"""The recorded run is calibrated until its step is as long as a step was without nsys."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from export_builder import ExportBuilder, global_id, trace_of
from hypothesis import given
from hypothesis import strategies as st
from measured_costs import COST, US
from program_loops import LAUNCHES, alone, loop
from random_traces import several
from simulations import simulate

from nsyswrap.base.interval import Interval
from nsyswrap.hardware.profiler_cost import ProfilerCost
from nsyswrap.hardware.steps_alone import NO_STEPS_ALONE, ProcessSteps, StepsAlone
from nsyswrap.loop.context import Settings, find_calls, find_context
from nsyswrap.program.calibration import Calibration, find_calibration, measured_alone, median_of, periods
from nsyswrap.report import choose_window
from nsyswrap.trace.tables import Trace
from nsyswrap.what_if.fixed_step import RUNS_DIFFER
from nsyswrap.what_if.without_profiler import FASTEST, LEAST, MOST, USUAL


def calibrated(
    trace: Trace, steps: StepsAlone = NO_STEPS_ALONE, cost: ProfilerCost | None = COST
) -> Calibration | None:
    context = find_context(trace, Settings(profiler_cost=cost, steps_alone=steps))
    window = choose_window(context)
    simulation = simulate(context, window)
    return find_calibration(simulation, find_calls(context, window, simulation.states), window)


def found(trace: Trace, steps: StepsAlone = NO_STEPS_ALONE, cost: ProfilerCost | None = COST) -> Calibration:
    made = calibrated(trace, steps, cost)
    assert made is not None
    return made


@pytest.mark.parametrize("cost", [2, 2.5, 3, 4, 5])
def test_the_cost_of_a_call_follows_from_the_step_alone(cost: float) -> None:
    """Nsys added 2 to 5 us to each launch, and 2 us for the range of a step: the step alone tells how much it was."""
    made = found(trace_of(loop(every=20 + cost)), alone(LAUNCHES * 20 - 2))
    at = np.interp(cost, [2, 3, 5], [LEAST, USUAL, MOST])
    assert made.extent.point == pytest.approx(at, abs=0.15)
    assert made.step is not None
    assert made.step.point == pytest.approx((LAUNCHES * 20 - 2) * US, abs=1)
    assert made.scale == pytest.approx(1, abs=0.005)
    assert made.source == "this_process"


@pytest.mark.parametrize("factor", [0.5, 1, 3])
def test_the_wait_for_data_has_a_factor_of_its_own(factor: float) -> None:
    """Each step waits 100 us for data, less 9 for its marks, before ten launches. Alone it waits longer, or less."""
    builder, at = ExportBuilder().domain("nsyswrap", 7), 0
    for number in range(12):
        builder.range("data", at, at + 100 * US, domain=7)
        for each in range(LAUNCHES):
            called = at + (100 + 23 * each) * US
            builder.kernel(called + 10 * US, called + 15 * US, f"kernel {each}", launched=(called, called + 8 * US))
        builder.range(f"step {number}", at, at + 330 * US)
        at += 330 * US
    data = np.full(41, round(100 * factor * US))
    spread = np.random.default_rng(0).permutation(np.linspace(-1, 1, 41)) * US
    other = np.rint(LAUNCHES * 20 * US + spread).astype(np.int64)
    made = found(trace_of(builder), StepsAlone((ProcessSteps(1, None, data + other, data),)))
    assert made.extent.point == pytest.approx(USUAL, abs=0.4)
    assert made.data_factor == pytest.approx(factor * 100 / 91, rel=0.03)
    assert made.step is not None
    assert made.step.point == pytest.approx((200 + 100 * factor) * US, rel=0.01)
    assert made.scale == pytest.approx(1, abs=0.02)


def test_a_gpu_that_sets_the_pace_leaves_the_cost_open() -> None:
    """Kernels of 300 us wait in the queue: every cost that was measured is admissible, and the step stays as it is."""
    made = found(trace_of(loop(every=20, kernel=300)), alone(LAUNCHES * 300 + 8))
    assert made.extent == Interval(LEAST, (LEAST + MOST) / 2, MOST)
    assert made.scale == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("factor", [0.8, 1.2])
def test_kernels_that_took_longer_say_nothing_about_the_host(factor: float) -> None:
    """No pace of the host explains the step alone: all times are scaled, and the cost stays open."""
    made = found(trace_of(loop(every=20, kernel=60)), alone(LAUNCHES * 60 * factor))
    assert made.extent.ends == (LEAST, MOST)
    assert made.scale == pytest.approx(factor, rel=0.02)


def test_a_faster_machine_comes_after_the_most_cost() -> None:
    """Without 5 us a launch the step still takes 178 us. The machine may be twice as fast as it was."""
    made = found(trace_of(loop(every=23)), alone(140), replace(COST, pace_range=2.0))
    assert MOST < made.extent.point <= FASTEST
    assert made.scale == pytest.approx(1, abs=0.01)


def test_without_steps_alone_the_cost_is_the_usual_one() -> None:
    made = found(trace_of(loop(every=20)))
    assert made.extent == Interval(LEAST, USUAL, FASTEST)
    assert made.source == "simulated"
    assert made.step is not None
    assert made.step.point == pytest.approx((LAUNCHES * 17 - 2) * US, rel=0.01)


def test_without_a_cost_the_step_alone_still_says_how_long_the_host_took() -> None:
    made = found(trace_of(loop(every=23)), alone(LAUNCHES * 20), None)
    assert made.step is not None
    assert made.step.point == LAUNCHES * 20 * US
    assert made.scale == pytest.approx(1, abs=0.01)


def test_the_host_is_faster_than_it_was_while_its_calls_went_through_the_profiler() -> None:
    """Calls of the operating system are recorded: before, each 20 us of work took 8 % longer. Kernels do not."""
    plain, by_kernels = (loop(every=20, kernel=each).os_call("read", 0, 1) for each in (5, 300))
    made, of_kernels = found(trace_of(plain), alone(170)), found(trace_of(by_kernels), alone(LAUNCHES * 300 + 8))
    assert made.step is not None
    assert of_kernels.step is not None
    assert made.step.point == pytest.approx(170 / 1.08 * US, rel=0.01)
    assert of_kernels.step.point == pytest.approx((LAUNCHES * 300 + 8) * US, rel=0.001)


def test_another_run_may_have_another_pace_unless_kernels_set_it() -> None:
    """While the cost was measured, the machine was up to 16 times as slow: twice, or half, in a second of steps.

    So were the other processes that the host waits for.
    """
    cost, waiting = replace(COST, pace_range=16.0), loop(every=20)
    for launch in range(12 * LAUNCHES):
        waiting.os_call("poll", round((launch * 20 + 8) * US), round((launch * 20 + 20) * US))
    by_host = found(trace_of(loop(every=20)), alone(170), cost).step
    by_others = found(trace_of(waiting), alone(200), cost).step
    by_kernels = found(trace_of(loop(every=20, kernel=300)), alone(LAUNCHES * 300 + 8), cost).step
    assert by_host is not None
    assert by_kernels is not None
    assert by_host.high > 1.9 * by_host.point > 3.5 * by_host.low
    assert by_others is not None
    assert by_others.high > 1.9 * by_others.point
    assert by_kernels.width == pytest.approx(2 * RUNS_DIFFER * by_kernels.point, rel=0.01)


def test_a_step_lasts_until_the_next_one_begins() -> None:
    """Ranges of 190 us begin 200 us after one another, and alone 150: the program keeps three quarters of the time."""
    frame = pd.DataFrame({"process": [1, 1, 2], "start": [0, 200, 50], "end": [190, 390, 90]})
    assert periods(frame).tolist() == [200, 190, 40]


@pytest.mark.parametrize(("count", "known"), [(4, False), (5, True)])
def test_four_steps_alone_show_no_typical_step(count: int, *, known: bool) -> None:
    """Then the step is the simulated one."""
    steps = StepsAlone((ProcessSteps(1, None, np.full(count, 190 * US)),))
    assert (found(trace_of(loop(every=20)), steps).source == "this_process") is known


@pytest.mark.slow
@several
@given(every=st.integers(12, 40), kernel=st.integers(1, 60), share=st.floats(0.5, 1.1))
def test_the_typical_step_is_always_the_step_alone(every: int, kernel: int, share: float) -> None:
    """By the cost, the pace of the machine, or a scale for what is left."""
    trace = trace_of(loop(every=every, kernel=kernel))
    wanted = round(share * max(every, kernel) * LAUNCHES)
    made = found(trace, alone(wanted))
    assert made.step is not None
    assert made.step.point == pytest.approx(wanted * US, abs=US)
    assert made.extent.low <= made.extent.point <= made.extent.high


@pytest.mark.parametrize("skewed", [False, True])
def test_another_run_has_a_median_in_the_range_in_more_than_nine_of_ten_cases(*, skewed: bool) -> None:
    """Of 2,000 pairs of runs of 40 independent steps each; the shape of their lengths does not matter."""
    draw = np.random.default_rng(1)
    lengths = 1000 + draw.exponential(100, (2, 2000, 40)) if skewed else draw.normal(1000, 10, (2, 2000, 40))
    inside = sum(float(np.median(other)) in median_of(run) for run, other in zip(*lengths, strict=True))
    assert inside / 2000 >= 0.9


def test_runs_that_differ_as_much_as_their_parts_have_their_medians_in_the_range() -> None:
    """The pace changes after each 8 steps, and by as much from run to run: four of five medians are in it, nearly."""
    draw = np.random.default_rng(2)
    of_runs, of_parts = draw.normal(0, 50, (2, 2000, 1)), np.repeat(draw.normal(0, 50, (2, 2000, 5)), 8, axis=2)
    lengths = 1000 + of_runs + of_parts + draw.normal(0, 1, (2, 2000, 40))
    inside = sum(float(np.median(other)) in median_of(run) for run, other in zip(*lengths, strict=True))
    assert 0.75 <= inside / 2000 <= 0.95


@pytest.mark.parametrize(("slow", "low"), [(300, 0), (110, 89.6)])
def test_the_range_of_a_median_begins_at_zero_or_above(slow: int, low: int) -> None:
    """Steps that get much slower drift by more than their median."""
    found = median_of(np.repeat([100, 100, 100, 100, slow], 8))
    assert found.point == 100
    assert found.low == pytest.approx(low, abs=1)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_few_steps_have_no_median_beyond_the_shortest_and_the_longest(count: int) -> None:
    assert median_of(np.arange(1, count + 1)) == Interval(1, float(np.median(np.arange(1, count + 1))), count)


def test_each_rank_is_compared_with_its_own_steps_alone() -> None:
    """Alone, the step of rank 0 takes 80 of 100 us, and that of rank 1 100 of 200 us; their order does not matter."""
    builder, ran = ExportBuilder().gpu().gpu(1), {}
    for rank, length in enumerate((100, 200)):
        process, main = global_id(5000 + rank), global_id(5000 + rank, 5000 + rank)
        ran[rank] = np.full(21, (80, 100)[rank] * US)
        for number in range(2000 // length):
            at = number * length * US
            about: dict[str, Any] = {"process": process, "thread": main, "device": rank}
            builder.range(f"step {number}", at, at + length * US, thread=main)
            builder.kernel(at + 10 * US, at + 50 * US, launched=(at, at + 5 * US), **about)
    timed = [ProcessSteps(5000 + rank, rank, lengths) for rank, lengths in ran.items()]
    for each in (timed, timed[::-1]):
        context = find_context(trace_of(builder), Settings(steps_alone=StepsAlone(tuple(each))))
        found_alone = measured_alone(context, choose_window(context))
        assert found_alone is not None
        assert found_alone.share.point == pytest.approx((80 / 100 + 100 / 200) / 2, rel=0.01)
        assert found_alone.step.point == pytest.approx(90 * US, rel=0.01)
