"""A thread that is off its core: without a core, inside a call, or for a reason that was not traced.

In the drawings one character is 5 ns. ``#`` is the kernel before the gap, and ``E`` the kernel that ends it.
"""

import pytest
from analysis_fixtures import Piece, evidence, explained
from export_builder import ExportBuilder, thread, trace_of

AUTOGRAD = thread(4712)
MAIN_TID = 4711


def gap(phase: str = "forward") -> ExportBuilder:
    """Return a gap from 20 to 80 between two kernels, and one range around everything."""
    return ExportBuilder().range(phase, 0, 100).kernel(0, 20, launched=(0, 1)).kernel(80, 100, launched=(80, 82))


def test_a_thread_off_the_cpu_is_off_cpu() -> None:
    """The thread loses its core at 20, gets one again at 80, and has no call open in between.

    ::

        GPU   ####............EEEE
        CPU   ====            ====
    """
    builder = gap().scheduled(20, running=False).scheduled(80, running=True).os_call("read", 0, 1)
    trace = trace_of(builder)
    assert explained(trace, 0, 100) == [Piece(20, 80, "off_cpu", "forward")]
    assert evidence(trace, 0, 100) == [f"thread {MAIN_TID} has no CPU core"]


@pytest.mark.parametrize("call", ["call", "os_call"])
def test_a_thread_off_the_cpu_inside_a_call_is_not_off_cpu(call: str) -> None:
    """The call is the reason why the thread is off its core, even if the call has no cause of its own."""
    builder = gap().scheduled(20, running=False).scheduled(80, running=True)
    getattr(builder, call)("cudaEventRecord" if call == "call" else "ioctl", 15, 80)
    assert explained(trace_of(builder), 0, 100) == [Piece(20, 80, "cpu", "forward")]


def test_without_traced_system_calls_a_thread_off_the_cpu_may_wait_for_anything() -> None:
    """It may sleep: the capture does not show that it lacked a core, but it shows the wait."""
    trace = trace_of(gap().scheduled(20, running=False).scheduled(80, running=True))
    assert explained(trace, 0, 100) == [Piece(20, 80, "off_cpu", "forward")]
    assert evidence(trace, 0, 100) == [f"thread {MAIN_TID} waits, off the CPU, in a call that was not recorded"]


def test_a_thread_off_the_cpu_in_the_data_phase_waits_for_its_loader() -> None:
    """System calls are not traced. Without a loader the wait may be for anything."""
    builder = gap("data").scheduled(20, running=False).scheduled(80, running=True)
    assert explained(trace_of(builder), 0, 100) == [Piece(20, 80, "off_cpu", "data")]
    builder.thread_name(thread(6000, pid=6000), "pt_data_worker")
    assert explained(trace_of(builder), 0, 100) == [Piece(20, 80, "data_wait", "data")]


def test_switches_of_cores_show_that_a_thread_works_in_the_data_phase() -> None:
    """System calls are not traced. From 50 on the thread has a core, so it prepares the data itself."""
    builder = gap("data").scheduled(20, running=False).scheduled(50, running=True)
    assert explained(trace_of(builder), 0, 100) == [
        Piece(20, 50, "off_cpu", "data"),
        Piece(50, 80, "data_work", "data"),
    ]


def test_a_launching_thread_off_the_cpu_waits_for_the_main_thread() -> None:
    """System calls are not traced. From 20 to 50 the main thread computes, then it is off its core as well."""
    builder = ExportBuilder().range("backward", 0, 100).kernel(0, 20, launched=(0, 1), thread=AUTOGRAD)
    builder.kernel(80, 100, launched=(80, 82), thread=AUTOGRAD)
    builder.scheduled(20, running=False, thread=AUTOGRAD).scheduled(80, running=True, thread=AUTOGRAD)
    builder.scheduled(50, running=False).scheduled(90, running=True)
    assert explained(trace_of(builder), 0, 100) == [
        Piece(20, 50, "cpu", "backward"),
        Piece(50, 80, "off_cpu", "backward"),
    ]


def test_a_thread_that_is_never_put_back_is_off_to_the_end() -> None:
    """The thread stays off its core to the end, because the later events are those of another thread."""
    builder = gap().scheduled(60, running=False).scheduled(70, running=True, thread=AUTOGRAD).os_call("read", 0, 1)
    assert explained(trace_of(builder), 0, 100) == [
        Piece(20, 60, "cpu", "forward"),
        Piece(60, 80, "off_cpu", "forward"),
    ]
