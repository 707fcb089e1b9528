"""The pieces of one device's idle time, as parallel arrays."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from nsyswrap.intervals import NOTHING, Indices, Times


@dataclass(frozen=True, slots=True)
class Pieces:
    """Idle time of one device, cut where cause or phase changes; arrays of equal length, sorted by time.

    Attributes:
        start: ns since capture start.
        end: ns since capture start.
        gap: Index of the gap of each piece among all gaps of the device.
        cause: Index into ``causes.CAUSES``, int8.
        phase: Phase code, int32; -1 for none.
        thread: Global id of the thread that explains the piece; its process and thread 0 where none is known.
        name: Index into ``ThreadStates.names`` of the call that explains it; NO_NAME for none.
    """

    start: Times
    end: Times
    gap: Indices
    cause: npt.NDArray[np.int8]
    phase: npt.NDArray[np.int32]
    thread: Times
    name: npt.NDArray[np.int32]

    def of(self, rows: Indices | npt.NDArray[np.bool_]) -> "Pieces":
        """Return some of the pieces, in the order of ``rows``."""
        return Pieces(*(getattr(self, each.name)[rows] for each in fields(Pieces)))

    @property
    def length(self) -> Times:
        """Return the length of each piece, in ns."""
        found: Times = self.end - self.start
        return found


_NO_CODES: npt.NDArray[Any] = np.empty(0, np.int32)
NO_PIECES = Pieces(*NOTHING, np.empty(0, np.intp), np.empty(0, np.int8), _NO_CODES, np.empty(0, np.int64), _NO_CODES)


def joined_in_order(parts: Iterable[Pieces]) -> Pieces:
    """Return the pieces of all parts, part by part."""
    every = [NO_PIECES, *parts]
    return Pieces(*(np.concatenate([getattr(part, each.name) for part in every]) for each in fields(Pieces)))
