"""Each gap is attributed to one thread and cause: precedence, threads, processes, phases, devices, unusual times.

In the drawings one character is 5 ns. ``#`` is the kernel before the gap, ``E`` is the kernel that ends it, and ``r``
is the launch call of E.
"""

from collections.abc import Callable
from itertools import pairwise

import pytest
from analysis_fixtures import Piece, evidence, explained, idle_section
from export_builder import ExportBuilder, global_id, thread, trace_of

AUTOGRAD = thread(4712)
PEER = global_id(5000)
PEER_MAIN = global_id(5000, 5000)

# What can be open on the launching thread at the same time, in order of precedence.
BY_PRECEDENCE: dict[str, Callable[[ExportBuilder], ExportBuilder]] = {
    "profiler": lambda b: b.overhead("CUPTI Buffer flush", 20, 80),
    "module_load": lambda b: b.call("cuModuleLoadData", 20, 80),
    "allocation": lambda b: b.call("cudaMalloc", 20, 80),
    "blocking_copy": lambda b: b.call("cudaMemcpy", 20, 80),
    "synchronization": lambda b: b.call("cudaStreamSynchronize", 20, 80),
    "lock": lambda b: b.os_call("pthread_mutex_lock", 20, 80),
    "unknown": lambda b: b.os_call("pthread_cond_wait", 20, 80),
    "off_cpu": lambda b: b.os_call("read", 0, 1).scheduled(20, running=False).scheduled(80, running=True),
}


def gap(phase: str = "forward") -> ExportBuilder:
    """Return a gap from 20 to 80 between two kernels, and one range around everything."""
    return ExportBuilder().range(phase, 0, 100).kernel(0, 20, launched=(0, 1)).kernel(80, 100, launched=(80, 82))


@pytest.mark.parametrize("pair", list(pairwise(BY_PRECEDENCE)), ids=" before ".join)
def test_where_two_causes_hold_the_first_of_the_table_wins(pair: tuple[str, str]) -> None:
    """Both causes cover the whole gap. The order of rows in the export does not matter.

    ::

        GPU   ####............EEEE
        main      aaaaaaaaaaaar
        main      bbbbbbbbbbbb
    """
    for order in (pair, pair[::-1]):
        builder = gap()
        for cause in order:
            BY_PRECEDENCE[cause](builder)
        assert explained(trace_of(builder), 0, 100) == [Piece(20, 80, pair[0], "forward")]


def test_the_launch_call_comes_before_what_is_open_around_it() -> None:
    """E's launch call loads a module and flushes buffers inside. The time still counts as launch.

    ::

        GPU   ####............EEEE
        main        rrrrrrrr
        main          mmmm
    """
    builder = ExportBuilder().range("forward", 0, 100).kernel(0, 20, launched=(0, 1)).kernel(80, 100, launched=(30, 70))
    builder.call("cuModuleLoadData", 40, 60).overhead("CUPTI Buffer flush", 40, 75)
    assert [(piece.start, piece.cause) for piece in explained(trace_of(builder), 0, 100)] == [
        (20, "cpu"),
        (30, "launch"),
        (70, "queued"),
    ]


def test_a_wait_for_data_comes_before_a_lock_and_after_a_synchronization() -> None:
    """In the data phase, a synchronization comes first, then a data loader wait, then a lock.

    ::

        GPU   ####............EEEE
        main      ssss        r
        main        llllllll
    """
    builder = gap("data").call("cudaStreamSynchronize", 20, 40).os_call("pthread_mutex_lock", 30, 70)
    assert explained(trace_of(builder), 0, 100) == [
        Piece(20, 40, "synchronization", "data"),
        Piece(40, 70, "data_wait", "data"),
        Piece(70, 80, "data_work", "data"),
    ]


def autograd_waits(main: Callable[[ExportBuilder], ExportBuilder]) -> ExportBuilder:
    """Return a gap in which the autograd thread waits; it launched both kernels, the main thread one long before."""
    builder = ExportBuilder().range("backward", -100, 200).kernel(-90, -80, launched=(-99, -98))
    builder.kernel(0, 20, launched=(0, 1), thread=AUTOGRAD).kernel(80, 100, launched=(80, 82), thread=AUTOGRAD)
    builder.os_call("pthread_cond_wait", 2, 78, thread=AUTOGRAD).call("cudaGetDevice", 150, 151)
    return main(builder)


def test_where_the_launching_thread_only_waited_the_busy_one_explains_the_gap() -> None:
    """The autograd thread waits for the main thread, which allocates memory.

    ::

        GPU       ####............EEEE
        autograd    wwwwwwwwwwwww r
        main          aaaaaaaa
    """
    trace = trace_of(autograd_waits(lambda b: b.call("cudaMalloc", 30, 70)))
    assert explained(trace, 0, 100) == [
        Piece(20, 30, "cpu", "backward"),
        Piece(30, 70, "allocation", "backward"),
        Piece(70, 80, "cpu", "backward"),
    ]
    assert evidence(trace, 0, 100)[1] == "cudaMalloc is open on thread 4711"


def test_where_every_launching_thread_waits_the_cause_is_unknown() -> None:
    """Autograd waits for the main thread, which waits for a third thread, so neither shows the cause."""
    trace = trace_of(autograd_waits(lambda b: b.os_call("pthread_cond_wait", 10, 95)))
    assert explained(trace, 0, 100)[0] == Piece(20, 78, "unknown", "backward")
    assert evidence(trace, 0, 100)[0] == "thread 4711 waits in pthread_cond_wait for another thread"


def test_where_system_calls_were_traced_it_is_not_advised_to_trace_them() -> None:
    """The advice on unexplained idle time names ``osrt`` only if system calls were not traced."""
    traced = gap().os_call("pthread_cond_wait", 20, 80)
    bare = gap("data")
    advice = [
        finding.advice
        for builder in (traced, bare)
        for finding in idle_section(trace_of(builder), 0, 100).findings
        if finding.rule == "idle/unknown"
    ]
    assert ["osrt" in text for text in advice] == [False, True]


def test_a_thread_that_never_launched_explains_nothing() -> None:
    """A watchdog thread polls events all the time but launches no work, so it does not explain the gap."""
    builder = autograd_waits(lambda b: b.os_call("pthread_cond_wait", 10, 95))
    builder.call("cudaEventQuery", -95, 200, thread=thread(4799))
    assert {piece.cause for piece in explained(trace_of(builder), 0, 78)} == {"unknown"}


def test_a_thread_that_ended_before_the_gap_explains_nothing() -> None:
    """The last event of the main thread is long before the gap, so this thread does not explain the gap."""
    builder = ExportBuilder().range("backward", -100, 100, thread=AUTOGRAD).kernel(-90, -80, launched=(-99, -98))
    builder.kernel(0, 20, launched=(0, 1), thread=AUTOGRAD).kernel(80, 100, launched=(80, 82), thread=AUTOGRAD)
    builder.os_call("pthread_cond_wait", 2, 78, thread=AUTOGRAD)
    assert explained(trace_of(builder), 0, 100)[0] == Piece(20, 78, "unknown", "backward")


def test_half_a_wait_does_not_move_the_blame() -> None:
    """The launching thread works for half of the gap, so its own calls explain the gap."""
    builder = ExportBuilder().range("backward", -100, 200).kernel(-90, -80, launched=(-99, -98))
    builder.kernel(0, 20, launched=(0, 1), thread=AUTOGRAD).kernel(80, 100, launched=(80, 82), thread=AUTOGRAD)
    builder.os_call("pthread_mutex_lock", 20, 50, thread=AUTOGRAD).call("cudaMalloc", 20, 80).call("cudaFree", 190, 191)
    assert [piece.cause for piece in explained(trace_of(builder), 0, 100)] == ["lock", "cpu"]


def test_while_the_launching_thread_waits_for_another_the_main_one_explains_the_gap() -> None:
    """The main thread explains the gap only during that wait. A lock does not count as a wait for a thread.

    ::

        GPU       ####............EEEE
        autograd      wwww  ll    r
        main         mmmmmmmmmm
    """
    builder = ExportBuilder().range("backward", -100, 200).call("cudaMalloc", 30, 75)
    builder.kernel(0, 20, launched=(0, 1), thread=AUTOGRAD).kernel(80, 100, launched=(80, 82), thread=AUTOGRAD)
    builder.os_call("pthread_cond_wait", 25, 45, thread=AUTOGRAD)
    builder.os_call("pthread_mutex_lock", 55, 62, thread=AUTOGRAD)
    assert explained(trace_of(builder), 0, 100) == [
        Piece(20, 25, "cpu", "backward"),
        Piece(25, 30, "cpu", "backward"),
        Piece(30, 45, "allocation", "backward"),
        Piece(45, 55, "cpu", "backward"),
        Piece(55, 62, "lock", "backward"),
        Piece(62, 80, "cpu", "backward"),
    ]
    assert "thread 4711" in evidence(trace_of(builder), 0, 100)[1]


def test_a_launch_is_shown_on_the_thread_that_made_it() -> None:
    """The main thread explains the time before the launch call; the autograd thread explains the call.

    ::

        GPU       ####............EEEE
        autograd    wwwwwwww rrrr
        main
    """
    builder = ExportBuilder().range("backward", -100, 200).kernel(-90, -80, launched=(-99, -98))
    builder.kernel(0, 20, launched=(0, 1), thread=AUTOGRAD).kernel(80, 100, launched=(50, 70), thread=AUTOGRAD)
    builder.os_call("pthread_cond_wait", 2, 49, thread=AUTOGRAD).call("cudaGetDevice", 150, 151)
    assert evidence(trace_of(builder), 0, 100) == [
        "thread 4711 runs code outside CUDA calls",
        "cudaLaunchKernel is open on thread 4712",
        "launched by cudaLaunchKernel on thread 4712, not begun yet",
    ]


def test_the_phase_is_the_innermost_on_the_launching_thread() -> None:
    """A phase of the launching thread comes before a phase of the main thread. It changes in the middle of the gap.

    ::

        GPU       ####............EEEE
        main      [forward           ]
        autograd      [optim ]    r
    """
    builder = ExportBuilder().range("forward", 0, 100).range("optimizer", 20, 50, thread=AUTOGRAD)
    builder.kernel(0, 20, launched=(0, 1)).kernel(80, 100, launched=(80, 82), thread=AUTOGRAD)
    assert explained(trace_of(builder), 0, 100) == [
        Piece(20, 50, "cpu", "optimizer"),
        Piece(50, 80, "cpu", "forward"),
    ]


def test_calls_of_a_peer_with_the_same_ids_are_not_ours() -> None:
    """Two ranks use the same correlation ids and thread numbers, in different processes.

    ::

        GPU 0   ####............EEEE
        rank 0                  r
        rank 1  rrrrrrrrrrrrrrrrr       of its own kernel on GPU 1, with the id of E
    """
    builder = ExportBuilder().range("forward", 0, 100).kernel(0, 20, launched=(0, 1), correlation=1)
    builder.kernel(80, 100, launched=(80, 82), correlation=2)
    builder.kernel(85, 95, launched=(0, 84), correlation=2, process=PEER, device=1)
    builder.call("cudaMalloc", 20, 80, thread=PEER_MAIN).os_call("pthread_mutex_lock", 20, 80, thread=PEER_MAIN)
    builder.overhead("CUPTI Buffer flush", 20, 80, thread=PEER_MAIN).range("data", 0, 100, thread=PEER_MAIN)
    trace = trace_of(builder)
    assert explained(trace, 0, 100) == [Piece(20, 80, "cpu", "forward")]
    assert explained(trace, 0, 100, device=1)[0] == Piece(0, 84, "launch", "data")


def test_an_opaque_graph_of_a_peer_blinds_nothing_of_ours() -> None:
    """The graph runs on the peer's GPU, so our idle time is still traced."""
    trace = trace_of(gap().call("cudaGraphLaunch", 30, 35, thread=PEER_MAIN, correlation=1))
    assert explained(trace, 0, 100) == [Piece(20, 80, "cpu", "forward")]


def test_two_processes_on_one_gpu_share_its_gaps() -> None:
    """The gap belongs to the device, and the process that ends it explains it.

    ::

        GPU 0   ####............PPPP    P: the peer's kernel
    """
    builder = ExportBuilder().range("forward", 0, 100).kernel(0, 20, launched=(0, 1))
    builder.kernel(80, 100, launched=(80, 82), process=PEER).range("data", 0, 100, thread=PEER_MAIN)
    builder.os_call("poll", 10, 80, thread=PEER_MAIN)
    assert explained(trace_of(builder), 0, 100) == [Piece(20, 80, "data_wait", "data")]


def test_renumbered_devices_are_the_physical_ones() -> None:
    """Two processes both use a device 0, which CUDA_VISIBLE_DEVICES maps to two GPUs. Each GPU has its own gaps."""
    builder = ExportBuilder().gpu(0).gpu(1).gpu(2).visible_device(0, 2).visible_device(0, 1, pid=5000)
    builder.kernel(0, 20, launched=(0, 1)).kernel(80, 100, launched=(80, 82))
    builder.kernel(20, 80, launched=(10, 11), process=PEER)
    idle = idle_section(trace_of(builder), 0, 100).tables["attribution"]
    assert idle.groupby("device_id")["idle_ns"].sum().to_dict() == {1: 40, 2: 60}


def test_an_operation_without_length_neither_splits_nor_ends_a_gap() -> None:
    """One such operation lies inside the gap. Another thread launches a second one at the end of the gap.

    ::

        GPU   ####.....|......|EEEE
    """
    builder = gap().kernel(50, 50, launched=(45, 47))
    builder.kernel(80, 80, launched=(20, 80), thread=AUTOGRAD)
    assert explained(trace_of(builder), 0, 100) == [Piece(20, 80, "cpu", "forward")]


def test_gaps_are_counted_once_for_each_rule_cause_and_phase() -> None:
    """A gap with CPU time before and after an allocation is one gap of CPU time."""
    found = idle_section(trace_of(gap().call("cudaMalloc", 40, 60)), 0, 100).tables["attribution"]
    names = ["rule", "cause", "phase", "idle_ns", "gap_count"]
    assert found[names].values.tolist() == [
        ["idle/cpu", "cpu", "forward", 40, 1],
        ["idle/allocation", "allocation", "forward", 20, 1],
    ]
