"""The pace of launches against the length of operations: does the GPU finish each before the next is launched?

::

    host    |launch|   |launch|   |launch|        a launch every 20 us
    GPU           |#|        |#|        |#|       operations of 2 us: idle when the next launch begins

CUDA loads a kernel when it is launched for the first time (lazy loading, the default since CUDA 12.2)::

    host   |------- launch: loads, 140 us -------|   |launch 6|   |launch 6|
    GPU                                           |#|          |#|          |#|
"""

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import Indices, Times, Window
from nsyswrap.base.memo import memo
from nsyswrap.base.row_sums import typed_table
from nsyswrap.base.rows import chosen, taken
from nsyswrap.events.operations import SOURCES, launch_rows
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.own_windows import find_own_windows
from nsyswrap.loop.phase_detection import NO_PHASE
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, blocks, coded

# Share of operations launched too late. Source: captures with a known limit. Those bound by launches began 0.54 to 0.95
# of their operations on an idle GPU, those bound by data, a peer or the GPU itself 0.07 to 0.35.
LATE = 0.50
# Fewer launches than this are too few for a median. Source: ours.
FEW = 5
# From the begin of a call to the begin of its operation, where the operation does not wait for another one. Source: the
# medians of 11 captures are 6.6 to 10.9 us; twice the largest. Where launches follow one another faster than that, each
# begins while the operation before it runs, and the GPU goes idle all the same.
#
#     host   |launch 1|launch 2|launch 3|
#     GPU          |#|      |#|      |#|
LATENCY_NS = 20_000
# In a gap of more than this many usual launch intervals the host did something else than launch. Source: ours; the
# time of Python between two launches varies by a few times.
USUAL_INTERVALS = 10
# However far apart launches usually are, a longer time than this is no matter of their number: a launch call takes 2 to
# 20 us, and an operator of PyTorch tens of microseconds of Python and C++. Source: definitions of the root-cause rule,
# "launch_bound"; in 11 captures the median time from launch to launch is 13 to 27 us.
LONGEST_NS = 200_000


# A launch call takes 2 to 20 us, and nsys adds up to 32 us to it (docs/overhead.md). One that loads code took 73 us to
# 18 ms in seven public captures.
LOADING_NS = 50_000
# On a slow machine, one that loads code takes at least this many times as long as the usual launch call. Source: ours.
USUAL_CALLS = 5
_KERNELS, _MEMSETS = SOURCES.index(tables.KERNELS), SOURCES.index(tables.MEMSETS)


@dataclass(frozen=True, slots=True)
class LaunchTimes:
    """The operations of a window whose launch is known, in order of start: arrays of equal length.

    Attributes:
        row: Row in the context's operations, int32.
        began: When its launch call began, in ns.
        just_in_time: Whether its device was idle then.
        late: Whether its device was idle then, or went idle before the operation could begin.
        since: ns since the launch before it, of the same process on the same device; -1 for the first.
    """

    row: Indices
    began: Times
    just_in_time: npt.NDArray[np.bool_]
    late: npt.NDArray[np.bool_]
    since: Times


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast operations were launched and how long they ran.

    Attributes:
        count: Number of operations.
        just_in_time_share: Share of them launched on an idle device.
        late_share: Share of them launched too late to begin before the device went idle.
        median_launch_interval_ns: Median time between launches of the same process on the same device; None where
            there is only one launch.
        median_operation_ns: Median length of the operations.
    """

    count: int
    just_in_time_share: float
    late_share: float
    median_launch_interval_ns: float | None
    median_operation_ns: float

    @property
    def is_bound(self) -> bool:
        """Return whether launches limit the GPU: most are late, and operations are shorter than their interval.

        Launches that are far apart wait for other work of the host, which fewer launches would not shorten.
        """
        interval = self.median_launch_interval_ns
        return self.late_share >= LATE and interval is not None and self.median_operation_ns < interval <= LONGEST_NS


def by_phase(context: TraceContext, launched: LaunchTimes) -> pd.DataFrame:
    """Return the pace of each phase that launches operations, one row a phase, in the order of phases."""
    found = paces(context, launched)
    numbers = {
        "count": np.int64,
        **dict.fromkeys(("just_in_time_share", "median_launch_interval_ns", "median_operation_ns"), np.float64),
    }
    rows = [(phase, *(getattr(pace, column) for column in numbers)) for phase, pace in found.items()]
    return typed_table(rows, {"phase": str, **numbers})


def find_launches(context: TraceContext, window: Window) -> LaunchTimes:
    """Return the operations that touch a window and whose launch is known."""
    return _launched_in(context, window)


@memo
def _launched_in(context: TraceContext, window: Window) -> LaunchTimes:
    operations = context.operations
    low, high = find_own_windows(context, window).by_device(operations.device_id)
    inside = (operations.start < high) & (operations.end > low) & (operations.call >= 0)
    rows = np.flatnonzero(inside).astype(np.int32)
    began = taken(array(context.trace[tables.CALLS], "start"), taken(operations.call, rows))
    # When all operations before each one had ended on its device.
    ended = np.full(len(operations.start), np.iinfo(np.int64).min)
    for device in operations.devices:
        mine = operations.on(device)
        ended[mine[1:]] = np.maximum.accumulate(taken(operations.end, mine))[:-1]
    reach, start = taken(ended, rows), taken(operations.start, rows)
    on_idle = began >= reach
    late = on_idle | ((start > reach) & (start - began <= LATENCY_NS))
    since = np.full(len(rows), -1, np.int64)
    device_id, process = taken(operations.device_id, rows), taken(operations.process, rows)
    for device in tables.distinct(device_id):
        of_device = np.flatnonzero(device_id == device)
        owners = taken(process, of_device)
        for owner in tables.distinct(owners):
            mine = taken(of_device, owners == owner)
            mine = taken(mine, np.argsort(taken(began, mine), kind="stable"))
            interval = np.diff(taken(began, mine))
            since[mine[1:]] = np.where(interval > 0, interval, -1)
    return LaunchTimes(rows, began, on_idle, late, since)


def find_pace(context: TraceContext, launches: LaunchTimes, device_id: int) -> Pace | None:
    """Return the pace of one device; None where too few of its operations have a known launch."""
    launched = on_device(context, launches, device_id)
    return pace_of(context, launched) if len(launched.row) >= FEW else None


def usual_gap_ns(context: TraceContext, device_id: int, window: Window) -> float:
    """Return the longest gap that the usual pace of a window explains, in ns; ``LONGEST_NS`` where none is known."""
    return usual_gap_at(find_pace(context, find_launches(context, window), device_id))


def usual_gap_at(pace: Pace | None) -> float:
    """Return the longest gap that a pace of launches explains, in ns; ``LONGEST_NS`` where no pace is known."""
    interval = pace.median_launch_interval_ns if pace else None
    return min(USUAL_INTERVALS * interval, LONGEST_NS) if interval else LONGEST_NS


def on_device(context: TraceContext, launched: LaunchTimes, device_id: int) -> LaunchTimes:
    """Return the launches of one device."""
    chosen = taken(context.operations.device_id, launched.row) == device_id
    if chosen.all():
        return launched
    rows = np.flatnonzero(chosen)
    return LaunchTimes(*(taken(getattr(launched, field.name), rows) for field in fields(launched)))


def paces(context: TraceContext, launched: LaunchTimes) -> dict[str, Pace]:
    """Return the pace of each phase in the order of phases; launches outside of all phases come last."""
    phase = taken(context.phase_of_operations, launched.row)
    codes = [*range(len(context.phases.names)), NO_PHASE]
    chosen = ((context.phases.name(code), np.flatnonzero(phase == code)) for code in codes)
    return {name: pace_of(context, launched, mine) for name, mine in chosen if len(mine)}


def pace_of(context: TraceContext, launched: LaunchTimes, chosen: Indices | slice = slice(None)) -> Pace:
    """Return the pace of some launches together; of all that are given unless ``chosen`` has their indices."""
    rows = launched.row[chosen]
    known = launched.since[chosen]
    known = taken(known, known >= 0)
    length = np.empty(len(rows), np.int64)
    for some in blocks(len(rows)):
        ended, begun = (taken(side, rows[some]) for side in (context.operations.end, context.operations.start))
        np.subtract(ended, begun, out=length[some])
    return Pace(
        count=len(rows),
        just_in_time_share=float(launched.just_in_time[chosen].mean()),
        late_share=float(launched.late[chosen].mean()),
        median_launch_interval_ns=float(np.median(known)) if len(known) else None,
        median_operation_ns=float(np.median(length)),
    )


@memo
def find_loading_launches(context: TraceContext) -> Indices:
    """Return the calls that launch a kernel for the first time and take far longer than a launch call, as rows.

    A memset counts as a kernel, since the driver runs one for it. The launch of a CUDA graph does not: its kernels were
    loaded when it was made. Nothing is returned where a part of the capture was read, which may lack the first launch.

    Returns:
        Rows of ``trace[CALLS]``, ascending.
    """
    operations, trace = context.operations, context.trace
    rows = np.flatnonzero((operations.call >= 0) & np.isin(operations.table, (_KERNELS, _MEMSETS)))
    call = taken(operations.call, rows)
    if len(graphs := launch_rows(trace)):
        call, rows = chosen(~np.isin(call, graphs), call, rows)
    if trace.excerpt is not None or not len(rows):
        return np.empty(0, np.intp)
    calls = trace[tables.CALLS]
    begun = taken(array(calls, "start"), call)
    length = taken(array(calls, "end"), call) - begun
    order = np.argsort(begun, kind="stable")
    rows = taken(rows, order)
    # The code of each kernel's name; -1 for memsets.
    name = np.full(len(rows), -1, np.int32)
    kernels = taken(operations.table, rows) == _KERNELS
    names = coded(context.trace[tables.KERNELS], "name_id").codes
    name[kernels] = taken(names, taken(operations.row, taken(rows, kernels)))
    _, first = tables.groups([taken(operations.process, rows), taken(operations.device_id, rows), name])
    is_first = np.zeros(len(rows), bool)
    is_first[order[first]] = True
    others = length[~is_first]
    usual = float(np.median(others)) if len(others) >= FEW else 0
    found: Indices = np.unique(call[is_first & (length > max(LOADING_NS, USUAL_CALLS * usual))])
    return found
