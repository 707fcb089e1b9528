"""The ranks of a capture: a rank is a process with its GPU and its place in the communicators.

The number of a rank comes from the first of these that the capture has: what NCCL records when a communicator is made,
what MPI records, and what the launcher gave the process, which ``run.json`` or the name of a report keeps. Without any,
ranks are numbered by process and GPU.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from nsyswrap.base.rows import taken
from nsyswrap.events.operations import Operations
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace, array

Source = Literal["NCCL", "MPI", "launcher", "order"]


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank.

    Attributes:
        number: Its number in the job.
        process: Global id of its process.
        device_id: Its GPU.
        source: Where the number comes from.
    """

    number: int
    process: int
    device_id: int
    source: Source


@dataclass(frozen=True, slots=True)
class Ranks:
    """The ranks of a capture.

    Attributes:
        each: The ranks, by number.
        world_size: How many ranks the job has, as far as the capture shows; at least those seen.
    """

    each: tuple[Rank, ...]
    world_size: int

    @property
    def missing(self) -> int:
        """Return how many ranks of the job are not in the capture."""
        return self.world_size - len(self.each)

    @property
    def known(self) -> bool:
        """Return whether there are several ranks, or NCCL, MPI or a launcher numbered the one."""
        return len(self.each) > 1 or any(rank.source != "order" for rank in self.each)

    def number(self, device_id: int) -> int | None:
        """Return the number of the rank that used a GPU most; None where no rank did."""
        return next((rank.number for rank in self.each if rank.device_id == device_id), None)

    def device(self, number: int) -> int | None:
        """Return the GPU of a rank; None where there is no such rank."""
        return next((rank.device_id for rank in self.each if rank.number == number), None)


def find_ranks(trace: Trace, operations: Operations, launched_as: Mapping[int, int]) -> Ranks:
    """Return the ranks of a capture: one for each GPU that ran something, of the process that ran most on it.

    Args:
        trace: The tables of one export.
        operations: What ran on the GPUs.
        launched_as: Rank of each process as its launcher numbered it, by global id of the process; may be empty.
    """
    members = _members(operations)
    recorded, size = _recorded_by_nccl(trace, members)
    by_mpi = ranks_of_mpi(trace)
    ranks: list[Rank] = []
    single = {process for process, _ in members if sum(process == other for other, _ in members) == 1}
    for order, (process, device) in enumerate(members):
        if (process, device) in recorded:
            ranks.append(Rank(recorded[process, device], process, device, "NCCL"))
        elif process in by_mpi and process in single:
            ranks.append(Rank(by_mpi[process], process, device, "MPI"))
        elif process in launched_as and process in single:
            ranks.append(Rank(launched_as[process], process, device, "launcher"))
        else:
            ranks.append(Rank(order, process, device, "order"))
    if len({rank.number for rank in ranks}) < len(ranks):
        # Numbers from different sources can collide: then only the order is sure.
        ranks = [Rank(order, rank.process, rank.device_id, "order") for order, rank in enumerate(ranks)]
    # MPI numbers its ranks from 0, so there are more than the highest number seen.
    size = max(size, max(by_mpi.values(), default=-1) + 1)
    return Ranks(tuple(sorted(ranks, key=lambda rank: rank.number)), max(size, len(ranks)))


def _members(operations: Operations) -> list[tuple[int, int]]:
    """Return the process that ran most on each GPU, as (process, GPU), by GPU."""
    members_by_gpu = []
    for device in operations.devices:
        rows = operations.on(device)
        length = taken(operations.end, rows) - taken(operations.start, rows)
        process = taken(operations.process, rows)
        ran = {each: int(length[process == each].sum()) for each in operations.processes_of(device).tolist()}
        members_by_gpu.append((max(ran, key=ran.__getitem__), device))
    return members_by_gpu


def _recorded_by_nccl(trace: Trace, members: list[tuple[int, int]]) -> tuple[dict[tuple[int, int], int], int]:
    """Return the rank of each member in the largest communicator, and the number of its ranks.

    A call that makes a communicator names the CUDA device, by which the GPUs of one process differ. A
    process with one GPU has one rank, whatever number its device has.
    """
    calls = trace[tables.NCCL_CALLS]
    if not len(calls):
        return {}, 0
    calls = calls[(calls["rank"] >= 0) & (calls["rank_count"] > 0)]
    if not len(calls):
        return {}, 0
    process = tables.process_of(array(calls, "thread"))
    rank, count, device = (array(calls, name) for name in ("rank", "rank_count", "device"))
    largest = count == count.max()
    recorded = {}
    for owner, gpu in members:
        mine = largest & (process == owner)
        several = sum(owner == other for other, _ in members) > 1
        mine = mine & (device == gpu) if several else mine
        if len(set(rank[mine].tolist())) == 1:
            recorded[owner, gpu] = int(rank[mine][0])
    return recorded, int(count.max())


def communicators_in(trace: Trace) -> frozenset[int]:
    """Return the ids of the communicators that NCCL recorded."""
    return frozenset(trace[tables.NCCL_CALLS]["communicator"].tolist()) - {-1}


def devices_in(trace: Trace) -> tuple[int, ...]:
    """Return the GPUs that the tables of a trace name, ascending."""
    columns = [array(trace[spec], "device_id") for spec in tables.SPECS if "device_id" in spec.columns]
    return tuple(sorted({int(each) for column in columns for each in pd.unique(column)}))


def ranks_of_mpi(trace: Trace) -> dict[int, int]:
    """Return the rank of each process that MPI recorded."""
    frame = trace[tables.MPI_RANKS]
    return dict(zip(tables.process_of(array(frame, "thread")).tolist(), array(frame, "rank").tolist(), strict=True))
