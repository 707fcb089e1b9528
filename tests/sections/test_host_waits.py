"""Waits of the threads that launch work: by call and phase, sums that are the window, and real captures."""

import pytest
from analysis_fixtures import run_section, window
from export_builder import ExportBuilder, global_id, thread, trace_of
from real_captures import RealContext, of_captures

from nsyswrap.loop.context import find_context
from nsyswrap.model import Section
from nsyswrap.report import choose_window
from nsyswrap.sections import host_waits
from nsyswrap.trace.tables import Trace

AUTOGRAD, SLEEPER = thread(4712), thread(4713)
SPLIT = ["wait_ns", "cuda_call_ns", "rest_ns", "unseen_ns"]


def section_of(trace: Trace, start: int = 0, end: int = 1000) -> Section:
    return run_section(host_waits, find_context(trace), window(start, end))


def waits(trace: Trace, start: int = 0, end: int = 1000) -> list[tuple[int, str, str, int, int]]:
    """Return thread, call, phase, time and count of each row."""
    table = section_of(trace, start, end).tables["waits"]
    columns = ("thread_id", "call", "phase", "total_ns", "count")
    return list(zip(*(table[name].tolist() for name in columns), strict=True))


def split(trace: Trace, row: int = 0, start: int = 0, end: int = 1000) -> list[int]:
    """Return the parts of one thread's time: waits, CUDA calls, the rest, not traced."""
    return [int(each) for each in section_of(trace, start, end).tables["threads"].iloc[row][SPLIT]]


def launching() -> ExportBuilder:
    """Return a main thread with events from 0 to 1000 that launches one kernel in its first 10 ns."""
    return ExportBuilder().kernel(20, 900, launched=(0, 10)).call("cudaGetDevice", 990, 1000)


def test_a_wait_is_listed_by_call_and_phase() -> None:
    builder = launching().range("data", 100, 400).os_call("sem_clockwait", 150, 350)
    assert waits(trace_of(builder)) == [(4711, "sem_clockwait", "data", 200, 1)]


def test_a_wait_across_two_phases_counts_in_both() -> None:
    """Its time is divided between the phases.

    ::

        phase   |data----|forward|
        wait        |-------|         then none
    """
    builder = launching().range("data", 100, 300).range("forward", 300, 400).os_call("poll", 200, 450)
    assert waits(trace_of(builder)) == [
        (4711, "poll", "data", 100, 1),
        (4711, "poll", "forward", 100, 1),
        (4711, "poll", "none", 50, 1),
    ]


def test_a_thread_without_ranges_has_the_main_threads_phase() -> None:
    builder = launching().range("forward", 0, 500).kernel(900, 950, launched=(600, 610), thread=AUTOGRAD)
    builder.os_call("pthread_cond_wait", 100, 400, thread=AUTOGRAD)
    assert waits(trace_of(builder)) == [(4712, "pthread_cond_wait", "forward", 300, 1)]


def test_a_thread_that_launches_nothing_is_left_out() -> None:
    """A pool that sleeps and a watchdog that polls the GPU launch no work."""
    builder = launching().os_call("pthread_cond_wait", 0, 1000, thread=SLEEPER)
    section = section_of(trace_of(builder.call("cudaEventQuery", 100, 110, thread=SLEEPER)))
    assert section.tables["threads"]["thread_id"].tolist() == [4711]
    assert len(section.tables["waits"]) == 0


def test_work_in_the_operating_system_is_no_wait() -> None:
    """A call that maps memory does work, and a call of poll waits."""
    assert waits(trace_of(launching().os_call("mmap", 100, 200))) == []


def test_a_wait_inside_a_cuda_call_belongs_to_the_call() -> None:
    builder = launching().call("cudaStreamSynchronize", 200, 600).os_call("poll", 250, 700)
    trace = trace_of(builder)
    assert waits(trace) == [(4711, "poll", "none", 100, 1)]
    assert split(trace) == [100, 10 + 10 + 400, 480, 0]


def test_a_threads_time_splits_into_the_window() -> None:
    """The autograd thread has its first event at 300 and its last at 700.

    ::

        autograd         cc..wwwwwwww......o
        window   |0      300 320 400 500   700     1000|
    """
    builder = launching().kernel(900, 950, launched=(300, 320), thread=AUTOGRAD)
    builder.os_call("pthread_cond_wait", 400, 500, thread=AUTOGRAD).os_call("mmap", 690, 700, thread=AUTOGRAD)
    trace = trace_of(builder)
    assert split(trace, 0) == [0, 20, 980, 0]
    assert split(trace, 1) == [100, 20, 280, 600]


def test_threads_have_their_names_and_launches() -> None:
    builder = launching().thread_name(AUTOGRAD, "pt_autograd_0").os_call("poll", 100, 200)
    builder.kernel(900, 920, launched=(300, 320), thread=AUTOGRAD).kernel(
        920, 950, launched=(320, 340), thread=AUTOGRAD
    )
    table = section_of(trace_of(builder)).tables["threads"]
    assert table[["thread_id", "thread", "launch_count"]].to_numpy().tolist() == [
        [4711, "", 1],
        [4712, "pt_autograd_0", 2],
    ]


def test_launches_outside_the_window_do_not_count() -> None:
    """A thread that launched only before the window is not a launching thread in it."""
    builder = launching().kernel(900, 950, launched=(300, 320), thread=AUTOGRAD)
    assert section_of(trace_of(builder), 200, 1000).tables["threads"]["thread_id"].tolist() == [4712]


def test_where_nobody_launches_all_who_ever_did_are_shown() -> None:
    """A window with waits only still shows the thread and the call of each wait."""
    trace = trace_of(launching().os_call("poll", 100, 900))
    assert waits(trace, 200, 800) == [(4711, "poll", "none", 600, 1)]
    assert section_of(trace, 200, 800).tables["threads"]["launch_count"].tolist() == [0]


def test_each_process_has_its_own_rows() -> None:
    other = global_id(99, 4711)
    builder = launching().os_call("poll", 100, 200).os_call("poll", 100, 150, thread=other)
    builder.kernel(900, 950, process=global_id(99), thread=other, launched=(0, 10))
    table = section_of(trace_of(builder)).tables["waits"]
    assert table[["process_id", "total_ns"]].to_numpy().tolist() == [[4711, 100], [99, 50]]


@of_captures(["cnn_amp", "alexnet_data_parallel_2gpu", "bench_source", "cnn_fp32_nsys2023"])
@pytest.mark.parametrize("wanted", ["", "all"])
def test_real_threads_split_into_the_window_and_their_waits_add_up(
    name: str, wanted: str, real_context: RealContext
) -> None:
    context = real_context(name)
    chosen = choose_window(context, wanted)
    section = run_section(host_waits, context, chosen)
    threads, by_call = section.tables["threads"], section.tables["waits"]
    assert (threads[SPLIT].to_numpy() >= 0).all()
    assert (threads[SPLIT].sum(axis="columns") == chosen.length_ns).all()
    by_thread = by_call.groupby(["process_id", "thread_id"])["total_ns"].sum()
    for row in threads.to_dict("records"):
        assert by_thread.get((row["process_id"], row["thread_id"]), 0) == row["wait_ns"]
    assert section.fact("wait_ns").value == by_call["total_ns"].sum()  # type: ignore[union-attr]
