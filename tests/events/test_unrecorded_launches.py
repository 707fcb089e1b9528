"""Launch calls of kernels without a record of the GPU: records that are missing, and launches that never had any."""

import pytest
from export_builder import MAIN, PROCESS, ExportBuilder, global_id, thread, trace_of

from nsyswrap.events.lost_events import MOST_QUEUED, UnrecordedLaunches, find_unrecorded_launches
from nsyswrap.events.operations import find_operations
from nsyswrap.report import build_report
from nsyswrap.trace.tables import CALLS, Trace, array

PEER = global_id(5000)
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"


def found(trace: Trace) -> UnrecordedLaunches:
    """Return the launches without a record."""
    return find_unrecorded_launches(trace, find_operations(trace))


def starts(trace: Trace) -> list[int]:
    return [int(start) for start in array(trace[CALLS], "start")[found(trace).kernels.rows]]


def loop(count: int = 4, *, builder: ExportBuilder | None = None, **columns: int) -> ExportBuilder:
    """Return kernels with their launch calls, one every 100 ns."""
    made = builder or ExportBuilder()
    for at in range(0, 100 * count, 100):
        made.kernel(at + 10, at + 60, launched=(at, at + 5), **columns)  # type: ignore[arg-type]
    return made


def test_kernels_that_are_all_there_miss_nothing() -> None:
    assert starts(trace_of(loop())) == []


def test_without_the_table_of_kernels_every_launch_misses_its_record() -> None:
    trace = trace_of(loop().without(KERNELS))
    assert starts(trace) == [0, 100, 200, 300]
    assert found(trace).without_any == (PROCESS,)


def test_a_launch_between_others_misses_its_record() -> None:
    trace = trace_of(loop().call("cudaLaunchKernelExC_v11060", 150, 160, correlation=77))
    assert starts(trace) == [150]
    assert found(trace).without_any == ()


def test_launches_that_had_not_run_when_recording_ended_miss_nothing() -> None:
    """They were still queued: no later launch has a record."""
    assert starts(trace_of(loop().call("cudaLaunchKernel", 400, 405, correlation=77))) == []


def test_a_wait_for_the_device_shows_that_they_had_run() -> None:
    made = loop().call("cudaLaunchKernel", 400, 405, correlation=77)
    assert starts(trace_of(made.call("cudaDeviceSynchronize", 410, 500))) == [400]


def test_a_wait_for_an_event_may_be_one_for_earlier_work() -> None:
    made = loop().call("cudaLaunchKernel", 400, 405, correlation=77)
    assert starts(trace_of(made.call("cudaEventSynchronize", 410, 500))) == []


def test_no_more_are_queued_than_cuda_lets_wait() -> None:
    """Of 1,027 launches after the last one with a record, three had run."""
    assert MOST_QUEUED == 1024
    made = loop(1)
    for number in range(MOST_QUEUED + 3):
        made.call("cudaLaunchKernel", 1000 + number, 1001 + number, correlation=1000 + number)
    assert starts(trace_of(made)) == [1000, 1001, 1002]


@pytest.mark.parametrize("begin", [True, False])
def test_launches_that_a_stream_capture_records_do_not_run(begin: bool) -> None:  # noqa: FBT001
    """They become a graph, also on another thread; recording may have begun inside the capture."""
    made = loop(8)
    if begin:
        made.call("cudaStreamBeginCapture_v10000", 110, 111)
    made.call("cudaLaunchKernel", 120, 125, correlation=77)
    made.call("cudaLaunchKernel", 130, 135, correlation=78, thread=thread(4712))
    made.call("cudaStreamEndCapture_v10000", 150, 160)
    assert starts(trace_of(made.call("cudaLaunchKernel", 170, 175, correlation=79))) == [170]


def test_a_call_of_the_driver_inside_one_of_the_runtime_is_the_same_launch() -> None:
    made = loop().call("cuLaunchKernel", 101, 104, correlation=77).call("cuLaunchKernel", 150, 154, correlation=78)
    assert starts(trace_of(made)) == [150]


def test_an_export_without_correlation_ids_shows_no_missing_record() -> None:
    """Nothing joins its kernels to their launches."""
    assert starts(trace_of(loop().without("CUPTI_ACTIVITY_KIND_RUNTIME", "correlationId"))) == []


def test_calls_that_launch_no_kernel_need_no_record() -> None:
    """A memset of no bytes has none, a function of the host runs on the CPU, and a graph is counted elsewhere."""
    made = loop()
    for name in ("cudaMemsetAsync", "cudaLaunchHostFunc", "cudaGraphLaunch", "cudaFuncGetAttributes"):
        made.call(name, 150, 155, correlation=77)
    assert starts(trace_of(made)) == []


def test_copies_miss_their_records_where_a_process_has_no_copy() -> None:
    """A copy of no bytes has no record, so one such call among others that have one shows nothing."""
    made = loop().copy(20, 30, launched=(15, 16)).call("cudaMemcpyAsync", 210, 215, correlation=77)
    assert found(trace_of(made)).copies.rows.tolist() == []
    lost = found(trace_of(made.without("CUPTI_ACTIVITY_KIND_MEMCPY")))
    assert (len(lost.kernels.rows), len(lost.copies.rows), set(lost.copies.process.tolist())) == (0, 2, {PROCESS})


def test_memsets_miss_their_records_where_a_process_has_no_memset() -> None:
    """As copies do; one that a stream capture records does not run."""
    made = loop().fill(20, 30, launched=(15, 16)).call("cudaMemsetAsync", 210, 215, correlation=77)
    assert found(trace_of(made)).memsets.rows.tolist() == []
    trace = trace_of(made.without("CUPTI_ACTIVITY_KIND_MEMSET"))
    lost = found(trace)
    assert (len(lost.kernels.rows), len(lost.memsets.rows), set(lost.memsets.process.tolist())) == (0, 2, {PROCESS})
    check = build_report(trace).section("capture_check")
    assert check is not None
    assert [fact.value for fact in check.facts if fact.label == "memsets_without_record"] == [2]


def test_the_records_of_one_process_may_be_missing() -> None:
    """Correlation ids of two processes are the same numbers."""
    made = loop()
    for at in (50, 150):
        made.call("cudaLaunchKernel", at, at + 5, thread=PEER | 5000, correlation=1)
    trace = trace_of(made)
    assert starts(trace) == [50, 150]
    assert (set(found(trace).kernels.process.tolist()), found(trace).without_any) == ({PEER}, (PEER,))
    assert MAIN not in found(trace).kernels.process
