"""The calls of one table with their state codes, by thread: when any is open, the first one, and the last one."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.compiled.rows import chosen, taken
from nsyswrap.intervals import Indices, Spans, Window, merge
from nsyswrap.tables import array, blocks, coded

NO_CODE = -1

Rows = npt.NDArray[np.bool_]


class CodedCalls(NamedTuple):
    """One table of calls.

    Attributes:
        frame: The table.
        numbers: State code of each code of a name; ``NO_CODE`` where a call explains no idle time.
        changed: Rows whose code is another one, ascending.
        codes: The code of each of them.
        window: Interval of time.
    """

    frame: pd.DataFrame
    numbers: npt.NDArray[np.int32]
    changed: Indices
    codes: npt.NDArray[np.int32]
    window: Window

    def touching(self, block: slice) -> Rows:
        """Return which rows of a block touch the window."""
        start, end = array(self.frame, "start")[block], array(self.frame, "end")[block]
        found: Rows = (start < self.window.end_ns) & (end > self.window.start_ns)
        return found

    def code(self, block: slice) -> npt.NDArray[np.int32]:
        """Return the state codes of a block; ``NO_CODE`` for what explains no idle time or lies outside the window."""
        found: npt.NDArray[np.int32] = taken(self.numbers, coded(self.frame, "name_id").codes[block])
        low, high = np.searchsorted(self.changed, (block.start, block.stop))
        found[self.changed[low:high] - block.start] = self.codes[low:high]
        found[~self.touching(block)] = NO_CODE
        return found


def open_spans(calls: CodedCalls, thread: int) -> Spans:
    """Return when any call of a thread that touches the window is open."""
    mine = coded(calls.frame, "thread").equal(thread)
    for some in blocks(len(mine)):
        mine[some] &= calls.touching(some)
    return merge(*chosen(mine, array(calls.frame, "start"), array(calls.frame, "end")))


def blocks_of(calls: CodedCalls, thread: int) -> Iterator[tuple[slice, Rows]]:
    """Yield the blocks of a table in which a thread has calls, with a mask of these."""
    threads = coded(calls.frame, "thread")
    if thread not in threads.ids:
        return
    for some in blocks(len(threads.codes)):
        mine = threads.equal(thread, some)
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
        start, end = array(calls.frame, "start"), array(calls.frame, "end")
        for some, mine in blocks_of(calls, thread):
            begun.append(int(start[some][mine.argmax()]))
            ended.append(int(chosen(mine, end[some])[0].max()))
    return (min(begun), max(ended)) if begun else (0, 0)
