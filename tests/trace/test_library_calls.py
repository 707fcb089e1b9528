"""Calls of MPI, UCX and OpenACC come from tables of their own, those of MPI also from its NVTX domain."""

from pathlib import Path

import pytest
from export_builder import MAIN, START_END, ExportBuilder, thread, trace_of

from nsyswrap.trace.load import load_export
from nsyswrap.trace.redact import redact
from nsyswrap.trace.tables import LIBRARY_CALLS, Trace, array, coded

NAMED = (
    *("MPI_P2P_EVENTS", "MPI_COLLECTIVES_EVENTS", "MPI_START_WAIT_EVENTS", "MPI_OTHER_EVENTS"),
    *("UCP_SUBMIT_EVENTS", "UCP_PROGRESS_EVENTS", "UCP_EVENTS"),
)


def calls(trace: Trace) -> list[tuple[int, int, int, str]]:
    """Return the calls of libraries: start, end, thread and name."""
    frame = trace[LIBRARY_CALLS]
    names = [trace.text(int(each)) for each in coded(frame, "name_id")[slice(None)]]
    columns = (
        array(frame, "start").tolist(),
        array(frame, "end").tolist(),
        coded(frame, "thread")[slice(None)].tolist(),
    )
    return list(zip(*columns, names, strict=True))


def called(table: str, name: str, start: int | None, end: int | None, builder: ExportBuilder) -> ExportBuilder:
    return builder.row(table, start=start, end=end, thread=MAIN, textId=builder.string(name))


@pytest.mark.parametrize("table", NAMED)
def test_each_table_of_mpi_and_ucx_is_read(table: str) -> None:
    trace = trace_of(called(table, "MPI_Bcast", 5, 9, ExportBuilder().kernel(0, 1)))
    assert calls(trace) == [(5, 9, MAIN, "MPI_Bcast")]
    assert LIBRARY_CALLS.name not in trace.absent


def test_a_wait_for_several_requests_counts_once() -> None:
    """MPI_Waitall has a row for each request."""
    built = ExportBuilder().kernel(0, 1)
    for _ in range(3):
        called("MPI_START_WAIT_EVENTS", "MPI_Waitall", 5, 9, built)
    assert calls(trace_of(built)) == [(5, 9, MAIN, "MPI_Waitall")]


def test_calls_are_in_order_and_those_that_cannot_be_are_left_out() -> None:
    """One never ended, and one ends before it begins."""
    built = called("MPI_OTHER_EVENTS", "MPI_Barrier", 20, 30, ExportBuilder().kernel(0, 1))
    called("MPI_P2P_EVENTS", "MPI_Recv", 3, None, built)
    called("MPI_P2P_EVENTS", "MPI_Recv", 9, 3, built)
    called("MPI_COLLECTIVES_EVENTS", "MPI_Allreduce", 5, 8, built)
    trace = trace_of(built)
    assert [name for *_, name in calls(trace)] == ["MPI_Allreduce", "MPI_Barrier"]
    assert [(what.split()[:2], rows) for what, rows in trace.dropped.items()] == [(["library", "calls"], 1)]


def test_ranges_of_the_domain_of_mpi_are_calls() -> None:
    """A library of MPI may mark its own calls; a range across threads is no call."""
    built = ExportBuilder().kernel(0, 1).domain("MPI", 3).domain("mine", 4)
    built.range("MPI_Sendrecv", 2, 6, domain=3).range("MPI_Reduce", 7, 8, domain=3, registered=False)
    built.range("forward", 0, 9, domain=4).range("MPI_Bcast", 2, 3, domain=3, kind=START_END, end_thread=thread(5))
    assert [name for *_, name in calls(trace_of(built))] == ["MPI_Sendrecv", "MPI_Reduce"]


def test_events_of_openacc_are_named_by_their_kind() -> None:
    """7 is a wait, 4 a launch; other numbers are unknown."""
    built = ExportBuilder().kernel(0, 1)
    for table, kind in (("OTHER", 7), ("LAUNCH", 4), ("DATA", 15), ("OTHER", 99)):
        built.row(f"CUPTI_ACTIVITY_KIND_OPENACC_{table}", start=kind, end=kind + 1, thread=MAIN, eventKind=kind)
    assert [name for *_, name in calls(trace_of(built))] == ["OpenACC enqueue launch", "OpenACC wait", "OpenACC alloc"]


def test_a_redacted_export_keeps_the_calls(tmp_path: Path) -> None:
    """Their names are those of a standard, and their times are numbers."""
    built = called("MPI_COLLECTIVES_EVENTS", "MPI_Allreduce", 5, 8, ExportBuilder().kernel(0, 1))
    redact(built.write(tmp_path / "whole.sqlite"), tmp_path / "shared.sqlite")
    assert calls(load_export(tmp_path / "shared.sqlite")) == [(5, 8, MAIN, "MPI_Allreduce")]
