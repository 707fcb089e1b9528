"""Waits for threads that the main thread wakes are its own work; waits for a loader in the background are not."""

from collections.abc import Callable

import pytest
from export_builder import MAIN, ExportBuilder, trace_of
from real_captures import RealReport
from savings import saving_of

from nsyswrap.base.intervals import Spans, Window
from nsyswrap.loop.context import find_context, find_states
from nsyswrap.loop.helper_threads import find_helped
from nsyswrap.trace.tables import Trace

US = 1000
STEP, STEPS = 10_000 * US, 4
HELPER, OTHER = MAIN + 1, MAIN + 2
Fill = Callable[[ExportBuilder, int], object]


def sleeps(builder: ExportBuilder, thread: int, start: int, end: int, name: str = "futex") -> None:
    """Let a thread sleep, times in us."""
    builder.os_call(name, start * US, end * US, thread=thread)


def helper(builder: ExportBuilder, at: int) -> None:
    """Sleep until the main thread asks at 1 ms of each step, and work until 5 ms."""
    sleeps(builder, HELPER, at - 5000, at + 1000)


def helper_at_once(builder: ExportBuilder, at: int) -> None:
    """Answer at once: what the main thread waits for happens elsewhere."""
    sleeps(builder, HELPER, at - 5000, at + 1000)
    sleeps(builder, HELPER, at + 1100, at + 4900)


def idle(builder: ExportBuilder, at: int) -> None:
    """Sleep for the whole step."""
    sleeps(builder, OTHER, at - 500, at + 9500)


def loader(builder: ExportBuilder, at: int) -> None:
    """Work from before the step to 5 ms, and then sleep."""
    sleeps(builder, OTHER, at + 5000, at + 9000)


def of_python(builder: ExportBuilder, at: int) -> None:
    """Wait for the interpreter's lock while the main thread holds it: a thread that wants to run."""
    sleeps(builder, OTHER, at - 4000, at + 1000, "pthread_cond_timedwait")


def timer(builder: ExportBuilder, at: int) -> None:
    """Sleep for a second at a time."""
    sleeps(builder, OTHER, at - 9000, at + 991_000, "pthread_cond_timedwait")


def job(*fills: Fill, until: int = 5000) -> ExportBuilder:
    """Return a loop whose main thread waits from 1 to 5 ms of each step in its data phase, and then launches a kernel.

    ::

        main     |data: |......waits......|  |forward: launch|
        us       0      1000           5000  6000
    """
    builder = ExportBuilder()
    for at in range(10_000, 10_000 * (STEPS + 1), 10_000):
        builder.range("batch", at * US, (at + 9000) * US).range("data", at * US, (at + 5500) * US)
        builder.range("forward", (at + 6000) * US, (at + 8000) * US)
        builder.kernel((at + 6100) * US, (at + 7000) * US, launched=((at + 6000) * US, (at + 6050) * US))
        sleeps(builder, MAIN, at + 1000, at + until)
        for fill in fills:
            fill(builder, at)
    for thread in (HELPER, OTHER):
        sleeps(builder, thread, 1, 2)
        sleeps(builder, thread, 10_000 * (STEPS + 2), 10_000 * (STEPS + 3))
    return builder


def helped(trace: Trace) -> dict[int, Spans]:
    """Return the waits for helpers of each main thread."""
    return dict(find_helped(trace, find_context(trace).phases))


@pytest.mark.parametrize("others", [(), (timer,)])
def test_a_wait_for_a_thread_that_slept_before_is_own_work(others: tuple[Fill, ...]) -> None:
    """It is the same beside a thread that only looks at something now and then."""
    trace = trace_of(job(helper, idle, *others))
    found = helped(trace)
    assert set(found) == {MAIN}
    starts = [(at + 1000) * US for at in range(10_000, 10_000 * (STEPS + 1), 10_000)]
    assert found[MAIN].start.tolist() == starts
    states = find_states(find_context(trace), Window(0, 100_000 * US, "all", "session"))
    assert not len(states.waits(MAIN).start)


@pytest.mark.parametrize("fills", [(loader,), (helper, loader), (of_python, helper), (helper_at_once,)])
def test_a_wait_for_others_stays_a_wait(fills: tuple[Fill, ...]) -> None:
    """A loader works before the step begins; a thread that answers at once does not do the work."""
    trace = trace_of(job(*fills))
    assert helped(trace) == {}
    states = find_states(find_context(trace), Window(0, 100_000 * US, "all", "session"))
    assert len(states.waits(MAIN).start) == STEPS


@pytest.mark.parametrize(("asleep", "is_helped"), [(2100, False), (1900, True)])
def test_a_helper_works_for_more_than_half_of_the_wait(asleep: int, *, is_helped: bool) -> None:
    """The main thread waits for 4 ms."""
    rests = job(helper, idle, lambda builder, at: sleeps(builder, HELPER, at + 1000, at + 1000 + asleep))
    assert (MAIN in helped(trace_of(rests))) is is_helped


@pytest.mark.parametrize(("length", "is_helped"), [(90, False), (110, True)])
def test_a_short_wait_is_for_nobody(length: int, *, is_helped: bool) -> None:
    """The lock is free after 90 or 110 us."""
    assert (MAIN in helped(trace_of(job(helper, idle, until=1000 + length)))) is is_helped


def test_a_process_with_loader_processes_has_no_helpers() -> None:
    builder = job(helper, idle)
    assert helped(trace_of(builder.thread_name(OTHER, "pt_data_pin"))) == {}


def test_threads_of_the_profiler_and_of_the_driver_do_not_count() -> None:
    """Here such a thread is awake all the time."""
    builder = job(helper, loader).thread_name(OTHER, "CUPTI worker thread")
    assert set(helped(trace_of(builder))) == {MAIN}


def test_the_saving_of_a_tokenizer_with_threads_is_near_the_measured_one(real_report: RealReport) -> None:
    """Without the tokenizer, a step is shorter by 42 %; its threads work while the main thread waits for them."""
    slow, fixed = (real_report(f"host/tokenized_on_gpu{form}") for form in ("", "-fixed"))
    assert slow.step.recorded_ns is not None
    assert fixed.step.recorded_ns is not None
    assert slow.step.count is not None
    first = slow.findings[0]
    assert first.rule == "host/tokenizer"
    saved = (slow.step.recorded_ns - fixed.step.recorded_ns) * slow.step.count
    assert saving_of(first).high == pytest.approx(saved, rel=0.25)
