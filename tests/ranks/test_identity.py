"""The number of a rank comes from NCCL, MPI, the launcher, or the order of GPUs."""

from collections.abc import Callable

import pytest
from export_builder import ExportBuilder, global_id, trace_of

from nsyswrap.loop.context import find_context
from nsyswrap.ranks.identity import Ranks, find_ranks
from nsyswrap.trace.tables import Trace

RealTrace = Callable[[str], Trace]
ONE, TWO = global_id(50), global_id(51)


def two_processes() -> ExportBuilder:
    built = ExportBuilder()
    for device, process in ((0, ONE), (1, TWO)):
        built.kernel(10, 20, device=device, process=process).domain("NCCL", 3, thread=process)
    return built


def made(built: ExportBuilder, process: int, payload: str) -> ExportBuilder:
    """Add the call that makes a communicator."""
    return built.range("ncclCommInitRankConfig", 1, 2, thread=process | 7, domain=3, jsonText=payload)


def ranks_of(trace: Trace, launched_as: dict[int, int] | None = None) -> Ranks:
    return find_ranks(trace, find_context(trace).operations, launched_as or {})


def numbers(found: Ranks) -> list[tuple[int, int, str]]:
    """Return number, GPU and source of each rank."""
    return [(rank.number, rank.device_id, rank.source) for rank in found.each]


def test_nccl_numbers_ranks_by_the_largest_communicator() -> None:
    """The processes are ranks 5 and 2 in a communicator of 8, and ranks 0 and 1 in one of 2."""
    built = two_processes()
    for process, world, pair in ((ONE, 5, 0), (TWO, 2, 1)):
        made(built, process, f'{{"NCCL communicator ID":9,"No. of ranks":8,"Rank":{world},"CUDA device":0}}')
        made(built, process, f'{{"NCCL communicator ID":8,"No. of ranks":2,"Rank":{pair},"CUDA device":0}}')
    found = ranks_of(trace_of(built), {ONE: 0, TWO: 1})
    assert numbers(found) == [(2, 1, "NCCL"), (5, 0, "NCCL")]
    assert (found.world_size, found.missing, found.number(0), found.device(2)) == (8, 6, 5, 1)
    assert (found.number(7), found.device(7)) == (None, None)


def test_mpi_numbers_ranks_where_nccl_does_not() -> None:
    built = two_processes().row("MPI_RANKS", thread=ONE | 1, rank=1).row("MPI_RANKS", thread=TWO | 1, rank=0)
    assert numbers(ranks_of(trace_of(built), {ONE: 7, TWO: 8})) == [(0, 1, "MPI"), (1, 0, "MPI")]


def test_the_launcher_numbers_ranks_where_nothing_else_does() -> None:
    assert numbers(ranks_of(trace_of(two_processes()), {ONE: 4, TWO: 3})) == [(3, 1, "launcher"), (4, 0, "launcher")]


def test_without_any_number_ranks_are_in_the_order_of_gpus() -> None:
    found = ranks_of(trace_of(two_processes()))
    assert (numbers(found), found.missing) == ([(0, 0, "order"), (1, 1, "order")], 0)


def test_numbers_that_collide_do_not_count() -> None:
    assert numbers(ranks_of(trace_of(two_processes()), {ONE: 3, TWO: 3})) == [(0, 0, "order"), (1, 1, "order")]


def test_a_gpu_belongs_to_the_process_that_ran_most_on_it() -> None:
    built = two_processes().kernel(30, 35, device=0, process=TWO)
    assert [(rank.process, rank.device_id) for rank in ranks_of(trace_of(built)).each] == [(ONE, 0), (TWO, 1)]


@pytest.mark.parametrize(("name", "source"), [("ddp_2gpu_slow_links", "NCCL"), ("alexnet_data_parallel_2gpu", "order")])
def test_ranks_of_a_real_job(name: str, source: str, real_trace: RealTrace) -> None:
    """One process with two GPUs also has two ranks."""
    assert numbers(ranks_of(real_trace(name))) == [(0, 0, source), (1, 1, source)]
