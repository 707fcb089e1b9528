"""A wait for a CUDA event waits for the last operation before the record, and not for the last one launched."""

import numpy as np
import pytest
from analysis_fixtures import window
from export_builder import MAIN, PROCESS, ExportBuilder, thread, trace_of
from simulations import simulate_trace

from nsyswrap.base.intervals import Spans
from nsyswrap.loop.context import find_context, find_states
from nsyswrap.trace.tables import CALLS, NO_ID, Trace, array
from nsyswrap.what_if.cpu_nodes import HostSources, find_host
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.gpu_nodes import queue_operations
from nsyswrap.what_if.sync_waits import Recorded, find_recorded

RECORDS, WAITS = "CUPTI_ACTIVITY_KIND_CUDA_EVENT", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
END = 400


class Program(ExportBuilder):
    """An export with calls that record events and wait for them."""

    def recorded(self, event: int, at: int, **columns: int) -> "Program":
        """Record an event, in stream 7 of GPU 0 by default."""
        self.call("cudaEventRecord", at, at + 2, correlation=at + 10_000, thread=columns.pop("thread", MAIN))
        common = {"device": 0, "stream": 7, "process": PROCESS, "correlation": at + 10_000, "eventId": event}
        return self.row(RECORDS, **common | columns)

    def waited(self, event: int, start: int, end: int, name: str = "cudaEventSynchronize") -> "Program":
        self.call(name, start, end, correlation=start + 20_000)
        columns = {"start": start, "end": end, "process": PROCESS, "correlation": start + 20_000, "eventId": event}
        return self.row(WAITS, device=0, stream=NO_ID, **columns)


def two_kernels() -> Program:
    """Return a program that launches two kernels of 100 ns, one after the other: they end at 120 and at 221."""
    program = Program()
    program.kernel(20, 120, launched=(10, 14), stream=7).kernel(121, 221, launched=(40, 44), stream=7)
    return program


def found(trace: Trace) -> Recorded:
    """Return the known operations that the waits of a program wait for."""
    context = find_context(trace)
    whole = window(0, END)
    rows = np.flatnonzero(context.operations.call >= 0)
    states = find_states(context, whole)
    nodes = find_host(HostSources(trace, context.operations, context.phases, states, whole), rows)
    queued = queue_operations(trace, context.operations, nodes, rows, rows[:0])
    launched = array(trace[CALLS], "start")[context.operations.call]
    return find_recorded(trace, context.operations, nodes, queued, launched)


def test_a_wait_is_for_the_operations_launched_before_the_record() -> None:
    assert found(trace_of(two_kernels().recorded(5, 30).waited(5, 240, 243))).operation.tolist() == [0]
    assert found(trace_of(two_kernels().recorded(5, 50).waited(5, 240, 243))).operation.tolist() == [1]


def test_an_event_that_is_recorded_again_is_another() -> None:
    """The last record before the wait counts, and records after it do not."""
    program = two_kernels().recorded(5, 30).recorded(5, 50).recorded(6, 30).waited(5, 240, 243).recorded(5, 300)
    assert found(trace_of(program)).operation.tolist() == [1]


def test_a_wait_is_not_for_an_operation_that_ended_after_it() -> None:
    """The kernel runs for 30 µs after the wait, because another thread recorded the event during the launch."""
    program = Program().kernel(20, 30_120, launched=(10, 90), stream=7)
    assert not len(found(trace_of(program.recorded(5, 30, thread=thread(4712)).waited(5, 240, 243))).node)


def test_without_a_record_nothing_is_known() -> None:
    """Nothing is known of waits for streams either. They are in the same table, with an id that no event has."""
    assert not len(found(trace_of(two_kernels().waited(5, 240, 243))).node)
    assert not len(found(trace_of(two_kernels().recorded(5, 30))).node)
    other = two_kernels().recorded(5, 30).waited(4_294_967_295, 240, 243, "cudaStreamSynchronize")
    assert not len(found(trace_of(other)).node)


@pytest.mark.parametrize(("recorded", "saved"), [(30, 361 - 242), (50, 361 - 339)])
def test_a_host_that_gets_ahead_is_held_by_the_event(recorded: int, saved: int) -> None:
    """The host works from 52 to 240. Without that work it waits for the event's kernel, until 120 or until 221.

    After the wait the host needs 92 ns to launch the last kernel, which takes 20 ns. It begins 6 ns after its launch,
    at 319, if the wait ends at 221. If the wait ends at 120, it begins when the second kernel is done, at 222.
    """
    program = two_kernels().recorded(5, recorded).waited(5, 240, 243).kernel(341, 361, launched=(331, 335), stream=7)
    simulation = simulate_trace(trace_of(program), window(0, END))
    assert simulation.predicts
    assert simulation.saving(Change(host=Spans(np.array([52]), np.array([240])))) == saved
