"""The part of a window that the measured steps of each process take, so that totals are those of whole steps.

Ranks do not start a step in the same moment. A window cuts steps of some of them, so its totals are not those of a
number of steps::

    window    |-----------------------------|
    rank 0    |  step 2  |  step 3  |  step 4  |
    rank 1       |  step 2  |  step 3  |  step 4  |
    their own |--------------------------------|
                 |--------------------------------|
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsyswrap.base.intervals import Indices, Times, Window
from nsyswrap.base.memo import memo
from nsyswrap.base.rows import taken
from nsyswrap.loop.context import TraceContext
from nsyswrap.trace.tables import array, distinct, process_of

# Begin and end of the part of each of some rows, in ns; one number each where the parts of all are the same.
RowWindows = tuple[Times | int, Times | int]


@dataclass(frozen=True)
class OwnWindows:
    """The part of a window that is of one process or of one GPU: all of it where the window is not made of steps.

    Attributes:
        whole: The window.
        of_process: The part of each process that has measured steps, by global id; empty where all have the window.
        main_process: Global id of the process whose part counts on each GPU: the one that ran most on it. Where none of
            its processes has steps, another stands for them, since ranks take the same steps at the same time.
    """

    whole: Window
    of_process: Mapping[int, Window]
    main_process: Mapping[int, int]

    def of(self, process: int) -> Window:
        """Return the part of a process."""
        return self.of_process.get(process, self.whole)

    def on(self, device_id: int) -> Window:
        """Return the part of a GPU."""
        return self.of(self.main_process.get(device_id, -1))

    def by_process(self, frame: pd.DataFrame) -> RowWindows:
        """Return the bounds of the part of the process of each row of a table that has a process or a thread."""
        if not self.of_process:
            return self._same
        process = array(frame, "process") if "process" in frame else process_of(array(frame, "thread"))
        return self._bounds(self.of, process)

    def by_device(self, device_id: Indices) -> RowWindows:
        """Return the bounds of the part of the GPU of each row."""
        return self._bounds(self.on, device_id) if self.of_process else self._same

    @property
    def _same(self) -> RowWindows:
        return self.whole.start_ns, self.whole.end_ns

    @staticmethod
    def _bounds(part: Callable[[int], Window], number: Indices) -> RowWindows:
        known = distinct(number)
        each = np.array([[part(one).start_ns, part(one).end_ns] for one in known.tolist()], np.int64).reshape(-1, 2)
        low, high = each[np.searchsorted(known, number)].T
        return low, high


@memo
def find_own_windows(context: TraceContext, window: Window) -> OwnWindows:
    """Return the parts of a window."""
    parts = context.steps.windows_of(window)
    if all(each == window for each in parts.values()):
        return OwnWindows(window, {}, {})
    operations, main = context.operations, {}
    for device in operations.devices:
        rows = operations.on(device)
        process, length = taken(operations.process, rows), taken(operations.end, rows) - taken(operations.start, rows)
        ran = {each: int(length[process == each].sum()) for each in operations.processes_of(device).tolist()}
        main[device] = main_process(ran, parts)
    return OwnWindows(window, parts, main)


def main_process(ran: Mapping[int, int], parts: Mapping[int, Window]) -> int:
    """Return the process whose part counts on a GPU, as ``OwnWindows`` has it.

    Args:
        ran: How long each process ran on it, in ns, by global id in ascending order.
        parts: The part of each process with steps, at least one.
    """
    most = max((each for each in ran if each in parts), key=ran.__getitem__, default=None)
    return next(iter(parts)) if most is None else most


def running(context: TraceContext, rows: Indices, window: Window) -> tuple[Indices, Times]:
    """Return those of some operations that run in the part of their GPU, and how long each runs in it, in ns."""
    operations, own = context.operations, find_own_windows(context, window)
    start, end = taken(operations.start, rows), taken(operations.end, rows)
    # Most captures are of one process, whose rows all have the same part.
    low, high = own.by_device(taken(operations.device_id, rows) if own.of_process else rows)
    inside = (start < high) & (end > low)
    length = np.minimum(end, high) - np.maximum(start, low)
    return rows[inside], length[inside]
