"""An operation waits for the operation of another stream that came last before the record of an event."""

from collections.abc import Callable

import numpy as np
import pytest
from analysis_fixtures import window
from export_builder import MAIN, PROCESS, ExportBuilder, trace_of
from simulations import US, simulate, simulate_trace

from nsyswrap.base.intervals import Spans
from nsyswrap.events.operations import COMMUNICATION
from nsyswrap.loop.context import find_context
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace
from nsyswrap.what_if.dependency_graph import Change

END = 1_000
COMPUTING, SENDING = 7, 14


class Program(ExportBuilder):
    """An export with calls that record events, and calls that make a stream wait for them."""

    def recorded(self, event: int, at: int, stream: int = COMPUTING) -> "Program":
        self.call("cudaEventRecord", at, at + 2, correlation=at + 10_000, thread=MAIN)
        columns = {"process": PROCESS, "correlation": at + 10_000, "eventId": event, "device": 0}
        return self.row("CUPTI_ACTIVITY_KIND_CUDA_EVENT", stream=stream, **columns)

    def waits(self, event: int, at: int, stream: int = SENDING) -> "Program":
        self.call("cudaStreamWaitEvent", at, at + 2, correlation=at + 20_000, thread=MAIN)
        columns = {"start": at, "end": at + 2, "process": PROCESS, "correlation": at + 20_000, "eventId": event}
        return self.row("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", stream=stream, device=0, **columns)


def program(*, launched: int = 500) -> Program:
    """Return a program: a kernel until 220, another until 321, and a collective launched at 500 in another stream."""
    made = Program()
    made.kernel(20, 220, launched=(10, 14), stream=COMPUTING).kernel(221, 321, launched=(40, 44), stream=COMPUTING)
    made.kernel(launched + 10, launched + 60, "ncclDevKernel", launched=(launched, launched + 4), stream=SENDING)
    return made


def begins_at(made: Program) -> int:
    """Return when the collective begins if the host only makes its calls, in ns since the first launch."""
    simulation = simulate_trace(trace_of(made), window(0, END))
    assert simulation.predicts
    graph = simulation.graph
    happened = graph.run(Change(host=Spans(np.array([0]), np.array([END]))))
    collective = np.flatnonzero(graph.operation == simulation.operations.max())
    return int(happened[collective[0]] - graph.length[collective[0]])


def test_a_stream_waits_for_what_was_launched_before_the_record() -> None:
    first = begins_at(program().recorded(5, 30).waits(5, 60))
    second = begins_at(program().recorded(5, 50).waits(5, 60))
    assert second - first == 321 - 220
    assert begins_at(program()) < first, "without an event, nothing holds the collective"


def test_the_last_record_before_the_wait_counts() -> None:
    again = program().recorded(5, 30).recorded(5, 50).waits(5, 60).recorded(5, 480)
    assert begins_at(again) == begins_at(program().recorded(5, 50).waits(5, 60))


def test_a_wait_after_the_launch_does_not_hold_it() -> None:
    assert begins_at(program().recorded(5, 50).waits(5, 900)) == begins_at(program())


def test_collectives_of_a_real_job_wait_for_the_kernels_of_their_gradients(real_trace: Callable[[str], Trace]) -> None:
    """DDP records an event after the last kernel of a bucket, and the stream of NCCL waits for it."""
    context = find_context(real_trace("ddp_2gpu_slow_links"))
    assert len(context.trace[tables.EVENT_WAITS])
    simulation = simulate(context)
    graph, operations = simulation.graph, context.operations
    rows = graph.operation
    # A collective of several ranks arrives at one node and ends at another; only the end has its length.
    sent = np.flatnonzero((rows >= 0) & (operations.kind[rows] == COMMUNICATION) & (graph.length == 0))
    ready = graph.after[sent]
    # A collective with two conditions has a node before it. That node holds the condition other than the launch.
    awaited = graph.held_by[ready[rows[ready] < 0]]
    kinds = operations.kind[rows[awaited[rows[awaited] >= 0]]]
    assert len(kinds) > 0.9 * len(sent)
    assert (kinds != COMMUNICATION).all()


@pytest.mark.parametrize(("late", "waited"), [(8, False), (12, True)])
def test_a_kernel_that_is_10_us_late_waited_for_another_stream(late: int, *, waited: bool) -> None:
    """Kernels begin 6 µs after their launch, but the last one some µs later, when a kernel of another stream ends."""
    made = ExportBuilder()
    for at in range(0, 500 * US, 100 * US):
        made.kernel(at + 6 * US, at + 20 * US, launched=(at, at + 4 * US), stream=COMPUTING)
    end = (526 + late) * US
    made.kernel(506 * US, end, launched=(500 * US, 504 * US), stream=COMPUTING)
    made.kernel(end, end + 5 * US, launched=(520 * US, 524 * US), stream=SENDING)
    simulation = simulate_trace(trace_of(made), window(0, 1_000 * US))
    graph, rows = simulation.graph, simulation.operations
    last = np.flatnonzero(graph.operation == rows[-1])[0]
    recorded, shorter = (graph.run(*each)[last] for each in ((), (Change(operations=rows[-2:-1], factor=0.1),)))
    assert (shorter < recorded) == waited
