"""What threads do is asked by two analyses at once: both get the same, and no name gets another's number."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from analysis_fixtures import window
from export_builder import ExportBuilder, thread

from nsyswrap import tables
from nsyswrap.events import api_calls, thread_states
from nsyswrap.events.thread_states import NAMES, NO_NAME
from nsyswrap.intervals import total
from nsyswrap.loop.context import TraceContext
from nsyswrap.tables import Trace

TraceOf = Callable[[ExportBuilder], Trace]
US = 1_000
WHOLE = window(0, 1_000 * US)
ASKING, ROUNDS = 4, 5


@pytest.fixture
def slow_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let other threads run in the middle of what one of them works out."""

    def slowly(call: Callable[..., Any]) -> Callable[..., Any]:
        def slow(*arguments: Any) -> Any:  # noqa: ANN401 - whatever the call takes
            time.sleep(0.001)
            return call(*arguments)

        return slow

    monkeypatch.setattr(thread_states, "total", slowly(total))
    monkeypatch.setattr(api_calls, "base_name", slowly(api_calls.base_name))


def busy(threads: int) -> ExportBuilder:
    """Each thread launches, waits, and calls something of its own name."""
    builder = ExportBuilder().gpu()
    for number in range(threads):
        its = thread(100 + number)
        begun = (number + 1) * US
        builder.kernel(begun, begun + US, launched=(begun - 9, begun - 5), thread=its)
        builder.os_call("poll", 20 * US, 40 * US, thread=its)
        builder.call(f"cudaMalloc{number}", 60 * US, (70 + number) * US, thread=its)
        builder.os_call(f"wait{number}", 200 * US, 300 * US, thread=its)
    return builder


@pytest.mark.usefixtures("slow_steps")
def test_all_who_ask_at_once_get_the_same(trace_of: TraceOf) -> None:
    trace = trace_of(busy(6))
    threads = [thread(100 + number) for number in range(6)]
    alone = TraceContext(trace).states(WHOLE)
    wanted = {each: (alone.call_time(each), len(alone.waits(each).start)) for each in threads}
    assert [time for time, _ in wanted.values()] == [(10 + number) * US + 4 for number in range(6)]
    for _ in range(ROUNDS):
        context, begin = TraceContext(trace), Barrier(ASKING)

        def asked(first: int, context: TraceContext = context, begin: Barrier = begin) -> dict[int, tuple[int, int]]:
            begin.wait()
            order = [*threads[first:], *threads[:first]]
            states = context.states(WHOLE)
            return {each: (states.call_time(each), len(states.waits(each).start)) for each in order}

        with ThreadPoolExecutor(ASKING) as pool:
            assert all(found == wanted for found in pool.map(asked, range(ASKING)))


@pytest.mark.usefixtures("slow_steps")
def test_names_keep_their_numbers(trace_of: TraceOf) -> None:
    trace = trace_of(busy(6))
    for _ in range(ROUNDS):
        states, begin = TraceContext(trace).states(WHOLE), Barrier(ASKING)

        def named(first: int, begin: Barrier = begin, states: object = states) -> None:
            begin.wait()
            for number in range(6):
                states.of(thread(100 + (first + number) % 6))  # type: ignore[attr-defined]

        with ThreadPoolExecutor(ASKING) as pool:
            list(pool.map(named, range(ASKING)))
        calls = trace[tables.CALLS]
        rows = np.arange(len(calls))
        texts = [states.names[index] for index in states.names_of(tables.CALLS, rows).tolist()]
        assert texts == [trace.text(int(name)) for name in calls["name_id"]]
        used = np.concatenate([states.of(thread(100 + number)).code % NAMES for number in range(6)])
        assert all(index == NO_NAME or index < len(states.names) for index in used.tolist())
