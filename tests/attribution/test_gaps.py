"""Which thread explains a gap: the one that launched its end, or a busier one where that only waited."""

import pytest
from analysis_fixtures import Piece, explained
from export_builder import ExportBuilder, thread, trace_of

AUTOGRAD = thread(4712)


def autograd_waits(until: int) -> ExportBuilder:
    """Return a gap from 20 to 80 that autograd's thread ends; it waits from 2 on. The main thread launched before."""
    builder = ExportBuilder().range("backward", -100, 200).kernel(-90, -80, launched=(-99, -98))
    builder.kernel(0, 20, launched=(0, 1), thread=AUTOGRAD).kernel(80, 100, launched=(80, 82), thread=AUTOGRAD)
    return builder.os_call("pthread_cond_wait", 2, until, thread=AUTOGRAD).call("cudaGetDevice", 150, 151)


@pytest.mark.parametrize(("until", "allocated"), [(46, (30, 46)), (54, (30, 70))])
def test_a_thread_that_waits_for_more_than_half_of_a_gap_explains_nothing_of_it(
    until: int, allocated: tuple[int, int]
) -> None:
    """The gap is from 20 to 80; the main thread allocates from 30 to 70. A shorter wait is explained by itself."""
    trace = trace_of(autograd_waits(until).call("cudaMalloc", 30, 70))
    pieces = explained(trace, 0, 100)
    assert [(piece.start, piece.end) for piece in pieces if piece.cause == "allocation"] == [allocated]


@pytest.mark.parametrize(("until", "last"), [(46, 70), (54, 78)])
def test_a_thread_that_waits_for_more_than_half_of_a_gap_too_does_not_explain_it(until: int, last: int) -> None:
    """The main thread explains the gap from 20 to 80, or only what autograd waits for, which is until 78."""
    main_waits = autograd_waits(78).os_call("pthread_cond_wait", 10, until).call("cudaMalloc", 60, 70)
    assert explained(trace_of(main_waits), 0, 100)[-1] == Piece(last, 80, "cpu", "backward")


@pytest.mark.parametrize(("begun", "cause"), [(90_000, "queued"), (150_000, "not_traced")])
def test_what_runs_when_a_recording_begins_is_not_traced(begun: int, cause: str) -> None:
    """The first operation is launched at once. If it begins much later, the GPU still did what came before."""
    built = ExportBuilder().kernel(begun, begun + 100, launched=(0, 10)).kernel(begun + 200, begun + 300)
    assert explained(trace_of(built), 0, begun + 300)[-2].cause == cause
