"""Each cause of idle time is found with its phase and its evidence, in traces small enough to check by eye.

In the drawings one character is 5 ns and the window is 0 to 100. ``#`` is the kernel before the gap, ``E`` the kernel
that ends it, ``r`` the launch call of E. Usually r begins when E begins, so the whole gap lies before the launch::

    GPU     ####............EEEE
    main                    r
"""

import pytest
from analysis_fixtures import Piece, evidence, explained
from export_builder import DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE, PAGEABLE, ExportBuilder, thread, trace_of

MAIN_TID = 4711


def gap(phase: str = "forward") -> ExportBuilder:
    """Return a gap from 20 to 80 between two kernels, and one range around everything."""
    return ExportBuilder().range(phase, 0, 100).kernel(0, 20, launched=(0, 1)).kernel(80, 100, launched=(80, 82))


def test_code_between_launches_is_cpu() -> None:
    """The launching thread has no call open, so it runs other code.

    ::

        GPU   ####............EEEE
        main                  r
    """
    trace = trace_of(gap())
    assert explained(trace, 0, 100) == [Piece(20, 80, "cpu", "forward")]
    assert evidence(trace, 0, 100) == [f"thread {MAIN_TID} runs code outside CUDA calls"]


@pytest.mark.parametrize(
    ("launched", "pieces"),
    [
        ((10, 90), [(20, 80, "launch")]),
        ((5, 15), [(20, 80, "queued")]),
        ((40, 60), [(20, 40, "cpu"), (40, 60, "launch"), (60, 80, "queued")]),
    ],
)
def test_a_gap_is_split_into_the_parts_before_the_launch_call_inside_it_and_after_it(
    launched: tuple[int, int], pieces: list[tuple[int, int, str]]
) -> None:
    """In the last case.

    ::

        GPU   ####............EEEE
        main          rrrr
    """
    builder = ExportBuilder().range("backward", 0, 100).kernel(0, 20, launched=(0, 1))
    trace = trace_of(builder.kernel(80, 100, launched=launched))
    assert explained(trace, 0, 100) == [Piece(*each, "backward") for each in pieces]
    said = {
        "cpu": f"thread {MAIN_TID} runs code outside CUDA calls",
        "launch": f"cudaLaunchKernel is open on thread {MAIN_TID}",
        "queued": f"launched by cudaLaunchKernel on thread {MAIN_TID}, not begun yet",
    }
    assert evidence(trace, 0, 100) == [said[cause] for *_, cause in pieces]


CALLS = {
    "cudaStreamSynchronize_v3020": "synchronization",
    "cudaDeviceSynchronize_v3020": "synchronization",
    "cudaEventSynchronize_v3020": "synchronization",
    "cuCtxSynchronize": "synchronization",
    "cudaMemcpy_v3020": "blocking_copy",
    "cuMemcpyDtoH_v2": "blocking_copy",
    "cudaMalloc_v3020": "allocation",
    "cudaFree_v3020": "allocation",
    "cudaHostAlloc_v3020": "allocation",
    "cudaHostRegister_v4000": "allocation",
    "cuMemHostAlloc": "allocation",
    "cuLibraryLoadData": "module_load",
    "cuModuleLoadDataEx": "module_load",
    "cudaStreamCreateWithFlags_v5000": "module_load",
    "cudaGraphInstantiate_v12000": "module_load",
    "cudaEventQuery_v3020": "cpu",
    "cudaStreamIsCapturing_v10000": "cpu",
    "cudaGetDevice_v3020": "cpu",
}


@pytest.mark.parametrize(("call", "cause"), CALLS.items())
def test_an_open_cuda_call_is_the_cause_it_stands_for(call: str, cause: str) -> None:
    """Each CUDA call has its cause. A call without a cause of its own, such as a query, counts as CPU time.

    ::

        GPU   ####............EEEE
        main     cccccccccccccr
    """
    assert explained(trace_of(gap().call(call, 15, 80)), 0, 100) == [Piece(20, 80, cause, "forward")]


OS_CALLS = {
    "pthread_mutex_lock": "lock",
    "pthread_cond_timedwait": "lock",
    "pthread_rwlock_rdlock": "lock",
    "sem_wait": "lock",
    "poll": "cpu",
    "read": "file_io",
    "nanosleep": "cpu",
    "ioctl": "cpu",
    "pthread_cond_wait": "unknown",
    "pthread_join": "unknown",
}


@pytest.mark.parametrize(("call", "cause"), OS_CALLS.items())
def test_an_open_operating_system_call_is_the_cause_it_stands_for(call: str, cause: str) -> None:
    """Outside the data phase a lock counts as a lock. A wait for another thread has an unknown cause.

    ::

        GPU   ####............EEEE
        main     oooooooooooooor
    """
    assert explained(trace_of(gap().os_call(call, 15, 80)), 0, 100) == [Piece(20, 80, cause, "forward")]


OVERHEADS = {
    "CUPTI Buffer flush": "profiler",
    "CUDA profiling memory allocation": "profiler",
    "dlopen(libcudnn_ops.so.9)": "module_load",
    "dlclose": "module_load",
}


@pytest.mark.parametrize(("name", "cause"), OVERHEADS.items())
def test_overhead_is_the_profiler_except_for_libraries_it_hooks(name: str, cause: str) -> None:
    """Nsys records the loading of a library as overhead because it hooks the loading."""
    trace = trace_of(gap().overhead(name, 20, 80))
    assert explained(trace, 0, 100) == [Piece(20, 80, cause, "forward")]
    assert name in evidence(trace, 0, 100)[0]


@pytest.mark.parametrize("ends", [(HOST_TO_DEVICE, PAGEABLE, DEVICE), (DEVICE_TO_HOST, DEVICE, PAGEABLE)])
def test_a_copy_of_pageable_memory_blocks_whatever_it_is_called(ends: tuple[int, int, int]) -> None:
    """Even cudaMemcpyAsync stages pageable memory before it returns. The copy on the GPU ends at 20.

    ::

        GPU   ####............EEEE
        main  ccccccccccccccccr
    """
    builder = ExportBuilder().range("copy", 0, 100).kernel(80, 100, launched=(80, 82))
    kind, source, target = ends
    trace = trace_of(builder.copy(0, 20, kind, launched=(0, 80), srcKind=source, dstKind=target))
    assert explained(trace, 0, 100) == [Piece(20, 80, "blocking_copy", "copy")]
    assert evidence(trace, 0, 100) == [f"cudaMemcpyAsync blocks thread {MAIN_TID}"]


def test_a_copy_of_pinned_memory_does_not_block() -> None:
    """The same call with pinned memory has no cause of its own, so the gap is CPU time."""
    builder = ExportBuilder().range("copy", 0, 100).kernel(80, 100, launched=(80, 82))
    assert explained(trace_of(builder.copy(0, 20, launched=(0, 80))), 0, 100) == [Piece(20, 80, "cpu", "copy")]


@pytest.mark.parametrize("call", ["poll", "sem_clockwait", "pthread_cond_wait", "read", "pthread_cond_timedwait"])
def test_a_wait_in_the_data_phase_is_data_wait(call: str) -> None:
    """In the data phase, a wait in any system call is a wait for data.

    ::

        GPU   ####............EEEE
        main  [data           ]r
        main     oooooooooooooo
    """
    trace = trace_of(gap("data").os_call(call, 15, 80))
    assert explained(trace, 0, 100) == [Piece(20, 80, "data_wait", "data")]
    assert evidence(trace, 0, 100) == [f"thread {MAIN_TID} waits for data in {call}"]


def test_work_in_the_data_phase_is_data_work() -> None:
    """System calls are traced and none is open, so the loader runs in the training process."""
    trace = trace_of(gap("data").os_call("read", 0, 5))
    assert explained(trace, 0, 100) == [Piece(20, 80, "data_work", "data")]
    assert evidence(trace, 0, 100) == [f"thread {MAIN_TID} prepares data itself"]


def test_the_data_phase_is_unknown_where_system_calls_were_not_traced() -> None:
    """Without traced system calls, waiting and working look the same."""
    trace = trace_of(gap("data"))
    assert explained(trace, 0, 100) == [Piece(20, 80, "unknown", "data")]
    assert "were not recorded" in evidence(trace, 0, 100)[0]


LOADER = {"pt_data_pin": thread(4720), "pt_data_prefetch": thread(4720), "pt_data_worker": thread(5001, pid=5001)}


@pytest.mark.parametrize("name", LOADER)
def test_without_phases_a_wait_before_a_copy_to_the_device_is_data_wait(name: str) -> None:
    """A thread or a child process loads batches, no range marks the data phase, and E copies a batch.

    ::

        GPU   ####............CCCC     C: a copy from the host
        main     oooooooooooooor
    """
    builder = ExportBuilder().kernel(0, 20, launched=(0, 1)).copy(80, 100, launched=(80, 82))
    builder.os_call("pthread_cond_wait", 15, 80).thread_name(LOADER[name], name)
    assert explained(trace_of(builder), 0, 100) == [Piece(20, 80, "data_wait", "none")]


@pytest.mark.parametrize(("phase", "cause"), [("batch 1", "data_wait"), ("copy", "data_wait"), ("forward", "lock")])
def test_who_marks_steps_alone_still_waits_for_input(phase: str, cause: str) -> None:
    builder = ExportBuilder().kernel(0, 20, launched=(0, 1)).copy(80, 100, launched=(80, 82)).range(phase, 0, 100)
    builder.os_call("sem_clockwait", 15, 80).thread_name(LOADER["pt_data_pin"], "pt_data_pin")
    assert explained(trace_of(builder), 0, 100) == [Piece(20, 80, cause, phase.split(maxsplit=1)[0])]


@pytest.mark.parametrize(("kernel", "loader"), [(True, thread(4720)), (False, thread(6000, pid=6000))])
def test_a_wait_before_a_kernel_or_without_a_loader_is_not_said_to_be_input(loader: int, *, kernel: bool) -> None:
    """Only a copy from the host can bring a batch. A pinning thread of another process loads for that process only."""
    builder = ExportBuilder().kernel(0, 20, launched=(0, 1))
    (builder.kernel if kernel else builder.copy)(80, 100, launched=(80, 82))
    builder.os_call("pthread_cond_wait", 15, 80).thread_name(loader, "pt_data_pin")
    assert explained(trace_of(builder), 0, 100) == [Piece(20, 80, "unknown", "none")]


def test_a_graph_without_rows_on_the_gpu_is_not_traced() -> None:
    """Until the graph launch the gap is like any other. After that, the capture does not show what ran.

    ::

        GPU   ####............EEEE
        main        g         r         g: cudaGraphLaunch, no row on the GPU
    """
    trace = trace_of(gap().call("cudaGraphLaunch_v10000", 30, 35, correlation=99))
    assert explained(trace, 0, 100) == [Piece(20, 30, "cpu", "forward"), Piece(30, 80, "not_traced", "forward")]
    assert "does not show" in evidence(trace, 0, 100)[1]


def test_a_graph_launched_during_the_kernel_before_it_is_not_traced_from_the_start() -> None:
    """The graph waits for the running kernel and may begin right after it, so the whole gap is not traced."""
    trace = trace_of(gap().call("cuGraphLaunch", 5, 10, correlation=99))
    assert explained(trace, 0, 100) == [Piece(20, 80, "not_traced", "forward")]


def test_a_graph_with_rows_on_the_gpu_is_traced() -> None:
    """Its row is an operation like any other, so the time after it is CPU time."""
    builder = ExportBuilder().range("forward", 0, 100).graph(0, 20, launched=(0, 1)).kernel(80, 100, launched=(80, 82))
    assert explained(trace_of(builder), 0, 100) == [Piece(20, 80, "cpu", "forward")]


def test_a_gap_before_an_operation_without_a_launch_call_is_not_traced() -> None:
    """The capture lacks the call that launched it. The phase is that of the main thread."""
    builder = ExportBuilder().range("forward", 0, 100).kernel(0, 20, launched=(0, 1)).kernel(80, 100)
    assert explained(trace_of(builder), 0, 100) == [Piece(20, 80, "not_traced", "forward")]


def test_a_gap_that_ends_with_a_migration_is_that_of_what_follows() -> None:
    """Unified memory migrates without a call (M). Before M the host runs code; from M on the GPU is busy.

    ::

        GPU   ####............MMMMEEEE
        main                      r
    """
    builder = ExportBuilder().range("forward", 0, 120).kernel(0, 20, launched=(0, 1)).copy(80, 100, 12, stream=None)
    trace = trace_of(builder.kernel(100, 120, launched=(98, 99)))
    assert explained(trace, 0, 120) == [Piece(20, 80, "cpu", "forward")]


def test_after_a_last_migration_the_thread_that_launched_before_it_explains_the_gap() -> None:
    builder = ExportBuilder().range("forward", 0, 100).kernel(0, 20, launched=(0, 1)).copy(20, 30, 12, stream=None)
    assert explained(trace_of(builder), 0, 100) == [Piece(30, 100, "cpu", "forward")]


def test_the_idle_time_of_a_gpu_with_migrations_alone_is_not_traced() -> None:
    """No thread launched work on it, so no thread explains its idle time."""
    builder = ExportBuilder().range("forward", 0, 100).copy(20, 30, 11, stream=None)
    assert [piece.cause for piece in explained(trace_of(builder), 0, 100)] == ["not_traced", "not_traced"]


def test_without_cuda_calls_every_gap_is_not_traced() -> None:
    """The export has no table of CUDA calls. The first, the middle and the last gap are tested."""
    builder = ExportBuilder().range("forward", 0, 100).kernel(10, 20).kernel(80, 90)
    trace = trace_of(builder)
    assert "calls" in trace.absent
    assert explained(trace, 0, 100) == [
        Piece(0, 10, "not_traced", "forward"),
        Piece(20, 80, "not_traced", "forward"),
        Piece(90, 100, "not_traced", "forward"),
    ]


def test_after_the_last_operation_the_thread_that_launched_it_explains_the_gap() -> None:
    """No operation ends this gap, so the thread that launched the last operation explains it.

    ::

        GPU   ####................
        main  r     sssssssss
    """
    builder = ExportBuilder().range("forward", 0, 100).kernel(0, 20, launched=(0, 1))
    trace = trace_of(builder.call("cudaDeviceSynchronize", 30, 75))
    assert explained(trace, 0, 100) == [
        Piece(20, 30, "cpu", "forward"),
        Piece(30, 75, "synchronization", "forward"),
        Piece(75, 100, "cpu", "forward"),
    ]


CUTS = {
    (0, 50): [Piece(20, 25, "cpu", "forward"), Piece(25, 50, "allocation", "forward")],
    (30, 50): [Piece(30, 50, "allocation", "forward")],
    (50, 51): [Piece(50, 51, "allocation", "forward")],
    (30, 100): [Piece(30, 78, "allocation", "forward"), Piece(78, 80, "cpu", "forward")],
}


@pytest.mark.parametrize("cut", CUTS)
def test_a_gap_is_clipped_to_the_window(cut: tuple[int, int]) -> None:
    """The operation that ends a gap may lie outside the window. It still shows which thread launches work.

    ::

        GPU   ####............EEEE
        main       aaaaaaaaaa r
    """
    assert explained(trace_of(gap().call("cudaMalloc", 25, 78)), *cut) == CUTS[cut]
