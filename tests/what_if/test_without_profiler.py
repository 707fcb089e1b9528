"""The run without the profiler is the simulated run without the cost of each recorded call."""

from dataclasses import replace

import pytest
from analysis_fixtures import window
from export_builder import MAIN, ExportBuilder, trace_of
from hypothesis import given
from hypothesis import strategies as st
from measured_costs import COST, US
from simulations import simulate

from nsyswrap.base.interval import Interval
from nsyswrap.base.intervals import Window
from nsyswrap.events.recorded_calls import NOT_MEASURED
from nsyswrap.hardware.profiler_cost import CallCost, ProfilerCost
from nsyswrap.loop.context import Settings, find_calls, find_context, find_states
from nsyswrap.report import choose_window
from nsyswrap.trace.tables import Trace
from nsyswrap.what_if.without_profiler import WithoutProfiler, without_profiler

WHOLE = window(0, 1_000 * US)


def found(trace: Trace, cost: ProfilerCost | None = COST, chosen: Window = WHOLE) -> WithoutProfiler | None:
    """Return the predicted run of a trace without the profiler."""
    context = find_context(trace, Settings(profiler_cost=cost))
    return without_profiler(
        simulate(context, chosen), find_calls(context, chosen, find_states(context, chosen)), chosen
    )


def launches(*, every: int, kernel: int, count: int = 11, call: int = 8) -> ExportBuilder:
    """Return launches at a fixed pace. A kernel begins 2 us after its call of 8 us, or when the GPU is free."""
    builder, free = ExportBuilder(), 0
    for number in range(count):
        at = number * every
        start = max(at + call + 2, free)
        free = start + kernel
        builder.kernel(start * US, free * US, launched=(at * US, (at + call) * US))
    return builder


def test_each_launch_takes_its_cost_less_where_the_host_sets_the_pace() -> None:
    """Eleven launches are 20 us apart: 208 us to the end of the last call, and 7 us for its kernel."""
    step = found(trace_of(launches(every=20, kernel=5)))
    assert step is not None
    whole = 200 + 8 + 2 + 5
    shares = [(whole - 11 * cost) / whole for cost in (5, 3, 2)]
    assert step.run.in_order == pytest.approx(shares, abs=0.002)


@pytest.mark.parametrize("gap", [1_000, 100, 0])
def test_kernels_in_a_queue_follow_each_other_sooner(gap: int) -> None:
    """Without the profiler each kernel ends 0.3 us sooner. Where the gap is shorter, the kernel itself is shorter."""
    builder = ExportBuilder()
    for number in range(11):
        at = 30 * US + number * (60 * US + gap)
        builder.kernel(at, at + 60 * US, launched=(number * 10 * US, (number * 10 + 8) * US))
    cost = ProfilerCost({"operation": CallCost(Interval(300, 300, 300))})
    step = found(trace_of(builder), cost)
    assert step is not None
    recorded = 30 * US + 11 * 60 * US + 10 * gap
    assert step.run.in_order == pytest.approx([1 - 10 * 300 / recorded] * 3, abs=0.0001)


@pytest.mark.parametrize(("measured", "sooner"), [(("operation",), 300), (("operation", "graph_operation"), 200)])
def test_kernels_of_a_graph_have_a_cost_of_their_own(measured: tuple[str, ...], sooner: int) -> None:
    """Where it was not measured, they cost as much as other kernels in a queue."""
    builder = ExportBuilder()
    builder.call("cudaGraphLaunch_v10000", 0, 8 * US, correlation=900)
    for number in range(11):
        at = (10 + number * 5) * US
        builder.kernel(at, at + 5 * US, correlation=900, graph_node=number + 1)
    costs = {"operation": CallCost(Interval(300, 300, 300)), "graph_operation": CallCost(Interval(100, 200, 250))}
    step = found(trace_of(builder), ProfilerCost({name: costs[name] for name in measured}))
    assert step is not None
    assert step.run.point == pytest.approx(1 - 10 * sooner / (65 * US), abs=0.0001)


def test_kernels_that_run_at_the_same_time_follow_each_other_as_recorded() -> None:
    """Each kernel begins 10 us before the one before it ends: nothing is recorded between them."""
    builder = ExportBuilder()
    for number in range(11):
        at = (30 + number * 50) * US
        builder.kernel(at, at + 60 * US, launched=(number * 10 * US, (number * 10 + 8) * US))
    step = found(trace_of(builder), ProfilerCost({"operation": CallCost(Interval(300, 300, 300))}))
    assert step is not None
    assert (step.run.low, step.run.point) == (1, 1)


def test_calls_of_other_threads_do_not_count() -> None:
    """Recorded calls of a thread that never launches change nothing."""
    builder = launches(every=20, kernel=5)
    without = found(trace_of(launches(every=20, kernel=5)))
    for number in range(100):
        builder.call("cudaEventQuery", number * 2 * US, number * 2 * US + 500, thread=MAIN + 7)
    assert found(trace_of(builder)) == without


def in_steps(builder: ExportBuilder, *, pause: int, kernel: int, count: int = 12) -> ExportBuilder:
    """Add steps of ten launches every 20 us, with a pause in us between them. The end of a step waits for the GPU."""
    at = 0
    for number in range(count):
        first, free = at, at
        for launch in range(10):
            start = max(at + 10, free)
            free = start + kernel
            builder.kernel(start * US, free * US, f"kernel {launch}", launched=(at * US, (at + 8) * US))
            at += 20
        if free > at:
            builder.call("cudaStreamSynchronize", at * US, free * US)
        at = max(at, free)
        builder.range(f"step {number}", first * US, at * US)
        at += pause
    return builder


def shares_of_steps(trace: Trace) -> WithoutProfiler:
    """Return the run of the measured steps of a trace without the profiler."""
    step = found(trace, COST, choose_window(find_context(trace)))
    assert step is not None
    return step


@pytest.mark.parametrize("pause", [0, 100, 1000])
def test_time_between_steps_is_no_part_of_the_step(pause: int) -> None:
    """A step takes 200 us; ten launches and a range cost 32 us of it. The share is exact to one launch."""
    shares = shares_of_steps(trace_of(in_steps(ExportBuilder(), pause=pause, kernel=5)))
    assert shares.step.point == pytest.approx(168 / 200, abs=5 / 200)
    assert shares.run.point == pytest.approx((168 + pause) / (200 + pause), abs=0.02)


def test_another_run_may_have_a_clock_one_step_higher_or_lower() -> None:
    """Kernels make nearly all of a step. A step of the clock, 15 MHz, is a hundredth of 1.5 GHz."""
    unknown, known = (
        shares_of_steps(trace_of(in_steps(ExportBuilder().gpu(clockRate=clock), pause=0, kernel=100))).step
        for clock in (0, 1_500_000_000)
    )
    assert known.high / unknown.high == pytest.approx(1.01, abs=0.001)
    assert known.low / unknown.low == pytest.approx(0.99, abs=0.001)
    assert known.point == unknown.point <= 1 < known.high


def test_there_is_none_without_a_cost_or_a_simulation() -> None:
    trace = trace_of(launches(every=20, kernel=5))
    assert found(trace, None) is None
    simulation = simulate(find_context(trace, Settings(profiler_cost=COST)), WHOLE)
    assert without_profiler(simulation, NOT_MEASURED, WHOLE) is None
    lost = replace(simulation, failure="calls of its main thread were lost")
    assert without_profiler(lost, find_calls(simulation.context, WHOLE, simulation.states), WHOLE) is None


@pytest.mark.slow
@given(
    costs=st.lists(st.integers(0, 20_000), min_size=3, max_size=3).map(sorted),
    every=st.integers(9, 40),
    kernel=st.integers(1, 60),
)
def test_a_higher_cost_never_makes_the_run_longer(
    tmp_path_factory: pytest.TempPathFactory, costs: list[int], every: int, kernel: int
) -> None:
    """Of the low, usual and high cost, a higher cost never gives a longer run, and no run is longer than recorded.

    The clock of the GPU is not known here: kernels take as long as recorded.
    """
    from nsyswrap.trace.load import load_export  # noqa: PLC0415 - the fixture is made once a test, the trace once an example

    path = launches(every=every, kernel=kernel).write(tmp_path_factory.mktemp("launches") / "built.sqlite")
    step = found(load_export(path), ProfilerCost({"launch": CallCost(Interval(costs[0], costs[1], costs[2]))}))
    assert step is not None
    assert 0 < step.run.low <= step.run.point <= step.run.high <= 1
