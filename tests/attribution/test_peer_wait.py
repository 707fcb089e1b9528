"""A launching thread in a call of MPI or UCX waits for other ranks, unless a CUDA call inside explains more."""

import pytest
from analysis_fixtures import Piece, evidence, explained
from export_builder import MAIN, ExportBuilder, global_id, trace_of
from made_steps import STEP, STEPS, US, findings_of, lost_per_step, made_loop
from savings import ends_of

from nsyswrap.loop.context import find_context
from nsyswrap.ranks.identity import find_ranks
from nsyswrap.report import build_report


def in_mpi(
    builder: ExportBuilder, name: str, start: int, end: int, table: str = "MPI_COLLECTIVES_EVENTS"
) -> ExportBuilder:
    """Add a call of MPI."""
    return builder.row(table, start=start, end=end, thread=MAIN, textId=builder.string(name))


def gap() -> ExportBuilder:
    """Return a gap from 20 to 80 between two kernels."""
    return ExportBuilder().range("forward", 0, 100).kernel(0, 20, launched=(0, 1)).kernel(80, 100, launched=(80, 82))


def test_a_call_of_mpi_waits_for_other_ranks() -> None:
    """What the operating system does inside the call is the call's own way to wait."""
    trace = trace_of(in_mpi(gap(), "MPI_Allreduce", 30, 70).os_call("poll", 35, 60))
    assert explained(trace, 0, 100) == [
        Piece(20, 30, "cpu", "forward"),
        Piece(30, 70, "peer_wait", "forward"),
        Piece(70, 80, "cpu", "forward"),
    ]
    assert "thread 4711 is in MPI_Allreduce" in evidence(trace, 0, 100)


def test_cuda_calls_inside_mpi_explain_more() -> None:
    """A CUDA-aware MPI waits for its own copies."""
    trace = trace_of(in_mpi(gap(), "MPI_Sendrecv", 20, 80, "MPI_P2P_EVENTS").call("cudaStreamSynchronize", 40, 50))
    assert [piece.cause for piece in explained(trace, 0, 100)] == ["peer_wait", "synchronization", "peer_wait"]


def test_files_of_mpi_are_files() -> None:
    trace = trace_of(in_mpi(gap(), "MPI_File_write_all", 20, 80))
    assert [piece.cause for piece in explained(trace, 0, 100)] == ["file_io"]


def test_a_thread_off_its_core_inside_mpi_waits_for_other_ranks() -> None:
    built = in_mpi(gap(), "MPI_Recv", 20, 80, "MPI_P2P_EVENTS").scheduled(25, running=False).scheduled(75, running=True)
    assert [piece.cause for piece in explained(trace_of(built), 0, 100)] == ["peer_wait"]


@pytest.mark.parametrize(
    ("kind", "cause"), [(7, "synchronization"), (1, "module_load"), (15, "allocation"), (9, "cpu"), (4, "cpu")]
)
def test_the_runtime_of_openacc_says_what_the_host_did(kind: int, cause: str) -> None:
    """A region and a launch only contain other calls."""
    built = gap().row("CUPTI_ACTIVITY_KIND_OPENACC_OTHER", start=20, end=80, thread=MAIN, eventKind=kind)
    assert [piece.cause for piece in explained(trace_of(built), 0, 100)] == [cause]


def job() -> ExportBuilder:
    """Return steps that end with an exchange of 350 us between ranks, of the third of some ranks."""
    made = made_loop().row("MPI_RANKS", thread=MAIN, rank=2)
    made.row("PROCESSES", globalPid=global_id(4711), pid=4711, name="/home/u/solver")
    for number in range(STEPS):
        at = number * STEP
        in_mpi(made, "MPI_Waitall", at + 620 * US, at + 970 * US, "MPI_START_WAIT_EVENTS")
    return made


def test_waits_in_mpi_have_their_own_finding() -> None:
    trace = trace_of(job())
    assert lost_per_step(trace)["idle/peer_wait"] == 350
    found = findings_of(trace)["idle/peer_wait"]
    assert "is in MPI, which waits for other ranks" in found.headline
    assert "MPI_Isend" in found.advice
    assert ends_of(found) != (None, None)
    assert build_report(trace).verdict.startswith(found.headline)


def test_a_wait_in_ucx_is_named_so() -> None:
    made = made_loop()
    for number in range(STEPS):
        at = number * STEP
        in_mpi(made, "ucp_worker_progress", at + 620 * US, at + 970 * US, "UCP_PROGRESS_EVENTS")
    assert "is in UCX" in findings_of(trace_of(made))["idle/peer_wait"].headline


def test_mpi_numbers_the_ranks() -> None:
    """Rank 2 is the third, so two more exist at least."""
    context = find_context(trace_of(job()))
    ranks = find_ranks(context.trace, context.operations, {})
    assert [(rank.number, rank.source) for rank in ranks.each] == [(2, "MPI")]
    assert (ranks.world_size, ranks.missing) == (3, 2)
