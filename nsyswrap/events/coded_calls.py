"""The calls of one table with their state codes, by thread: when any is open, the first one, and the last one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import NOTHING, Indices, Spans, Times, Window, merge
from nsyswrap.base.rows import chosen, taken
from nsyswrap.trace.tables import BLOCK, CodedIds, array, coded

NO_CODE = -1

Rows = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class CodedCalls:
    """One table of calls.

    Attributes:
        numbers: State code of each code of a name; ``NO_CODE`` where a call explains no idle time.
        changed: Rows whose code is another one, ascending.
        window: Interval of time.
        start: When each call starts, in ns, ascending.
        places: The rows from the first to the last call of each thread. A thread may live for a short time only.
    """

    frame: pd.DataFrame
    numbers: npt.NDArray[np.int32]
    changed: Indices
    codes: npt.NDArray[np.int32]
    window: Window
    start: Times = field(init=False)
    end: Times = field(init=False)
    names: npt.NDArray[np.signedinteger[Any]] = field(init=False)
    threads: CodedIds = field(init=False)
    places: Mapping[int, slice] = field(init=False)

    def __post_init__(self) -> None:
        threads = coded(self.frame, "thread")
        found = {
            "start": array(self.frame, "start"),
            "end": array(self.frame, "end"),
            "names": coded(self.frame, "name_id").codes,
            "threads": threads,
            "places": threads.places(),
        }
        for name, values in found.items():
            object.__setattr__(self, name, values)

    def touching(self, block: slice) -> Rows:
        """Return which rows of a block touch the window."""
        touches: Rows = (self.start[block] < self.window.end_ns) & (self.end[block] > self.window.start_ns)
        return touches

    def code(self, block: slice) -> npt.NDArray[np.int32]:
        """Return the state codes of a block; ``NO_CODE`` for what explains no idle time or lies outside the window."""
        codes: npt.NDArray[np.int32] = taken(self.numbers, self.names[block])
        low, high = np.searchsorted(self.changed, (block.start, block.stop))
        codes[self.changed[low:high] - block.start] = self.codes[low:high]
        codes[~self.touching(block)] = NO_CODE
        return codes


def open_spans(calls: CodedCalls, thread: int) -> Spans:
    """Return when any call of a thread that touches the window is open."""
    parts = [NOTHING]
    for some, mine in blocks_of(calls, thread):
        parts.append(Spans(*chosen(mine & calls.touching(some), calls.start[some], calls.end[some])))
    return merge(*joined(parts))


def blocks_of(calls: CodedCalls, thread: int) -> Iterator[tuple[slice, Rows]]:
    """Yield the blocks of a table in which a thread has calls, with a mask of these."""
    place = calls.places.get(thread, slice(0, 0))
    for first in range(place.start, place.stop, BLOCK):
        some = slice(first, min(first + BLOCK, place.stop))
        mine = calls.threads.equal(thread, some)
        if mine.any():
            yield some, mine


def joined(parts: Sequence[Sequence[npt.NDArray[Any]]]) -> Iterator[npt.NDArray[Any]]:
    """Yield each column of all parts."""
    return (np.concatenate(columns) for columns in zip(*parts, strict=True))


def lifetime(tables_of_calls: Iterable[CodedCalls], thread: int) -> tuple[int, int]:
    """Return when the first call of a thread starts and when the last one ends; (0, 0) where it has none."""
    begun: list[int] = []
    ended: list[int] = []
    for calls in tables_of_calls:
        for some, mine in blocks_of(calls, thread):
            begun.append(int(calls.start[some][mine.argmax()]))
            ended.append(int(chosen(mine, calls.end[some])[0].max()))
    return (min(begun), max(ended)) if begun else (0, 0)
