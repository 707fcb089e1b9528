"""How fast operations were launched, and how long they ran: does the GPU finish each before the next is launched?

::

    host    |launch|   |launch|   |launch|        a launch every 20 us
    GPU           |#|        |#|        |#|       operations of 2 us: idle when the next launch begins
"""

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import tables
from nsyswrap.events.operations import Operations
from nsyswrap.intervals import Indices, Times, Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import NO_PHASE
from nsyswrap.tables import array

# Source: the captures of definite runs that the rule was tried on. Those bound by launches began 0.54 to 0.95 of their
# operations on an idle GPU, those bound by data, a peer or the GPU itself 0.07 to 0.35.
LATE = 0.50
# Fewer launches are no loop, and their pace says nothing. Source: ours.
FEW = 5
# From the begin of a call to that of its operation, where that does not wait for another one. Source: the medians of 11
# captures are 6.6 to 10.9 us; twice the largest. Where launches follow one another faster than that, each begins while
# the operation before it runs, and still comes too late.
#
#     host   |launch 1|launch 2|launch 3|
#     GPU          |#|      |#|      |#|
LATENCY_NS = 20_000
# A gap that takes longer than this many usual launch intervals is no matter of pace: the host did something else.
# Source: ours; Python between two launches varies by a few times.
USUAL_INTERVALS = 10


@dataclass(frozen=True, slots=True)
class LaunchTimes:
    """The operations of a window whose launch is known, in order of start: arrays of equal length.

    Attributes:
        row: Row in the context's operations.
        began: When its launch call began, in ns.
        just_in_time: Whether its device was idle then.
        late: Whether its device was idle then, or was so before the operation could follow: launched too late for it
            to begin where the one before ended.
    """

    row: Indices
    began: Times
    just_in_time: npt.NDArray[np.bool_]
    late: npt.NDArray[np.bool_]
    since: Times


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast some operations were launched and how long they ran.

    Attributes:
        count: Operations.
        just_in_time_share: Share of them launched on an idle device.
        late_share: Share of them that their launch came too late for.
        median_launch_interval_ns: From the launch before, of the same process on the same device, to theirs; None
            without one.
        median_operation_ns: Their length.
    """

    count: int
    just_in_time_share: float
    late_share: float
    median_launch_interval_ns: float | None
    median_operation_ns: float

    @property
    def is_bound(self) -> bool:
        """Return whether the GPU is faster than the launches: most come too late for it, and it is done between two."""
        interval = self.median_launch_interval_ns
        return self.late_share >= LATE and interval is not None and interval > self.median_operation_ns


def by_phase(context: TraceContext, launched: LaunchTimes) -> pd.DataFrame:
    """Return the pace of each phase in which operations were launched, in the order of phases."""
    found = paces(context, launched)
    columns = ["phase", "count", "just_in_time_share", "median_launch_interval_ns", "median_operation_ns"]
    rows = [(phase, *(getattr(pace, column) for column in columns[1:])) for phase, pace in found.items()]
    return pd.DataFrame(rows, columns=columns).astype({"median_launch_interval_ns": float})


def find_launches(context: TraceContext, window: Window) -> LaunchTimes:
    """Return the operations that touch a window and whose launch is known."""
    operations = context.operations
    inside = (operations.start < window.end_ns) & (operations.end > window.start_ns) & (operations.call >= 0)
    rows = np.flatnonzero(inside)
    began = array(context.trace[tables.CALLS], "start")[operations.call[rows]]
    reach, start = _reach_before(context, rows), operations.start[rows]
    on_idle = began >= reach
    late = on_idle | ((start > reach) & (start - began <= LATENCY_NS))
    return LaunchTimes(rows, began, on_idle, late, _since(operations, rows, began))


def _since(operations: Operations, rows: Indices, began: Times) -> Times:
    """Return how long before each launch the one before began, of the same process and device; -1 where none did."""
    found = np.full(len(rows), -1, np.int64)
    device, process = operations.device_id[rows], operations.process[rows]
    for each in tables.distinct(device):
        of_device = np.flatnonzero(device == each)
        for owner in tables.distinct(process[of_device]):
            mine = of_device[process[of_device] == owner]
            mine = mine[np.argsort(began[mine], kind="stable")]
            interval = np.diff(began[mine])
            found[mine[1:]] = np.where(interval > 0, interval, -1)
    return found


def _reach_before(context: TraceContext, rows: Indices) -> Times:
    """Return when the device's last operation before each one ended; the beginning of time for a device's first."""
    operations = context.operations
    reach = np.full(len(operations.start), np.iinfo(np.int64).min)
    for device in operations.devices:
        mine = operations.on(device)
        reach[mine[1:]] = np.maximum.accumulate(operations.end[mine])[:-1]
    return reach[rows]


def find_pace(context: TraceContext, device_id: int, window: Window) -> Pace | None:
    """Return the pace of one device inside a window; None where too few operations have a known launch."""
    launched = on_device(context, find_launches(context, window), device_id)
    return pace_of(context, launched) if len(launched.row) >= FEW else None


def usual_gap_ns(context: TraceContext, device_id: int, window: Window) -> float:
    """Return how long a gap may last between launches at their usual pace; without limit where no pace is known."""
    pace = find_pace(context, device_id, window)
    interval = pace.median_launch_interval_ns if pace else None
    return USUAL_INTERVALS * interval if interval else float("inf")


def on_device(context: TraceContext, launched: LaunchTimes, device_id: int) -> LaunchTimes:
    """Return the launches of one device."""
    return _only(launched, np.flatnonzero(context.operations.device_id[launched.row] == device_id))


def pace_of(context: TraceContext, launched: LaunchTimes) -> Pace:
    """Return the pace of some launches, all together."""
    return _pace(context, launched, np.arange(len(launched.row)))


def _only(launched: LaunchTimes, chosen: Indices) -> LaunchTimes:
    return LaunchTimes(*(getattr(launched, field.name)[chosen] for field in fields(launched)))


def paces(context: TraceContext, launched: LaunchTimes) -> dict[str, Pace]:
    """Return the pace of each phase, in the order of phases, those without one last."""
    phase = context.phase_of_operations[launched.row]
    codes = [*range(len(context.phases.names)), NO_PHASE]
    chosen = {context.phases.name(code): np.flatnonzero(phase == code) for code in codes}
    return {name: _pace(context, launched, mine) for name, mine in chosen.items() if len(mine)}


def _pace(context: TraceContext, launched: LaunchTimes, chosen: Indices) -> Pace:
    rows = launched.row[chosen]
    known = launched.since[chosen]
    known = known[known >= 0]
    return Pace(
        count=len(rows),
        just_in_time_share=float(launched.just_in_time[chosen].mean()),
        late_share=float(launched.late[chosen].mean()),
        median_launch_interval_ns=float(np.median(known)) if len(known) else None,
        median_operation_ns=float(np.median(context.operations.end[rows] - context.operations.start[rows])),
    )
