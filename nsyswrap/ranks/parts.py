"""The communication kernels of a capture: which communicator each belongs to, its kind, its size and its peer.

NCCL's ranges name the communicator of a kernel: the range that holds its launch, on the same thread. Kernels of other
libraries have none: those of one library in one stream are of one communicator.
"""

import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import Indices, Times
from nsyswrap.base.rows import taken
from nsyswrap.events.operations import COMMUNICATION, Operations
from nsyswrap.hardware.kernel_names.collectives import ALL_TO_ALL, NCCL, SEND_RECEIVE, CollectiveName, collective_name
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace, array, coded

NONE = -1
# Stands for the peers of a kernel that exchanges with all other ranks of its communicator.
ALL_PEERS = -2
# Bits of one rank in the number of a link. NCCL's ranks are numbers of 32 bits; no job has a million.
LINK_BITS = 20


@dataclass(frozen=True)
class Parts:
    """The communication kernels of a capture: arrays of one value for each, in order of start.

    Attributes:
        row: Row in the context's operations.
        start: When it started, in ns.
        end: When it ended.
        device_id: Its GPU.
        process: Global id of its process.
        communicator: Id of its communicator; ``NONE`` where it is not known.
        stream: Number of its stream where the communicator is not known, else ``NONE``.
        library: Number of the library of its kernel, the same in every capture.
        link: The two ranks of a message in a communicator of more than two, as one number; else ``NONE``.
        bytes: Size of the message; ``NONE`` where NCCL did not record it.
        kind: Index into ``kinds``.
        kinds: Names of the kinds, ascending.
        rank_counts: Number of ranks of each communicator that NCCL recorded.
    """

    row: Indices
    start: Times
    end: Times
    device_id: npt.NDArray[np.int32]
    process: Times
    communicator: Times
    stream: Times
    library: Times
    link: Times
    bytes: Times
    kind: Indices
    kinds: tuple[str, ...]
    rank_counts: Mapping[int, int]

    def on(self, device_id: int) -> Indices:
        """Return the indices of the kernels of one GPU, in order of start."""
        return np.flatnonzero(self.device_id == device_id)


def find_parts(trace: Trace, operations: Operations) -> Parts:
    """Return the communication kernels of a capture."""
    row = np.flatnonzero((operations.kind == COMMUNICATION) & (operations.table == 0))
    kind, kinds, library = _names(trace, operations, row)
    numbers = _numbers(trace, operations, row)
    communicator, size, counts, peer = _calls_of(trace, operations, row, library == _number(NCCL), numbers)
    # NCCL has no kernel for an exchange with all other ranks: PyTorch's all_to_all is a group of sends and receives.
    names = [
        ALL_TO_ALL if kinds[code] == SEND_RECEIVE and each == ALL_PEERS else kinds[code]
        for code, each in zip(kind.tolist(), peer.tolist(), strict=True)
    ]
    kinds = tuple(sorted(set(names)))
    return Parts(
        row=row,
        start=operations.start[row],
        end=operations.end[row],
        device_id=operations.device_id[row],
        process=operations.process[row],
        communicator=communicator,
        stream=np.where(communicator == NONE, taken(operations.stream, row), NONE).astype(np.int64),
        library=library,
        link=_links(operations.process[row], communicator, peer, counts, numbers),
        bytes=size,
        kind=np.array([kinds.index(name) for name in names], np.intp),
        kinds=kinds,
        rank_counts=counts,
    )


def _number(library: str) -> int:
    """Return a number for the name of a library that is the same in every capture."""
    return zlib.crc32(library.encode())


def _names(trace: Trace, operations: Operations, row: Indices) -> tuple[Indices, tuple[str, ...], Times]:
    """Return the kind of each kernel, the names of the kinds, and the number of each kernel's library."""
    codes, ids = pd.factorize(coded(trace[tables.KERNELS], "name_id")[operations.row[row]])
    names = [collective_name(trace.text(int(each))) or CollectiveName("", "") for each in ids]
    kinds = tuple(sorted({each.kind for each in names}))
    place = np.array([kinds.index(each.kind) for each in names] or [0], np.intp)
    library = np.array([_number(each.library) for each in names] or [0], np.int64)
    return place[codes], kinds, library[codes]


def _numbers(trace: Trace, operations: Operations, row: Indices) -> dict[tuple[int, int], int]:
    """Return the rank of each process in each communicator, by process and communicator, as far as it is known.

    A capture that begins after a communicator was made does not have it. Its ranks are in the order of their GPUs, as
    launchers place them, if all of them are there and each names as its peers those that name it.

    Args:
        trace: The tables of one export.
        operations: What ran on the GPUs.
        row: The communication kernels.
    """
    frame = trace[tables.NCCL_CALLS]
    frame = frame.assign(process=tables.process_of(array(frame, "thread")))
    made = frame[frame["rank"] >= 0]
    keys = zip(made["process"].tolist(), made["communicator"].tolist(), strict=True)
    numbers: dict[tuple[int, int], int] = dict(zip(keys, made["rank"].tolist(), strict=True))
    named = frame[(frame["peer"] >= 0) & ~frame["communicator"].isin(made["communicator"])]
    by_gpu = operations.process[row][np.argsort(operations.device_id[row], kind="stable")]
    for each in named["communicator"].unique().tolist():
        its = named[named["communicator"] == each]
        peers = its.groupby("process")["peer"].agg(set)
        members = [one for one in pd.unique(by_gpu).tolist() if one in peers.index]
        sent = {(number, peer) for number, one in enumerate(members) for peer in peers[one]}
        if sent == {(peer, number) for number, peer in sent} and not any(one == other for one, other in sent):
            numbers |= {(one, each): number for number, one in enumerate(members)}
    return numbers


def _calls_of(
    trace: Trace,
    operations: Operations,
    row: Indices,
    of_nccl: npt.NDArray[np.bool_],
    numbers: Mapping[tuple[int, int], int],
) -> tuple[Times, Times, Mapping[int, int], Times]:
    """Return the communicator and the size of each kernel from the call that launched it, and the ranks of each.

    The last array is the rank that a kernel sends to and receives from; ``ALL_PEERS`` for all others, ``NONE`` where
    there is none, or some.

    A kernel launched outside of any call with a payload, as at the end of a group of calls, belongs to the communicator
    of the last call before it on its thread; its size is not known. Only kernels of NCCL have calls with a payload.
    """
    frame, calls = trace[tables.NCCL_CALLS], trace[tables.CALLS]
    communicator, size, peer = (np.full(len(row), NONE, np.int64) for _ in range(3))
    if not len(frame):
        return communicator, size, {}, peer
    counted = frame[frame["rank_count"] > 0]
    counts = Counter(each for _, each in numbers)
    counts |= dict(zip(counted["communicator"].tolist(), counted["rank_count"].tolist(), strict=True))
    call = operations.call[row]
    known = np.flatnonzero((call >= 0) & of_nccl)
    launched, thread = array(calls, "start")[call[known]], coded(calls, "thread")[call[known]]
    moving = frame[frame["bytes"] >= 0]
    for each in tables.distinct(thread).tolist():
        mine, its = np.flatnonzero(thread == each), moving[moving["thread"] == each]
        if not len(its):
            continue
        at = np.searchsorted(array(its, "start"), launched[mine], side="right") - 1
        before = at >= 0
        rows, at = known[mine[before]], at[before]
        inside = launched[mine[before]] < array(its, "end")[at]
        communicator[rows] = array(its, "communicator")[at]
        size[rows] = np.where(inside, array(its, "bytes")[at], NONE)
        ranks = np.array([counts.get(int(each), 0) for each in communicator[rows]], np.int64)
        peer[rows] = _peers(array(its, "peer").astype(np.int64), at, np.argsort(launched[mine[before]]), ranks)
    return communicator, size, counts, peer


def _peers(peers: Times, at: Indices, order: Indices, ranks: Times) -> Times:
    """Return the rank that each kernel exchanges with: ``ALL_PEERS`` for all others, ``NONE`` for none or some.

    The calls of a kernel are those since the kernel before it: calls of a group are launched together.

    Args:
        peers: Peer of each call of a thread.
        at: Place of the last call before each kernel.
        order: The order in which the kernels were launched.
        ranks: Number of ranks of the communicator of each kernel; 0 where it is not known.
    """
    peer, first = np.full(len(at), NONE, np.int64), 0
    for kernel in order.tolist():
        last = int(at[kernel]) + 1
        named = set(peers[min(first, last - 1) : last].tolist())
        is_all = len(named) >= max(int(ranks[kernel]) - 1, 2)
        peer[kernel] = named.pop() if len(named) == 1 else ALL_PEERS if is_all and ranks[kernel] else NONE
        first = last
    return peer


def _links(
    process: Times, communicator: Times, peer: Times, counts: Mapping[int, int], numbers: Mapping[tuple[int, int], int]
) -> Times:
    """Return the two ranks of each message in a communicator of more than two, as one number; else ``NONE``."""
    link = np.full(len(peer), NONE, np.int64)
    for at in np.flatnonzero(peer >= 0).tolist():
        mine, other = numbers.get((int(process[at]), int(communicator[at])), NONE), int(peer[at])
        if mine >= 0 and counts.get(int(communicator[at]), 0) > 2:  # noqa: PLR2004 - a pair needs no peer
            link[at] = (min(mine, other) << LINK_BITS) | max(mine, other)
    return link
