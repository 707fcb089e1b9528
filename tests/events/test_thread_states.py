"""The states of threads are immutable and do not depend on the order of requests."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from analysis_fixtures import window
from export_builder import ExportBuilder, thread, trace_of

from nsyswrap.base.intervals import total
from nsyswrap.events.operations import find_operations
from nsyswrap.events.thread_states import NAMES, NO_NAME, ThreadStates, find_thread_states
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace

US = 1_000
WHOLE = window(0, 1_000 * US)
THREADS = [thread(100 + number) for number in range(6)]


def busy() -> ExportBuilder:
    """Return six threads that launch, wait, and each make a call that no other thread makes."""
    builder = ExportBuilder().gpu()
    for number, its in enumerate(THREADS):
        begun = (number + 1) * US
        builder.kernel(begun, begun + US, launched=(begun - 9, begun - 5), thread=its)
        builder.os_call("poll", 20 * US, 40 * US, thread=its)
        builder.call(f"cudaMalloc{number}", 60 * US, (70 + number) * US, thread=its)
        builder.os_call(f"task{number}", 200 * US, 300 * US, thread=its)
    return builder


def states_of(trace: Trace, threads: list[int]) -> ThreadStates:
    return find_thread_states(trace, find_operations(trace), WHOLE, threads)


def test_times_of_each_thread() -> None:
    """A launch of 4 ns, an allocation of 10 us and more, 20 us in poll; ``task0`` does not wait."""
    states = states_of(trace_of(busy()), THREADS)
    assert [total(states.in_cuda(each)) for each in THREADS] == [(10 + number) * US + 4 for number in range(6)]
    assert [states.waits(each).start.tolist() for each in THREADS] == [[20 * US]] * 6
    assert states.alive(THREADS[0]) == (US - 9, 300 * US)


def test_names_do_not_depend_on_the_requested_threads() -> None:
    trace = trace_of(busy())
    forward, backward, one = (states_of(trace, each) for each in (THREADS, THREADS[::-1], THREADS[3:4]))
    assert forward.names == backward.names == one.names == tuple(sorted(set(forward.names)))
    assert np.array_equal(forward.of(THREADS[3]).code, one.of(THREADS[3]).code)


def test_names_are_those_of_the_calls() -> None:
    trace = trace_of(busy())
    states = states_of(trace, THREADS)
    calls = trace[tables.CALLS]
    texts = [states.names[index] for index in states.names_of(tables.CALLS, np.arange(len(calls))).tolist()]
    assert texts == [trace.text(int(name)) for name in calls["name_id"]]
    used = np.concatenate([states.of(each).code % NAMES for each in THREADS])
    assert all(index == NO_NAME or index < len(states.names) for index in used.tolist())


def test_names_have_no_version() -> None:
    states = states_of(trace_of(ExportBuilder().gpu().call("cudaMalloc_v3020", 5, 10, thread=THREADS[0])), THREADS)
    assert states.names == ("cudaMalloc",)


def test_states_cannot_be_changed() -> None:
    states = states_of(trace_of(busy()), THREADS)
    with pytest.raises(FrozenInstanceError):
        states.names = ()  # type: ignore[misc]
    with pytest.raises(TypeError):
        states.activity[1] = states.activity[THREADS[0]]  # type: ignore[index]


def test_a_thread_without_events_has_no_states() -> None:
    silent = thread(999)
    states = states_of(trace_of(busy()), [silent])
    assert (len(states.of(silent).code), len(states.waits(silent).start), len(states.in_cuda(silent).start)) == (
        0,
        0,
        0,
    )
    assert states.alive(silent) == (0, 0)


def test_a_thread_that_was_not_requested_is_an_error() -> None:
    """Empty states would mean that the thread never waits."""
    states = states_of(trace_of(busy()), THREADS[:1])
    with pytest.raises(KeyError):
        states.of(THREADS[1])


def test_launching_threads_are_those_whose_calls_launch() -> None:
    trace = trace_of(busy().call("cudaMalloc", 5, 10, thread=thread(999)).kernel(900, 950))
    assert find_operations(trace).launching_threads.tolist() == sorted(THREADS)
