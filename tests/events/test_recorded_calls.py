"""The recorded calls of each thread are counted by kind, with the cost of recording them."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from analysis_fixtures import window
from export_builder import MAIN, ExportBuilder, thread, trace_of
from measured_costs import COST, US

from nsyswrap.base.interval import Interval
from nsyswrap.events.kernel_names import find_kernel_names
from nsyswrap.events.operations import find_operations
from nsyswrap.events.recorded_calls import NOT_MEASURED, RecordedCalls, find_recorded_calls
from nsyswrap.events.thread_states import find_thread_states
from nsyswrap.hardware.profiler_cost import CallCost, ProfilerCost, Slowdown
from nsyswrap.loop.context import find_calls, find_context, find_states
from nsyswrap.trace.tables import Trace

OTHER = thread(4712)


def calls_of(trace: Trace, start: int = 0, end: int = 1_000 * US, cost: ProfilerCost = COST) -> RecordedCalls:
    """Return the recorded calls of two threads inside a window."""
    operations, chosen = find_operations(trace), window(start, end)
    names = find_kernel_names(trace, operations)
    states = find_thread_states(trace, operations, chosen, [MAIN, OTHER])
    return RecordedCalls(cost, find_recorded_calls(trace, operations, names, chosen, states, cost))


def usual(calls: RecordedCalls, who: int, *spans: tuple[int, int]) -> list[float]:
    """Return the usual cost on a thread inside intervals, in us."""
    start, end = (np.array(side) * US for side in zip(*spans, strict=True))
    return [float(each) for each in calls.added(who, start, end).usual / US]


def test_each_kind_of_call_has_its_cost() -> None:
    """A launch costs 3 us, an event 1, a graph 4 plus 1 for each of two kernels, and a system call 0.5."""
    builder = ExportBuilder().kernel(30 * US, 40 * US, launched=(10 * US, 14 * US))
    builder.call("cudaEventRecord", 20 * US, 21 * US)
    builder.call("cudaGraphLaunch", 50 * US, 55 * US, correlation=900)
    for at in (60, 70):
        builder.kernel(at * US, (at + 5) * US, correlation=900, graph_node=at)
    builder.os_call("read", 80 * US, 82 * US)
    calls = calls_of(trace_of(builder))
    assert usual(calls, MAIN, (0, 15), (15, 50), (50, 51), (51, 90), (0, 90)) == [3, 1, 6, 0.5, 10.5]
    assert usual(calls, OTHER, (0, 90)) == [0]
    added = calls.added(MAIN, np.array([0]), np.array([15 * US]))
    assert (added.low[0], added.high[0], added.alone[0]) == (2 * US, 5 * US, 2 * US)


@pytest.mark.parametrize(
    ("length", "pace_range", "added"), [(8, 1, 30), (45, 1, 35), (90, 1, 60), (90, 1.5, 80), (150, 1.5, 90)]
)
def test_the_length_of_a_graph_launch_tells_what_its_nodes_cost(length: int, pace_range: float, added: int) -> None:
    """Twenty nodes cost 1.5 to 3 us each, more at a slow pace. The launch takes 6 us alone, and recording adds 4 us."""
    cost = ProfilerCost(
        {
            "graph_launch": CallCost(Interval(4 * US, 4 * US, 4 * US), 6 * US),
            "graph_node": CallCost(Interval(1.5 * US, 2 * US, 3 * US)),
        },
        pace_range,
    )
    builder = ExportBuilder().call("cudaGraphLaunch", 100 * US, (100 + length) * US, correlation=900)
    for node in range(20):
        builder.kernel((200 + node) * US, (201 + node) * US, correlation=900, graph_node=node + 1)
    calls = calls_of(trace_of(builder), cost=cost)
    assert usual(calls, MAIN, (0, 100), (100, 101), (0, 300)) == [0, 4 + added, 4 + added]
    whole = calls.added(MAIN, np.array([0]), np.array([300 * US]))
    assert (whole.low[0], whole.shown[0], whole.high[0]) == (34 * US, added * US, 64 * US)


def test_the_begin_and_the_end_of_a_range_cost_half_a_range_each() -> None:
    """A range of the program costs 2 us, and a range of nsyswrap costs 6 us."""
    builder = ExportBuilder().range("forward", 10 * US, 40 * US)
    builder.domain("nsyswrap", 3).range("data", 50 * US, 60 * US, domain=3)
    calls = calls_of(trace_of(builder))
    assert usual(calls, MAIN, (0, 20), (20, 50), (45, 55), (0, 100)) == [1, 1, 3, 8]


def test_a_call_that_nsys_makes_itself_costs_nothing_more() -> None:
    """Newer versions of nsys get the name of each kernel before its launch, and record that call."""
    builder = (
        ExportBuilder().kernel(30 * US, 40 * US, launched=(10 * US, 14 * US)).call("cuKernelGetName", 9_000, 9_500)
    )
    assert usual(calls_of(trace_of(builder)), MAIN, (0, 100)) == [3]


def test_calls_outside_the_window_do_not_count() -> None:
    builder = ExportBuilder()
    for at in (10, 20, 30):
        builder.call("cudaEventRecord", at * US, (at + 1) * US)
    assert usual(calls_of(trace_of(builder), 15 * US, 25 * US), MAIN, (0, 100)) == [1]


def test_without_a_measured_cost_nothing_is_added() -> None:
    context, chosen = find_context(trace_of(ExportBuilder().call("cudaEventRecord", 10, 20))), window(0, 100)
    found = find_calls(context, chosen, find_states(context, chosen))
    assert found is NOT_MEASURED
    assert [each.tolist() for each in found.added(MAIN, np.array([0]), np.array([100]))] == [[0]] * 6


@pytest.mark.parametrize("count", [1, 7])
def test_costs_of_parts_add_up_to_that_of_the_whole(count: int) -> None:
    """Each call belongs to one of two adjacent intervals."""
    builder = ExportBuilder()
    for number in range(count):
        builder.call("cudaEventRecord", number * 10 * US, number * 10 * US + 500)
    calls = calls_of(trace_of(builder))
    edges = [0, 10, 25, 30, 100]
    parts = usual(calls, MAIN, *pairwise(edges))
    assert sum(parts) == usual(calls, MAIN, (0, 100))[0] == count


def test_launches_of_convolutions_are_counted_apart() -> None:
    """A launch costs 3 us. That of a convolution or a batch norm costs 8 us where it was measured, else also 3 us."""
    builder = ExportBuilder()
    for number, name in enumerate(("vectorized_elementwise_kernel", "cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float>")):
        at = (10 + 20 * number) * US
        builder.kernel(at + 5 * US, at + 9 * US, name, launched=(at, at + 4 * US))
    calls = calls_of(trace_of(builder))
    assert usual(calls, MAIN, (0, 20), (20, 50)) == [3, 3]
    known = ProfilerCost({**COST.calls, "convolution_launch": CallCost(Interval(2 * US, 8 * US, 9 * US), 2 * US)})
    assert usual(RecordedCalls(known, calls.threads), MAIN, (0, 20), (20, 50)) == [3, 8]


# Under nsys, work takes usually 1.25 times as long, and at most 2 times. A launch costs at least 2 us and at most 30.
SLOWED = ProfilerCost(
    {
        "launch": CallCost(Interval(2 * US, 5 * US, 30 * US), 4 * US, Slowdown(1.25, 2.0)),
        "call": CallCost(Interval(US, US, US)),
    }
)


def launches(*times: tuple[int, int]) -> ExportBuilder:
    """Return launches from and to times in us. The kernel of each begins after it, and takes 1 us."""
    builder = ExportBuilder()
    for start, end in times:
        builder.kernel((end + 2) * US, (end + 3) * US, launched=(start * US, end * US))
    return builder


def test_a_launch_costs_a_share_of_the_work_since_the_launch_before_it() -> None:
    """Of the 40 us from the end of a launch to the end of the next, nsys added 8, and at most 20."""
    calls = calls_of(trace_of(launches((0, 10), (40, 50))), cost=SLOWED)
    added = calls.added(MAIN, np.array([20 * US]), np.array([60 * US]))
    assert [float(each[0] / US) for each in added] == pytest.approx([2, 8, 20, 8, 20, 4])


def test_waits_and_the_cost_of_other_calls_are_no_slowed_work() -> None:
    """Of 120 us, the thread waits for the GPU for 30 and for another thread for 45; an event takes 1 us of the rest."""
    builder = launches((0, 10), (120, 130))
    builder.call("cudaStreamSynchronize", 20 * US, 50 * US).os_call("pthread_cond_wait", 60 * US, 105 * US)
    builder.call("cudaEventRecord", 110 * US, 112 * US)
    calls = calls_of(trace_of(builder), cost=SLOWED)
    found = calls.added(MAIN, np.array([115 * US]), np.array([140 * US]))
    # The wait for the GPU is a call as well, and costs 1 us.
    assert float(found.usual[0] / US) == pytest.approx((120 - 30 - 45 - 2) / 5)


@pytest.mark.parametrize(("work", "pace_range", "added"), [(4, 1, 2), (400, 1, 30), (400, 2, 60), (40, 2, 8)])
def test_a_launch_costs_no_more_and_no_less_than_was_measured(work: int, pace_range: float, added: int) -> None:
    """Work of 400 us between two launches is not all PyTorch's: the most is what was measured at the slowest pace."""
    calls = calls_of(trace_of(launches((0, 10), (8 + work, 10 + work))), cost=replace(SLOWED, pace_range=pace_range))
    assert usual(calls, MAIN, (5, 500)) == pytest.approx([added])


def test_the_first_launch_of_a_window_and_those_of_other_threads_have_their_own_work() -> None:
    """What the thread did before the window is not known: the call itself counts. Threads do not share their work."""
    builder = launches((100, 120), (180, 200))
    builder.kernel(153 * US, 154 * US, launched=(140 * US, 150 * US), thread=OTHER)
    calls = calls_of(trace_of(builder), 90 * US, cost=SLOWED)
    assert usual(calls, MAIN, (90, 130), (130, 210)) == pytest.approx([4, 16])
    assert usual(calls, OTHER, (90, 300)) == [2]
