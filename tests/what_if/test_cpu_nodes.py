"""The moments of the host in a simulation: which waits are for a batch, and which copies their calls wait for."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from analysis_fixtures import window
from export_builder import DEVICE_TO_HOST, ExportBuilder, trace_of
from simulations import US

from nsyswrap.loop.context import find_context, find_states
from nsyswrap.trace.tables import Trace
from nsyswrap.what_if.cpu_nodes import BATCH, RETURN, HostSources, find_host
from nsyswrap.what_if.sync_waits import _room

STEPS, STEP = 4, 1_000 * US


def spans_of(trace: Trace, kind: int) -> list[tuple[int, int]]:
    """Return begin and end, in µs, of the moments of a kind in the whole of a trace of steps."""
    context, whole = find_context(trace), window(0, STEPS * STEP)
    sources = HostSources(trace, context.operations, context.phases, find_states(context, whole), whole)
    nodes = find_host(sources, np.flatnonzero(context.operations.call >= 0))
    mine = nodes.kind == kind
    return list(zip((nodes.begun[mine] // US).tolist(), (nodes.moment[mine] // US).tolist(), strict=True))


def steps(*waits: tuple[int, int]) -> Trace:
    """Return steps of 1000 µs whose data phase of 600 µs has some waits, from and to µs; a kernel follows."""
    builder = ExportBuilder().gpu()
    for number in range(STEPS):
        at = number * STEP
        builder.range(f"batch {number}", at, at + STEP - 1).range("data", at, at + 600 * US)
        for start, end in waits:
            builder.os_call("poll", at + start * US, at + end * US)
        builder.kernel(at + 720 * US, at + 900 * US, launched=(at + 700 * US, at + 710 * US))
    return trace_of(builder)


@pytest.mark.parametrize(("length", "is_for_a_batch"), [(99, False), (100, True)])
def test_a_wait_of_a_tenth_of_the_time_between_batches_is_for_a_batch(length: int, *, is_for_a_batch: bool) -> None:
    """A shorter one only picks up a batch that was ready."""
    wanted = [(1000 * number + 50, 1000 * number + 50 + length) for number in range(STEPS)]
    assert spans_of(steps((50, 50 + length)), BATCH) == (wanted if is_for_a_batch else [])


@pytest.mark.parametrize(("awake", "begun"), [(100, 50), (101, 351)])
def test_a_thread_that_wakes_up_for_at_most_100_us_still_waits_for_its_batch(awake: int, begun: int) -> None:
    """Of two waits that are further apart, the longer one is for the batch."""
    found = spans_of(steps((50, 250), (250 + awake, 590)), BATCH)
    assert found == [(1000 * number + begun, 1000 * number + 590) for number in range(STEPS)]


@pytest.mark.parametrize(("later_ns", "blocks"), [(2_000, True), (2_001, False)])
def test_a_copy_that_ends_2_us_after_its_call_may_have_held_it(later_ns: int, *, blocks: bool) -> None:
    """The clocks of host and GPU differ by as much at most."""
    builder = ExportBuilder().gpu()
    builder.copy(30 * US, 90 * US + later_ns, DEVICE_TO_HOST, launched=(10 * US, 90 * US), call="cudaMemcpyAsync")
    assert spans_of(trace_of(builder), RETURN) == ([(10, 90)] if blocks else [])


@pytest.mark.parametrize(("returns", "holder"), [(35, 3), (25, 2), (15, 1), (5, -1)])
def test_a_launch_waits_for_room_in_a_queue_of_1022_to_1024_operations(returns: int, holder: int) -> None:
    """Kernels of 10 ns are launched at once; the call of the 1026th returns when the first, second or third ended."""
    launch = np.arange(1026)
    moment = np.append(np.zeros(1025, np.int64), returns)
    queued: Any = SimpleNamespace(stream=np.zeros(1026, np.intp), launch=launch, end=10 * launch)
    assert _room(SimpleNamespace(moment=moment), queued)[-1] == holder  # type: ignore[arg-type]
