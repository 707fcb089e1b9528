"""What each finding's change takes out of a run, on traces that can be checked by eye."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from analysis_fixtures import window
from export_builder import DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE, MAIN, PAGEABLE, ExportBuilder, thread

from nsyswrap.events.operations import COPY
from nsyswrap.intervals import Spans, Window
from nsyswrap.loop.context import TraceContext, find_context
from nsyswrap.tables import Trace
from nsyswrap.what_if import changes
from nsyswrap.what_if.changes import WhatIf, gains

TraceOf = Callable[[ExportBuilder], Trace]
US = 1_000
WHOLE = window(0, 1_000 * US)


def turns(each: Callable[[ExportBuilder, int], object], count: int = 5) -> ExportBuilder:
    """Five turns of 100 µs, each with a kernel of 5 µs at its start, and what else is asked for."""
    builder = ExportBuilder()
    for number in range(count):
        at = number * 100 * US
        builder.kernel(at + 10 * US, at + 15 * US, launched=(at, at + 4 * US))
        each(builder, at)
    return builder.kernel(count * 100 * US + 10 * US, count * 100 * US + 15 * US, launched=_call(count * 100 * US))


def _call(at: int) -> tuple[int, int]:
    return at, at + 4 * US


def gained(trace: Trace, what: Callable[[TraceContext, Window], WhatIf]) -> tuple[int, int]:
    """What a change gains, in µs."""
    low, high, said = gains(find_context(trace), WHOLE, what)
    assert low is not None
    assert high is not None
    assert said[0].startswith("gain by simulation: ")
    return round(low / US), round(high / US)


@pytest.mark.parametrize(
    ("cause", "call"),
    [("allocation", "cudaMalloc"), ("module_load", "cuModuleLoadData"), ("allocation", "cudaHostAlloc")],
)
def test_time_in_calls_that_need_not_be_is_saved(cause: str, call: str, trace_of: TraceOf) -> None:
    """Five calls of 60 µs."""
    trace = trace_of(turns(lambda builder, at: builder.call(call, at + 20 * US, at + 80 * US)))
    assert gained(trace, changes.OF_CAUSE[cause]) == (150, 300)


def test_a_free_that_waits_for_the_gpu_hides_its_work(trace_of: TraceOf) -> None:
    """The call lasts until the kernel of 60 µs has ended: without it the kernels are still to be run."""

    def each(builder: ExportBuilder, at: int) -> None:
        builder.kernel(at + 30 * US, at + 90 * US, launched=_call(at + 20 * US))
        builder.call("cudaFree", at + 25 * US, at + 92 * US)

    low, high = gained(trace_of(turns(each)), changes.OF_CAUSE["allocation"])
    assert 0 <= low < high < 515 - 5 * 65


def test_waiting_for_a_lock_is_saved_on_the_thread_that_waits(trace_of: TraceOf) -> None:
    other = thread(4712)
    trace = trace_of(
        turns(lambda builder, at: builder.os_call("pthread_mutex_lock", at + 20 * US, at + 60 * US))
        .os_call("pthread_mutex_lock", 0, 500 * US, thread=other)
        .kernel(516 * US, 517 * US, launched=(500 * US, 502 * US), thread=other)
    )
    assert gained(trace, changes.OF_CAUSE["lock"])[1] == 200


def test_a_thread_that_is_off_the_cpu_comes_back_sooner(trace_of: TraceOf) -> None:
    def each(builder: ExportBuilder, at: int) -> None:
        builder.scheduled(at + 20 * US, running=False).scheduled(at + 50 * US, running=True)

    assert gained(trace_of(turns(each)), changes.OF_CAUSE["off_cpu"]) == (75, 150)


def test_a_gain_is_no_more_than_what_its_finding_costs() -> None:
    assert changes.Gains(5, 30, ("said",)).within(20) == (5, 20, ("said",))
    assert changes.Gains(25, 30, ()).within(20) == (10, 20, ())
    assert changes.Gains(None, None, ()).within(20) == (None, None, ())


def test_loading_and_launching_are_shortened_by_themselves(trace_of: TraceOf) -> None:
    """Of each turn 4 µs are the launch, 36 µs the data phase and 60 µs host code."""
    trace = trace_of(turns(lambda builder, at: builder.range("data", at + 4 * US, at + 40 * US)))
    host = Spans(np.arange(5) * 100 * US + 40 * US, np.arange(5) * 100 * US + 100 * US)
    assert gained(trace, lambda *_: changes.idle_host({MAIN: host})) == (150, 300)
    assert gained(trace, changes.OF_CAUSE["data_work"]) == (90, 180)
    assert gained(trace, changes.OF_CAUSE["launch"]) == (12, 24)


def test_launching_all_at_once_leaves_loading_and_the_gpu(trace_of: TraceOf) -> None:
    """Of 515 µs, 5 times 36 are loading, and kernels take 5 each, with a latency of 6 behind the last launch."""
    trace = trace_of(turns(lambda builder, at: builder.range("data", at + 4 * US, at + 40 * US)))
    assert gained(trace, changes.one_launch)[1] == 515 - (5 * 36 + 6 + 5)


def test_operations_begin_at_once(trace_of: TraceOf) -> None:
    assert gained(trace_of(turns(lambda *_: None)), changes.OF_CAUSE["queued"]) == (0, 6)


def reading_back(builder: ExportBuilder, at: int) -> None:
    """Read a number back, as ``.item()`` does: a copy to the host, and a wait for its stream."""
    builder.copy(
        *(at + 30 * US, at + 32 * US, DEVICE_TO_HOST),
        launched=(at + 20 * US, at + 24 * US),
    )
    builder.call("cudaStreamSynchronize", at + 25 * US, at + 34 * US)


def test_a_wait_that_is_not_made_lets_the_host_run_on(trace_of: TraceOf) -> None:
    """Each of five waits holds the host for 5 µs beyond its call of 4."""
    low, high = gained(trace_of(turns(reading_back)), changes.OF_CAUSE["synchronization"])
    assert 20 <= low <= 30
    assert low <= high <= 5 * 9


def test_blocking_copies_run_at_the_rate_of_pinned_ones(trace_of: TraceOf) -> None:
    """A pageable copy of 1 MiB takes 73 µs, a pinned one 10 µs: at most the copy takes that, and holds nobody."""

    def each(builder: ExportBuilder, at: int) -> None:
        called, ran = (at + 5 * US, at + 90 * US), (at + 15 * US, at + 88 * US)
        builder.copy(*ran, HOST_TO_DEVICE, launched=called, bytes=1 << 20, srcKind=PAGEABLE, dstKind=DEVICE)

    builder = turns(each).copy(700 * US, 710 * US, bytes=1 << 20, launched=(690 * US, 694 * US))
    context = find_context(trace_of(builder))
    what = changes.blocking_copies(context, window(0, 600 * US))
    assert np.allclose(what.high.factor, 10 / 73)
    low, high, _ = gains(context, window(0, 600 * US), changes.blocking_copies)
    assert low is not None
    assert high is not None
    assert 0 < low < high


def test_exposed_copies_are_hidden_by_half_or_whole(trace_of: TraceOf) -> None:
    """A copy of 60 µs before the kernel of each turn, all launched ahead."""
    builder, free = ExportBuilder(), 10 * US
    for number in range(5):
        at = number * 10 * US
        builder.copy(free, free + 60 * US, launched=_call(at)).kernel(
            free + 61 * US, free + 91 * US, launched=_call(at + 5 * US)
        )
        free += 92 * US
    beside = partial(changes.beside_kernels, kind=COPY, named="copies")
    low, high = gained(trace_of(builder), partial(beside, device=0))
    assert low == 150
    assert 270 <= high <= 305
    assert gained(trace_of(builder), partial(beside, device=1)) == (0, 0)


def test_nothing_is_asked_where_nothing_can_be_predicted(trace_of: TraceOf) -> None:
    def never(*_: object) -> WhatIf:
        raise AssertionError

    found = gains(find_context(trace_of(ExportBuilder().kernel(0, 10))), WHOLE, never)
    assert found == (None, None, ("no gain is given: the simulation cannot predict this run",))
