"""The pieces of one device's idle time, as parallel arrays."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from nsyswrap.base.intervals import NOTHING, Indices, Times
from nsyswrap.base.rows import taken
from nsyswrap.trace.tables import blocks, process_of

Owners = npt.NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, slots=True)
class Pieces:
    """Idle time of one device, cut where cause or phase changes; arrays of equal length, sorted by time.

    Attributes:
        start: ns since capture start.
        end: ns since capture start.
        gap: Index of the gap of each piece among all gaps of the device.
        cause: Index into ``causes.CAUSES``, int8.
        phase: Phase code, in as few bytes as the phases need; -1 for none.
        owner: Index into ``threads`` of the thread that explains the piece, in as few bytes as these need.
        name: Index into ``ThreadStates.names`` of the call that explains it; NO_NAME for none.
        threads: Global ids of the threads, not one for each piece; a process and thread 0 where none is known.
    """

    start: Times
    end: Times
    gap: npt.NDArray[np.int32]
    cause: npt.NDArray[np.int8]
    phase: npt.NDArray[np.signedinteger[Any]]
    owner: Owners
    name: npt.NDArray[np.int32]
    threads: Times

    def of(self, rows: Indices | npt.NDArray[np.bool_]) -> "Pieces":
        """Return some of the pieces, in the order of ``rows``."""
        return Pieces(*[taken(getattr(self, name), rows) for name in COLUMNS] + [self.threads])

    def is_thread(self, thread: int) -> npt.NDArray[np.bool_]:
        """Return the pieces that a thread explains."""
        found: npt.NDArray[np.bool_] = taken(self.threads == thread, self.owner)
        return found

    def is_process(self, process: int) -> npt.NDArray[np.bool_]:
        """Return the pieces that a thread of a process explains."""
        found: npt.NDArray[np.bool_] = taken(process_of(self.threads) == process, self.owner)
        return found

    @property
    def length(self) -> Times:
        """Return the length of each piece, in ns; ``length_of`` needs less memory for some pieces."""
        found: Times = self.end - self.start
        return found

    def length_of(self, rows: Indices | npt.NDArray[np.bool_]) -> Times:
        """Return the length of some pieces, in ns."""
        found: Times = taken(self.end, rows)
        found -= taken(self.start, rows)
        return found

    def sums(self, code: npt.NDArray[np.integer[Any]], count: int) -> Times:
        """Return the time of each code, in ns, shape (count,); ``code`` is that of each piece."""
        found = np.zeros(count, np.int64)
        for some in blocks(len(code)):
            np.add.at(found, code[some], self.end[some] - self.start[some])
        return found


COLUMNS = tuple(each.name for each in fields(Pieces))[:-1]
"""The columns with a value for each piece."""

_NO_CODES: npt.NDArray[Any] = np.empty(0, np.int8)
_NO_INDICES: npt.NDArray[Any] = np.empty(0, np.int32)
NO_PIECES = Pieces(*NOTHING, _NO_INDICES, _NO_CODES, _NO_CODES, _NO_CODES, _NO_INDICES, NOTHING.start)


# Pieces of one part for which there is room after the first part, in shares of what all parts would need like it.
SPARE = 1.25


def joined_in_order(parts: Iterable[Pieces], part_count: int) -> Pieces:
    """Return the pieces of all parts, part by part.

    Args:
        parts: The pieces of each part, all with the same threads; each is copied before the next one is made, so that
            not all are held twice.
        part_count: About how many parts there are.
    """
    room = {name: getattr(NO_PIECES, name) for name in COLUMNS}
    count, threads = 0, NO_PIECES.threads
    for part in parts:
        first, count = count, count + len(part.start)
        if count > len(room["start"]):
            wanted = round(SPARE * (count if first else count * part_count))
            room = {name: _longer(values[:first], getattr(part, name), wanted) for name, values in room.items()}
        for name, values in room.items():
            values[first:count] = getattr(part, name)
        threads = part.threads
    for values in room.values():
        # Nothing else refers to the arrays yet. What they do not need is given back in place.
        if len(values) > count:
            values.resize(count, refcheck=False)
    return Pieces(*[room[name][:count] for name in COLUMNS] + [threads])


def _longer(values: npt.NDArray[Any], like: npt.NDArray[Any], length: int) -> npt.NDArray[Any]:
    """Return a longer array of another's type that begins with the values. Memory never written is never taken."""
    found = np.empty(length, like.dtype)
    found[: len(values)] = values
    return found
