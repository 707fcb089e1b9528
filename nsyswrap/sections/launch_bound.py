"""Is the run bound by launches: the GPU finishes what it was given before the host has launched the next?

::

    host    |launch|   |launch|   |launch|        a launch every 20 us
    GPU           |#|        |#|        |#|       operations of 2 us: idle when the next launch begins
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import tables, units
from nsyswrap.events.operations import Operations
from nsyswrap.intervals import Indices, Times, Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import NO_PHASE
from nsyswrap.model import Finding, Severity
from nsyswrap.sections.idle_findings import NOTE_SHARE, PROBLEM_SHARE, WARNING_SHARE
from nsyswrap.tables import array
from nsyswrap.what_if.changes import gains, one_launch

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
# Where the host waits for something else this much of the idle time, more launches at once would not help it.
OTHER_CAUSES = ("data_wait", "data_work", "synchronization", "blocking_copy", "lock", "peer_wait")
OTHER_SHARE = 0.30
# The idle time that fewer launches would shorten.
BETWEEN_LAUNCHES = ("cpu", "launch")


@dataclass(frozen=True, slots=True)
class Launched:
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


def by_phase(context: TraceContext, launched: Launched) -> pd.DataFrame:
    """Return the pace of each phase in which operations were launched, in the order of phases."""
    paces = _paces(context, launched)
    columns = ["phase", "count", "just_in_time_share", "median_launch_interval_ns", "median_operation_ns"]
    rows = [(phase, *(getattr(pace, column) for column in columns[1:])) for phase, pace in paces.items()]
    return pd.DataFrame(rows, columns=columns).astype({"median_launch_interval_ns": float})


def find_launched(context: TraceContext, window: Window) -> Launched:
    """Return the operations that touch a window and whose launch is known."""
    operations = context.operations
    inside = (operations.start < window.end_ns) & (operations.end > window.start_ns) & (operations.call >= 0)
    rows = np.flatnonzero(inside)
    began = array(context.trace[tables.CALLS], "start")[operations.call[rows]]
    reach, start = _reach_before(context, rows), operations.start[rows]
    on_idle = began >= reach
    late = on_idle | ((start > reach) & (start - began <= LATENCY_NS))
    return Launched(rows, began, on_idle, late, _since(operations, rows, began))


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


def is_bound(context: TraceContext, device_id: int, window: Window, idle: Mapping[str, int], between: int) -> bool:
    """Return whether a device is bound by launches, and nothing else holds the host for long.

    Args:
        context: The trace and its operations.
        device_id: The GPU.
        window: Stretch it is about.
        idle: Its idle time by cause in ns; causes may be missing.
        between: What of it lies between launches and has no root of its own, in ns.
    """
    if sum(idle.get(cause, 0) for cause in OTHER_CAUSES) >= OTHER_SHARE * sum(idle.values()):
        return False
    if between < NOTE_SHARE * window.length_ns:
        return False
    launched = _on(context, find_launched(context, window), device_id)
    return len(launched.row) >= FEW and _pace_of(context, launched).is_bound


def _on(context: TraceContext, launched: Launched, device_id: int) -> Launched:
    return _only(launched, np.flatnonzero(context.operations.device_id[launched.row] == device_id))


def _pace_of(context: TraceContext, launched: Launched) -> Pace:
    return _pace(context, launched, np.arange(len(launched.row)))


def findings(
    context: TraceContext, launched: Launched, window: Window, claimed: Mapping[int, int]
) -> tuple[Finding, ...]:
    """Return one finding for each device that is bound by launches.

    Args:
        context: The trace and its operations.
        launched: What was launched in the window.
        window: Stretch it is about.
        claimed: What each device idles between launches, in ns; nothing where it is not bound by them.
    """
    found = []
    for device, between in claimed.items():
        mine = _on(context, launched, device)
        if len(mine.row) and between >= NOTE_SHARE * window.length_ns:
            found.append(_finding(context, mine, device, window, between))
    return tuple(sorted(found, key=lambda finding: finding.order))


def _finding(context: TraceContext, launched: Launched, device: int, window: Window, between: int) -> Finding:
    pace, share = _pace_of(context, launched), between / window.length_ns
    gained = gains(context, window, one_launch).within(between)
    phases = {name: each for name, each in _paces(context, launched).items() if each.is_bound}
    grave = Severity.PROBLEM if share >= PROBLEM_SHARE else Severity.WARNING
    return Finding(
        rule="launches/launch_bound",
        severity=grave if share >= WARNING_SHARE else Severity.NOTE,
        headline=f"The GPU waits {units.share(share)} of the time for the next launch: "
        f"{units.share(pace.late_share)} of them come too late for it.",
        lost_ns=between,
        saving_low_ns=gained.low_ns,
        saving_high_ns=gained.high_ns,
        advice="Launch less and longer operations: torch.compile, CUDA graphs "
        '(torch.compile(mode="reduce-overhead")), a fused optimizer (fused=True), or a larger batch.',
        evidence=(
            f"all: {_words(pace)}",
            *(f"phase {name}: {_words(each)}" for name, each in phases.items()),
            *gained.said,
        ),
        device_id=device,
        window=window,
    )


def _words(pace: Pace) -> str:
    interval = pace.median_launch_interval_ns
    return (
        f"{units.count(pace.count)} operations, {units.share(pace.late_share)} launched too late, "
        f"one every {units.duration(interval or 0)}, {units.duration(pace.median_operation_ns)} long (medians)"
    )


def _only(launched: Launched, chosen: Indices) -> Launched:
    return Launched(*(getattr(launched, field.name)[chosen] for field in fields(launched)))


def _paces(context: TraceContext, launched: Launched) -> dict[str, Pace]:
    """Return the pace of each phase, in the order of phases, those without one last."""
    phase = context.phase_of_operations[launched.row]
    codes = [*range(len(context.phases.names)), NO_PHASE]
    chosen = {context.phases.name(code): np.flatnonzero(phase == code) for code in codes}
    return {name: _pace(context, launched, mine) for name, mine in chosen.items() if len(mine)}


def _pace(context: TraceContext, launched: Launched, chosen: Indices) -> Pace:
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
