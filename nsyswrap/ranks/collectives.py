"""The collectives of a capture: which kernels on different ranks are one collective, and when its last rank arrived.

::

    rank 0    |#### compute ####|....wait....|==transfer==|
    rank 1    |######## compute #############|==transfer==|
                                             ^ the last rank has arrived

The n-th collective of a communicator on one rank belongs to the n-th on every other. NCCL's ranges name the
communicator of a kernel: the range that holds its launch, on the same thread. Without them the kernels of one library
in one stream are those of one communicator, and streams of different GPUs belong together where their collectives end
together.

A capture may begin or end in the middle of a job. So the first collective of one rank need not be the first of another.
Where the kinds of collectives of two ranks differ in number, they are aligned by the times at which they end.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import Indices, Spans, Times, Window, intersect, merge, subtract
from nsyswrap.base.rows import taken
from nsyswrap.events.operations import COMMUNICATION, Operations
from nsyswrap.hardware.kernel_names.collectives import ALL_TO_ALL, SEND_RECEIVE
from nsyswrap.loop.context import TraceContext
from nsyswrap.ranks.identity import Ranks, find_ranks
from nsyswrap.ranks.parts import NONE, Parts, find_parts

# A collective ends on all ranks within this. Source: 1 to 43 us in captures of two H200s; several times that.
TOGETHER_NS = 200_000
# Share of two ranks' collectives that must be of the same kind for them to be the same collectives. Ours.
ALIKE_SHARE = 0.99
# Ranks that a sentence names one by one. Ours.
MOST_NAMED = 8


class Timed(NamedTuple):
    """The begin of each collective, the arrival of the last rank at it, and its end, in ns."""

    start: Times
    arrival: Times
    end: Times


@dataclass(frozen=True)
class Collectives:
    """The collectives of a capture: arrays of one value for each communication kernel, in order of start.

    Attributes:
        ranks: The ranks of the capture.
        row: Row in the context's operations.
        start: When it started on its rank, in ns since capture start.
        end: When it ended there.
        device_id: Its GPU.
        group: Number of the collective that it is a part of, in order of time; ``NONE`` where no other rank's part is
            known.
        arrival: When the last rank had arrived, in ns, but not after the end; the start where no other part is known.
        last: Index of the part that arrived last; ``NONE`` where no other part is known.
        communicator: Number of the communicator, from 0.
        kind: Index into ``kinds``.
        bytes: Size of the message; -1 where NCCL did not record it.
        kinds: Names of the kinds, such as "AllReduce".
        sizes: Number of ranks of each communicator, as far as the capture shows.
    """

    ranks: Ranks
    row: Indices
    start: Times
    end: Times
    device_id: npt.NDArray[np.int32]
    group: Indices
    arrival: Times
    last: Indices
    communicator: Indices
    kind: Indices
    bytes: Times
    kinds: tuple[str, ...]
    sizes: tuple[int, ...]

    @property
    def matched(self) -> npt.NDArray[np.bool_]:
        """Return which kernels are known on more than one rank."""
        is_matched: npt.NDArray[np.bool_] = self.group >= 0
        return is_matched

    def begun(self, operations: Operations, rows: Indices) -> Times:
        """Return when the transfer of some operations began, in ns: their start where no other rank's part is known.

        Args:
            operations: The context's operations.
            rows: Rows of them.
        """
        begin = taken(operations.start, rows).copy()
        at = np.minimum(np.searchsorted(self.row, rows), max(len(self.row) - 1, 0))
        known = np.flatnonzero(self.row[at] == rows) if len(self.row) else np.empty(0, np.intp)
        begin[known] = self.arrival[at[known]]
        return begin

    def in_part(self, operations: Operations, before: Indices) -> "Collectives":
        """Return the same collectives in a part of the run, at other times.

        Args:
            operations: The operations of the part.
            before: Row in the operations of the run of each row of the part's table of kernels.
        """
        row = np.flatnonzero((operations.kind == COMMUNICATION) & (operations.table == 0))
        at = np.searchsorted(self.row, before[operations.row[row]])
        start, end = operations.start[row], operations.end[row]
        group = _groups(np.zeros(len(row), np.intp), self.group[at], self.group[at] == NONE)
        arrival, last = _arrivals(group, start, end)
        columns = {name: getattr(self, name)[at] for name in ("device_id", "communicator", "kind", "bytes")}
        return replace(self, row=row, start=start, end=end, group=group, arrival=arrival, last=last, **columns)

    def on(self, device_id: int) -> Indices:
        """Return the indices of the kernels of one GPU, in order of start."""
        return np.flatnonzero(self.device_id == device_id)

    def timed(self, device_id: int) -> Timed:
        """Return the times of the kernels of one GPU, in order of start."""
        mine = self.on(device_id)
        return Timed(self.start[mine], self.arrival[mine], self.end[mine])

    def exclusive(self, operations: Operations, device_id: int, window: Window) -> list[Spans]:
        """Return the spans of a window that belong to each kind, communication split into waiting and transfer.

        Where collectives of several communicators run at once, time in which any of them transfers is transfer.

        Returns:
            Spans of compute, waiting, transfer, copies and memsets; together disjoint.
        """
        return split(operations.exclusive(device_id, window), self.timed(device_id))


def split(exclusive: list[Spans], timed: Timed) -> list[Spans]:
    """Return the spans of compute, waiting, transfer, copies and memsets of a GPU; together disjoint.

    Args:
        exclusive: Its spans of compute, communication, copies and memsets; together disjoint.
        timed: Its collectives.
    """
    compute, communication, copy, memset = exclusive
    moving = merge(timed.arrival, timed.end)
    waiting = intersect(communication, subtract(merge(timed.start, timed.arrival), moving))
    return [compute, waiting, subtract(communication, waiting), copy, memset]


_NO_TIMES, _NO_ROWS = np.empty(0, np.int64), np.empty(0, np.intp)
NO_COLLECTIVES = Collectives(
    ranks=Ranks((), 0),
    row=_NO_ROWS,
    start=_NO_TIMES,
    end=_NO_TIMES,
    device_id=np.empty(0, np.int32),
    group=_NO_ROWS,
    arrival=_NO_TIMES,
    last=_NO_ROWS,
    communicator=_NO_ROWS,
    kind=_NO_ROWS,
    bytes=_NO_TIMES,
    kinds=(),
    sizes=(),
)


def find_collectives(context: TraceContext) -> Collectives:
    """Return the collectives of a capture."""
    trace, operations = context.trace, context.operations
    return matched(find_ranks(trace, operations, context.settings.launched_as), find_parts(trace, operations))


def matched(ranks: Ranks, parts: Parts) -> Collectives:
    """Return which communication kernels are one collective.

    Args:
        ranks: The ranks.
        parts: The kernels of all ranks, in one clock and in order of start.
    """
    count = len(parts.row)
    # Messages between two of many ranks have a communicator of their own.
    linked = np.flatnonzero(parts.link != NONE)
    communicator = parts.communicator.copy()
    keys = pd.MultiIndex.from_arrays([parts.communicator[linked], parts.link[linked]])
    # NCCL's ids are random numbers of 64 bits, so that small negative ones are free.
    communicator[linked] = NONE - 1 - pd.factorize(keys)[0]
    joined = _joined(_lanes(parts), communicator, parts.kind, parts.start, parts.end)
    number, place = np.full(count, NONE, np.intp), np.full(count, NONE, np.intp)
    sizes = []
    for code, members in enumerate(joined):
        for rows, first in members:
            number[rows], place[rows] = code, first + np.arange(len(rows))
        one = int(members[0][0][0])
        known = parts.rank_counts.get(int(parts.communicator[one]), 0) if parts.link[one] == NONE else 2
        sizes.append(max(known, len(members)))
    pair = np.array([size == 2 for size in sizes], bool)  # noqa: PLR2004 - a pair
    alone = np.array([len(members) < 2 for members in joined], bool)  # noqa: PLR2004 - no other rank is there
    send = parts.kinds.index(SEND_RECEIVE) if SEND_RECEIVE in parts.kinds else NONE
    single = (alone[number] | ((parts.kind == send) & ~pair[number])) if count else np.zeros(0, bool)
    group = _groups(number, place, single)
    arrival, last = _arrivals(group, parts.start, parts.end)
    return Collectives(
        ranks=ranks,
        row=parts.row,
        start=parts.start,
        end=parts.end,
        device_id=parts.device_id,
        group=group,
        arrival=arrival,
        last=last,
        communicator=number,
        kind=parts.kind,
        bytes=parts.bytes,
        kinds=parts.kinds,
        sizes=tuple(sizes),
    )


def _lanes(parts: Parts) -> list[Indices]:
    """Return the kernels of each rank and communicator; of each stream and library where no communicator is known."""
    if not len(parts.start):
        return []
    names = ("device_id", "process", "communicator", "stream", "library", "link")
    lanes = pd.DataFrame({name: getattr(parts, name) for name in names})
    lane = lanes.groupby(list(lanes), sort=False).ngroup().to_numpy().astype(np.intp)
    order = np.argsort(lane, kind="stable")
    return np.split(order, np.searchsorted(lane[order], np.arange(1, int(lane.max()) + 1)))


def _joined(
    parts: list[Indices], communicator: Times, kind: Indices, start: Times, end: Times
) -> list[list[tuple[Indices, int]]]:
    """Return the communicators: the kernels of each of their ranks, with the place of the first among all.

    ``parts`` are the kernels of each rank and communicator, or of each rank and stream where no communicator is known.
    """
    communicators: list[list[tuple[Indices, int]]] = []
    ids: list[int] = []
    for rows in parts:
        its = int(communicator[rows[0]])
        for members, other in zip(communicators, ids, strict=True):
            if other != its:
                continue
            first = _place(members[0], rows, kind, start, end, named=its != NONE)
            if first is not None:
                members.append((rows, first))
                break
        else:
            communicators.append([(rows, 0)])
            ids.append(its)
    return communicators


def _place(  # noqa: PLR0913 - one argument a column
    reference: tuple[Indices, int], rows: Indices, kind: Indices, start: Times, end: Times, *, named: bool
) -> int | None:
    """Return the place of a rank's first kernel among those of another rank; None where they are not the same.

    Ranks with the same kinds in the same order need no alignment where NCCL named their communicator and their kernels
    run at the same time: of a part of a job, one rank may have some steps more at its begin, and the other at its end.
    All others must end together. Clocks that are not corrected yet show no times.
    """
    others, first = reference
    same = len(rows) == len(others) and bool((kind[rows] == kind[others]).all())
    meet = np.maximum(start[rows], start[others]) <= np.minimum(end[rows], end[others]) if same else np.zeros(1)
    if same and named and float(meet.mean()) > 1 / 2:
        return first
    at = np.clip(np.searchsorted(end[rows], end[others]), 1, max(len(rows) - 1, 1))
    before = np.minimum(at - 1, len(rows) - 1)
    at = np.minimum(at, len(rows) - 1)
    nearest = np.where(np.abs(end[rows[before]] - end[others]) <= np.abs(end[rows[at]] - end[others]), before, at)
    shifts, counts = np.unique(nearest - np.arange(len(others)), return_counts=True)
    shift = int(shifts[np.argmax(counts)]) if not same or named else 0
    low, high = max(0, -shift), min(len(others), len(rows) - shift)
    if high <= low:
        return first if same and named else None
    one, other = others[low:high], rows[low + shift : high + shift]
    alike = float((kind[one] == kind[other]).mean())
    together = np.abs(end[one] - end[other]) <= TOGETHER_NS
    met = np.maximum(start[one], start[other]) <= np.minimum(end[one], end[other]) + TOGETHER_NS
    ends_together = float((together & met).mean()) > 1 / 2
    if same and named and not ends_together:
        return first
    if alike < ALIKE_SHARE or not (named or ends_together):
        return None
    return first - shift


def _groups(communicator: Indices, place: Indices, single: npt.NDArray[np.bool_]) -> Indices:
    """Return the number of the collective of each kernel, in order of the first start; ``NONE`` where it is alone."""
    group = np.full(len(place), NONE, np.intp)
    if not len(place):
        return group
    key = pd.MultiIndex.from_arrays([communicator, place])
    codes = pd.factorize(key)[0]  # Kernels are in order of start, so the numbers are as well.
    counts = np.bincount(codes)
    several = (counts[codes] > 1) & ~single
    numbers = np.cumsum(np.bincount(codes, weights=several) > 0) - 1
    group[several] = numbers[codes[several]]
    return group


def _arrivals(group: Indices, start: Times, end: Times) -> tuple[Times, Indices]:
    """Return when the last rank had arrived at each kernel's collective, and which kernel that was."""
    arrival, last = start.copy(), np.full(len(start), NONE, np.intp)
    matched = np.flatnonzero(group >= 0)
    if not len(matched):
        return arrival, last
    # Kernels are in order of start: the last one of each group arrived last.
    latest = np.zeros(int(group.max()) + 1, np.intp)
    latest[group[matched]] = matched
    last[matched] = latest[group[matched]]
    arrival[matched] = np.minimum(start[last[matched]], end[matched])
    return arrival, last


def bus_bytes(kind: str, size: int, ranks: int) -> float | None:
    """Return how many bytes each link carries in a collective; None for a kind without a formula.

    Source: NVIDIA/nccl-tests, doc/PERFORMANCE.md. NCCL records the size of one rank's part of AllGather and
    ReduceScatter, and of what one rank sends to another in AllToAll.
    """
    factors: Mapping[str, float] = {
        "AllReduce": 2 * (ranks - 1) / max(ranks, 1),
        "AllGather": ranks - 1,
        "ReduceScatter": ranks - 1,
        ALL_TO_ALL: ranks - 1,
        "Broadcast": 1.0,
        "Reduce": 1.0,
        SEND_RECEIVE: 1.0,
    }
    return size * factors[kind] if kind in factors and size >= 0 else None


def names_of(numbers: Iterable[int]) -> str:
    """Return ranks in words: "rank 0", "ranks 0 and 2", "ranks 0, 1 and 3"; of more than a few, their number."""
    listed = [str(each) for each in numbers]
    if len(listed) > MOST_NAMED:
        return f"{len(listed)} ranks"
    if len(listed) == 1:
        return f"rank {listed[0]}"
    return f"ranks {', '.join(listed[:-1])} and {listed[-1]}"
