"""Root causes leave some idle time alone: other streams, few marks, long CPU code. Times are in us."""

from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
from analysis_fixtures import attributions_of, idle_pieces, window
from export_builder import ExportBuilder, global_id, trace_of
from made_steps import MEASURED, STEP, STEPS, US

from nsyswrap.attribution.root_causes import between_operations, capture_overhead, migrations
from nsyswrap.events.recorded_calls import sums_inside
from nsyswrap.loop.context import find_context
from nsyswrap.report import choose_window
from nsyswrap.trace.tables import Trace

PEER = global_id(5000)


def idle_by_rule(trace: Trace) -> Callable[[str], float]:
    """Return a function that gives the idle time of a rule in the measured steps, in us."""
    context = find_context(trace)
    (found,) = attributions_of(context, choose_window(context))
    return lambda rule: found.idle_of(rule) / US


def between(trace: Trace, end: int, cause: ModuleType = between_operations) -> list[int]:
    """Return the starts of the gaps that ``between_operations`` explains, or another root cause, in us."""
    idle = idle_pieces(trace, 0, end * US)
    found = cause.find(idle, np.ones(len(idle.length), bool))
    return [int(start) // US for start in idle.pieces.start[found]]


def queued(*kernels: tuple[int, int]) -> ExportBuilder:
    """Return kernels that run at these times in us, all launched before the first begins, in stream 7."""
    made = ExportBuilder()
    for number, (start, end) in enumerate(kernels):
        call = (number - 20) * US
        made.kernel(start * US, end * US, launched=(call, call + US))
    return made


def test_only_gaps_between_operations_of_one_stream_are_the_gpus_own_pace() -> None:
    """The gaps from stream 7 to 7 and from 8 to 8 count. After the gap from 7 to 8, stream 8 may wait for an event."""
    made = ExportBuilder()
    for number, stream in enumerate((7, 7, 8, 8)):
        call = (number - 20) * US
        made.kernel(number * 10 * US, (number * 10 + 8) * US, launched=(call, call + US), stream=stream)
    assert between(trace_of(made), 38) == [8, 28]


def test_streams_of_two_processes_are_two_streams() -> None:
    """Both processes have a stream with the number 7."""
    made = queued((0, 8), (10, 18)).kernel(20 * US, 28 * US, launched=(-5 * US, -4 * US), process=PEER)
    assert between(trace_of(made), 28) == [8]


def test_a_gap_that_the_launch_reaches_into_is_not_the_gpus_own_pace() -> None:
    """Of the last gap of 2 us, the launch call takes the first 1 us, and the kernel is queued for the other 1 us."""
    made = queued((0, 8), (10, 18)).kernel(20 * US, 28 * US, launched=(15 * US, 19 * US))
    assert between(trace_of(made), 28) == [8]


def test_a_gap_that_a_migration_ends_is_not_the_gpus_own_pace() -> None:
    """A page fault starts the copy at 10 us, so the next queued kernel does not follow the first one directly."""
    made = queued((0, 8), (14, 22), (24, 32)).copy(10 * US, 12 * US, 12, stream=None)
    assert between(trace_of(made), 32) == [22]


@pytest.mark.parametrize(("gap", "explained"), [(99, True), (101, False)])
def test_a_gap_longer_than_a_page_fault_is_not_that_of_a_migration(gap: int, *, explained: bool) -> None:
    end = 8 + gap + 2
    made = queued((0, 8)).copy((end - 2) * US, end * US, 12, stream=None, migrationCause=2)
    assert between(trace_of(made), end, migrations) == [8] * explained


def test_a_gap_of_more_than_ten_usual_ones_is_not_the_gpus_own_pace() -> None:
    """Usual gaps are 2 us, so a gap of 20 us still counts and a gap of 21 us does not."""
    kernels = [(0, 8), (10, 18), (20, 28), (48, 60), (81, 90), (92, 100)]
    assert between(trace_of(queued(*kernels)), 100) == [8, 18, 28, 90]


def marked(ranges: int) -> ExportBuilder:
    """Return ranges of 3 us, each 1 us after the one before, in a gap from 0 to 400 us."""
    made = ExportBuilder().kernel(-10 * US, 0, launched=(-20 * US, -19 * US))
    made.kernel(400 * US, 410 * US, launched=(398 * US, 399 * US))
    for number in range(ranges):
        made.range("piece", 4 * number * US, (4 * number + 3) * US)
    return made


def test_few_marks_take_no_time() -> None:
    """19 ranges have 38 marks, starts and ends: too few. 20 ranges have 40: enough."""
    chosen = window(0, 410 * US)
    assert capture_overhead.find_marks(find_context(trace_of(marked(19))), chosen) == {}
    assert len(capture_overhead.find_marks(find_context(trace_of(marked(20))), chosen)) == 1
    # The capture has 40 marks, but only 38 of them lie in the window.
    assert capture_overhead.find_marks(find_context(trace_of(marked(20))), window(0, 76 * US)) == {}


def test_the_time_of_marks_is_that_of_the_shortest_in_the_capture() -> None:
    """An end comes 3 us after its start, and a start 1 us after the end before it, so marks take at most that long.

    From the fifth on, a start comes 2 us after the end. The first one has no mark before it and counts as 0. The 5th
    percentile of the 50 times is 1 us.
    """
    made = marked(4)
    for number in range(46):
        made.range("piece", (17 + 5 * number) * US, (20 + 5 * number) * US)
    (marks,) = capture_overhead.find_marks(find_context(trace_of(made)), window(0, 410 * US)).values()
    start, end = (np.array(side, np.int64) * US for side in ((0, 4, 4, 300), (400, 8, 5, 400)))
    assert (sums_inside(*marks, start, end) / US).tolist() == [50 * 1 + 50 * 3, 1 + 3, 1, 0]


@pytest.mark.parametrize(("ranges", "taken"), [(24, False), (25, True), (50, True)])
def test_marks_that_take_a_quarter_of_cpu_time_explain_it(ranges: int, taken: bool) -> None:  # noqa: FBT001
    """Each range takes 4 us of 398 us of CPU time: 24 take 96 us, and 25 take 100 us, more than a quarter."""
    idle = idle_pieces(trace_of(marked(ranges)), 0, 410 * US)
    found = capture_overhead.find(idle, np.ones(len(idle.length), bool))
    assert (idle.length // US).tolist() == [398, 1, 1]
    assert found.tolist() == [taken, False, False]


def paced(wait: int = 0, call: str = "cudaDeviceSynchronize") -> ExportBuilder:
    """Return steps with 20 launches, one every 10 us, of kernels of 2 us, then CPU code until the next step.

    Args:
        wait: How long a call waits for the GPU 100 us after the last launch, in us.
        call: Name of this call.
    """
    made = ExportBuilder().gpu().os_call("mmap", 0, 1)
    for number in range(STEPS):
        at = number * STEP
        made.range(f"batch {number}", at, at + STEP)
        for begun in range(at, at + 200 * US, 10 * US):
            made.kernel(begun + 5 * US, begun + 7 * US, launched=(begun, begun + US), gridX=9000, blockX=256)
        if wait:
            made.call(call, at + 300 * US, at + (300 + wait) * US)
    return made


def test_cpu_code_that_runs_once_a_step_is_no_matter_of_launches() -> None:
    """Gaps of up to 100 us are usual: the 19 of 8 us in each step, and the first 5 us of the window."""
    idle_of = idle_by_rule(trace_of(paced()))
    assert idle_of("launches/launch_bound") == MEASURED * 19 * 8 + 5
    assert idle_of("idle/cpu") == MEASURED * (1000 - 197)
    assert idle_of("idle/launch") + idle_of("idle/queued") == (MEASURED - 1) * 5


@pytest.mark.parametrize("call", ["cudaStreamSynchronize", "cudaMemcpy_v3020"])
@pytest.mark.parametrize(("wait", "bound"), [(270, True), (310, False)])
def test_fewer_launches_do_not_help_where_other_causes_take_three_tenths_of_the_idle_time(
    wait: int, call: str, *, bound: bool
) -> None:
    """The GPU is idle for 960 us of a step."""
    assert bool(idle_by_rule(trace_of(paced(wait, call)))("launches/launch_bound")) is bound


@pytest.mark.parametrize(("gap", "count"), [(190, 7), (210, 0)])
def test_gaps_above_200_us_are_not_the_gpus_own_pace_however_usual_they_are(gap: int, count: int) -> None:
    """Each kernel is queued, and begins some time after the one before: it waits for something that is not shown."""
    step = gap + 10
    built = queued(*((number * step, number * step + 10) for number in range(8)))
    assert len(between(trace_of(built), 8 * step)) == count


def test_marks_that_are_far_apart_take_no_longer_than_a_mark_can() -> None:
    """Starts and ends are 1 ms apart. A mark takes 3 us at most, so the marks do not explain the CPU time."""
    made = ExportBuilder().kernel(-10 * US, 0, launched=(-20 * US, -19 * US))
    made.kernel(100_000 * US, 100_010 * US, launched=(99_998 * US, 99_999 * US))
    for number in range(50):
        made.range("piece", 2_000 * number * US, (2_000 * number + 1_000) * US)
    idle = idle_pieces(trace_of(made), 0, 100_010 * US)
    (marks,) = capture_overhead.find_marks(idle.context, idle.window).values()
    assert marks.spent_ns.sum() <= 100 * 3 * US
    assert not capture_overhead.find(idle, np.ones(len(idle.length), bool)).any()


@pytest.mark.parametrize(
    ("count", "steps", "is_habit"),
    [(8, (5,), False), (8, (5, 7), True), (24, (5, 7), False), (24, (5, 7, 9), True)],
)
def test_memory_that_is_allocated_in_few_steps_is_no_habit(
    count: int, steps: tuple[int, ...], *, is_habit: bool
) -> None:
    """Of six measured steps, one is more than a tenth, but what happens once does not repeat; of 22, three are more."""
    made = ExportBuilder().gpu()
    for number in range(count):
        at = number * STEP
        made.range(f"batch {number}", at, at + STEP)
        made.kernel(at + 10 * US, at + 600 * US, launched=(at, at + US))
        if number in steps:
            made.call("cudaMalloc", at + 700 * US, at + 800 * US)
    rule = "memory/churn" if is_habit else "idle/allocation"
    assert idle_by_rule(trace_of(made))(rule) >= 100
