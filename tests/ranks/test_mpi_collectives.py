"""Collectives of MPI: which calls of several processes are one, who comes last, and what it saves to be in time."""

import pytest
from export_builder import ExportBuilder, global_id, trace_of
from made_programs import mpi_late_rank
from savings import saving_of

from nsyswrap.base.intervals import Window
from nsyswrap.ranks.mpi_collectives import find_last_rank, find_mpi_collectives
from nsyswrap.report import build_report

MS = 1_000_000
ALL = Window(0, 1_000, "all", "user")


def called(name: str, *times: tuple[int, int], pid: int, built: ExportBuilder) -> ExportBuilder:
    """Add calls of MPI to a process."""
    for start, end in times:
        about = {"thread": global_id(pid, pid), "textId": built.string(name)}
        built.row("MPI_COLLECTIVES_EVENTS", start=start, end=end, **about)
    return built


def two_ranks(
    first: list[tuple[int, int]], second: list[tuple[int, int]], name: str = "MPI_Allreduce"
) -> ExportBuilder:
    """Return calls of two processes."""
    return called(name, *second, pid=5001, built=called(name, *first, pid=5000, built=ExportBuilder().kernel(0, 1)))


def test_the_calls_of_all_ranks_are_one_collective() -> None:
    found = find_mpi_collectives(trace_of(two_ranks([(10, 40), (50, 60)], [(30, 40), (45, 60)])))
    calls = zip(found.group.tolist(), found.start.tolist(), found.arrival.tolist(), strict=True)
    assert sorted(calls) == [(0, 10, 30), (0, 30, 30), (1, 45, 50), (1, 50, 50)]


@pytest.mark.parametrize(
    ("built", "why"),
    [
        (two_ranks([(10, 40)], [(30, 40)], "MPI_Bcast"), "the root returns early"),
        (two_ranks([(10, 20)], [(30, 40)]), "one returns before the other begins"),
        (two_ranks([(10, 40), (50, 60)], [(30, 40)]), "one made more calls"),
        (called("MPI_Barrier", (10, 40), pid=5000, built=ExportBuilder().kernel(0, 1)), "one rank alone"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_calls_are_none(built: ExportBuilder, why: str) -> None:
    assert not len(find_mpi_collectives(trace_of(built)).group), why


def test_the_last_rank_is_the_one_for_which_the_others_wait() -> None:
    """Process 5001 is the last in two of three, and process 5000 waits 40 of 45 ns for it."""
    trace = trace_of(two_ranks([(10, 40), (50, 80), (95, 100)], [(30, 40), (70, 80), (90, 100)]))
    assert find_last_rank(trace, ALL) == (global_id(5001), 2, 3)


def test_ranks_that_wait_for_each_other_have_no_last_one() -> None:
    assert find_last_rank(trace_of(two_ranks([(10, 40), (70, 80)], [(30, 40), (50, 80)])), ALL) is None


def test_a_rank_in_time_saves_what_the_other_waits_for() -> None:
    """Each step rank 1 works 5 ms, and rank 0 works 1 ms and waits 4 ms."""
    findings = build_report(mpi_late_rank().trace()).findings
    (work,) = (each for each in findings if each.rule == "idle/cpu" and each.device_id == 1)
    assert saving_of(work).point == pytest.approx(10 * 4.1 * MS, rel=0.02)
    (wait,) = (each for each in findings if each.rule == "idle/peer_wait")
    assert (wait.device_id, wait.lost_ns) == (0, 40_200_000)
    assert saving_of(wait).point <= 10 * 0.02 * MS
    assert wait.advice.startswith("Rank 1 is the last to begin in 10 of 10 collectives")
