"""The simulation on traces that can be checked by eye: the dependencies, and the savings of changes."""

from collections.abc import Callable

import numpy as np
import pytest
from analysis_fixtures import run_section, window
from export_builder import DEVICE, HOST_TO_DEVICE, MAIN, PAGEABLE, ExportBuilder, thread, trace_of
from savings import ends_of, saving_of
from simulations import US, simulate_trace

from nsyswrap.base.intervals import Spans
from nsyswrap.loop.context import find_context
from nsyswrap.report import build_report
from nsyswrap.sections import prediction
from nsyswrap.trace.tables import Trace
from nsyswrap.what_if.changes.loader_waits import loader_waits
from nsyswrap.what_if.changes.pinned_copies import pinned_copies
from nsyswrap.what_if.changes.waits import waits
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.saving import CANNOT, predict
from nsyswrap.what_if.simulate import Simulation

AUTOGRAD = thread(4712)


def simulated(trace: Trace, end: int, start: int = 0) -> Simulation:
    return simulate_trace(trace, window(start, end))


def spans(*pairs: tuple[int, int]) -> Spans:
    return Spans(np.array([first for first, _ in pairs]), np.array([last for _, last in pairs]))


def launches(builder: ExportBuilder, count: int, every: int, length: int) -> ExportBuilder:
    """Launch kernels at a fixed interval: calls of 4 ns, a latency of 6 ns, a gap of 1 ns between kernels."""
    free = -1
    for number in range(count):
        called = number * every
        begin = max(called + 10, free + 1)
        free = begin + length
        builder.kernel(begin, free, launched=(called, called + 4))
    return builder


def test_host_work_saves_its_length_where_launches_are_the_limit() -> None:
    """10 of 16 ns of work between two launches are saved, nine times."""
    found = simulated(trace_of(launches(ExportBuilder(), 10, 20, 5)), 190)
    saved = spans(*((number * 20 + 5, number * 20 + 15) for number in range(9)))
    assert found.saving(Change(host=saved)) == 90
    assert found.saving(Change(host=saved, host_factor=0.5)) == 45


def test_host_work_saves_nothing_where_the_gpu_is_the_limit() -> None:
    """From 10 ns on, kernels of 50 ns are queued, so earlier launches save nothing."""
    found = simulated(trace_of(launches(ExportBuilder(), 10, 20, 50)), 519)
    assert found.simulated_ns == 519
    assert found.saving(Change(host=spans((4, 180)))) == 0


def test_faster_kernels_save_their_time_where_the_gpu_is_the_limit() -> None:
    """Ten kernels of 50 ns at half the length end 250 ns sooner. At a tenth of the length launches are the limit."""
    found = simulated(trace_of(launches(ExportBuilder(), 10, 20, 50)), 519)
    assert found.saving(Change(operations=found.operations, factor=0.5)) == 250
    assert found.length(Change(operations=found.operations, factor=0.1)) == 9 * 20 + 10 + 5


def synchronous(builder: ExportBuilder) -> ExportBuilder:
    """Return five rounds of 100 ns: work of 10, a launch, a kernel that the host waits for until 80, work of 20."""
    for turn in range(0, 500, 100):
        builder.kernel(turn + 20, turn + 78, launched=(turn + 10, turn + 14))
        builder.call("cudaStreamSynchronize", turn + 16, turn + 80)
    return builder


def test_a_wait_follows_what_it_waits_for() -> None:
    found = simulated(trace_of(synchronous(ExportBuilder())), 500)
    assert (found.simulated_ns, found.measured_ns) == (480, 480)
    assert found.saving(Change(operations=found.operations, factor=0.5)) == 5 * 29


def test_without_waits_host_and_gpu_work_side_by_side() -> None:
    """Only the GPU limits the run then, with five kernels of 58 ns, the first from 20 on."""
    found = simulated(trace_of(synchronous(ExportBuilder())), 500)
    changed = waits(found).change
    assert list(changed.waits) == [1, 3, 5, 7, 9]
    assert found.length(changed) == pytest.approx(5 * 58, abs=30)


def test_a_long_wait_with_nothing_pending_is_not_predicted() -> None:
    """The capture does not show what the host waits 300 ns for, so the error of the simulation is too large."""
    trace = trace_of(launches(ExportBuilder(), 5, 20, 5).call("cudaStreamSynchronize", 100, 400))
    found = simulated(trace, 410)
    assert found.error_share == pytest.approx(-296 / 400)
    assert not found.predicts
    assert found.saving(Change(host=spans((0, 400)))) is None
    section = run_section(prediction, find_context(trace), window(0, 410))
    (note,) = section.notes
    error = "the simulation differs from the measured time by 74.0 %, more than 5.0 %"
    assert note == f"No saving is predicted: {error}. Simulated: the test."


def test_findings_of_a_run_that_cannot_be_predicted_have_no_saving() -> None:
    builder = launches(ExportBuilder().gpu(), 5, 20, 5).call("cudaStreamSynchronize", 100, 400)
    report = build_report(trace_of(builder.kernel(410, 420, launched=(404, 408))))
    found = {finding.rule: finding for finding in report.findings}["synchronization/in_step"]
    assert ends_of(found) == (None, None)
    assert found.evidence[-1] == CANNOT


def test_the_autograd_thread_continues_where_the_main_thread_stopped() -> None:
    """Autograd has its own thread for backward; main waits, and works only before and after.

    ::

        main      |L|......waits......|L|        0 to 4, 104 to 108
        autograd  waits |L||L||L| waits          from 24 on, every 20
    """
    builder = ExportBuilder().kernel(10, 12, launched=(0, 4)).kernel(114, 116, launched=(104, 108))
    for number in range(1, 5):
        at = number * 20 + 4
        builder.kernel(at + 10, at + 12, launched=(at, at + 4), thread=AUTOGRAD)
    builder.os_call("pthread_cond_wait", 8, 100).os_call("pthread_cond_wait", 0, 22, thread=AUTOGRAD)
    found = simulated(trace_of(builder.os_call("pthread_cond_wait", 90, 130, thread=AUTOGRAD)), 116)
    assert found.simulated_ns == 116
    # Time that autograd saves between its first launch and its last is saved for main.
    assert found.saving(Change(host={AUTOGRAD: spans((28, 84))})) == 84 - 28
    assert found.saving(Change(host={MAIN: spans((28, 84))})) == 0


def test_a_blocking_copy_holds_its_thread_until_it_is_done() -> None:
    """Four pageable copies of 60 ns each have a wait after them. Without the waits, launches and copies continue."""
    builder = ExportBuilder()
    for turn in range(0, 400, 100):
        at = turn + 10, turn + 70
        builder.copy(*at, HOST_TO_DEVICE, launched=(turn, turn + 72), srcKind=PAGEABLE, dstKind=DEVICE)
        builder.call("cudaStreamSynchronize", turn + 74, turn + 76)
        builder.kernel(turn + 88, turn + 98, launched=(turn + 78, turn + 82))
    found = simulated(trace_of(builder), 400)
    assert found.simulated_ns == 398
    change = pinned_copies(found).change
    assert len(change.waits) == 8
    # The four copies and four kernels take 280 ns of the GPU, and the first needs its latency.
    assert 280 < found.length(change) < 310


def test_a_slow_loader_sets_the_pace() -> None:
    """Batches come every 1 ms and steps take 0.2 ms, so time saved in a step becomes a longer wait for the loader."""
    builder = ExportBuilder()
    for number in range(10):
        at = number * 1_000 * US
        builder.range("data", at, at + 800 * US).os_call("sem_clockwait", at + 5 * US, at + 790 * US)
        builder.range("forward", at + 800 * US, at + 1_000 * US)
        builder.kernel(at + 910 * US, at + 950 * US, launched=(at + 900 * US, at + 904 * US))
    found = simulated(trace_of(builder), 10_000 * US)
    assert found.simulated_ns == 9_950 * US
    step = spans(*((number * 1_000 * US + 805 * US, number * 1_000 * US + 895 * US) for number in range(10)))
    assert found.saving(Change(host=step)) == 90 * US  # that of the last step, since no wait for a batch follows it
    saving = saving_of(predict(found, loader_waits))
    assert saving.point == 10 * 785 * US


def test_a_full_queue_holds_the_launching_thread() -> None:
    """1200 kernels of 100 ns are launched every 10 ns. From the 1023rd on, a launch waits until a kernel ends."""
    builder, free, ends, now = ExportBuilder(), -1, list[int](), 0
    for number in range(1_200):
        returned = max(now + 4, ends[number - 1022] + 2 if number >= 1022 else 0)
        begin = max(returned + 6, free + 1)
        free = begin + 100
        ends.append(free)
        builder.kernel(begin, free, launched=(now, returned))
        now = returned + 6
    trace = trace_of(builder.call("cudaDeviceSynchronize", now, free + 2))
    found = simulated(trace, free + 2)
    assert found.simulated_ns == pytest.approx(free + 2, abs=3)
    # With half the length the GPU is still the limit, and launches wait half as long.
    assert found.saving(Change(operations=found.operations, factor=0.5)) == pytest.approx(60_000, rel=0.01)


def test_an_operation_waits_for_another_stream() -> None:
    """A kernel of stream 8 begins 40 µs after its launch, when one of stream 7 ends, so it waited for that kernel."""
    builder = ExportBuilder().kernel(10 * US, 50 * US, launched=(0, 4 * US), stream=7)
    builder.kernel(52 * US, 60 * US, launched=(6 * US, 8 * US), stream=8)
    found = simulated(trace_of(builder.kernel(80 * US, 90 * US, launched=(72 * US, 74 * US), stream=8)), 90 * US)
    assert found.simulated_ns == 90 * US
    first = found.operations[:1]
    assert found.length(Change(operations=first, factor=0.5, host=spans((8 * US, 72 * US)))) < 60 * US


def test_a_device_wide_wait_is_for_all_streams() -> None:
    """Two streams run for 80 and 60 ns. Without the longer one, the wait lasts until the other ends."""
    builder = ExportBuilder()
    for turn in range(0, 600, 200):
        builder.kernel(turn + 10, turn + 90, launched=(turn, turn + 4), stream=7)
        builder.kernel(turn + 16, turn + 76, launched=(turn + 6, turn + 10), stream=8)
        builder.call("cudaDeviceSynchronize", turn + 12, turn + 92)
    found = simulated(trace_of(builder), 600)
    assert found.simulated_ns == 492
    longer = found.operations[[0, 2, 4]]
    assert found.saving(Change(operations=longer, factor=0.0)) == 3 * 14


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda builder: builder.kernel(50, 60), "the capture does not show which call launched 1 of its operations"),
        (lambda builder: builder.call("cudaGraphLaunch", 50, 60), "CUDA graphs were launched that left no trace"),
        (
            lambda builder: builder.kernel(9_010, 9_020, launched=(9_000, 9_004), thread=AUTOGRAD),
            "calls of its main thread were lost",
        ),
    ],
)
def test_a_run_that_cannot_be_simulated_names_the_reason(
    change: Callable[[ExportBuilder], ExportBuilder], why: str
) -> None:
    trace = trace_of(change(launches(ExportBuilder(), 5, 20, 5)))
    section = run_section(prediction, find_context(trace), window(0, 9_100))
    assert why in section.notes[0]
    assert section.fact("predicts").value == "no"  # type: ignore[union-attr]
    assert simulated(trace, 9_100).saving(Change()) is None


def test_unified_memory_migrations_can_be_simulated() -> None:
    """No call launches them. Less host work saves as much time as without migrations."""
    builder = launches(ExportBuilder(), 10, 20, 5)
    for number in range(3):
        builder.copy(number * 20 + 17, number * 20 + 19, 11, stream=None)
    found = simulated(trace_of(builder), 195)
    assert (found.failure, found.simulated_ns, found.measured_ns) == ("", 195, 195)
    assert found.saving(Change(host=spans((5, 15)))) == 10


def test_a_window_of_migrations_alone_cannot_be_simulated() -> None:
    found = simulated(trace_of(launches(ExportBuilder(), 5, 20, 5).copy(8_100, 8_200, 13, stream=None)), 9_000, 8_000)
    assert found.failure == "no launch of an operation was recorded in it"


def test_an_operation_launched_before_the_window_delays_the_next() -> None:
    """A kernel from before the window runs until 100. The sample begins there, and the next kernel waits for it."""
    builder = ExportBuilder().kernel(10, 100, launched=(0, 4)).kernel(101, 151, launched=(60, 64))
    found = simulated(trace_of(builder), 80, 50)
    assert (found.measured_ns, found.simulated_ns) == (51, 51)
