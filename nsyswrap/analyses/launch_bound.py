"""Is the run bound by launches: the GPU finishes what it was given before the host has launched the next?

::

    host    |launch|   |launch|   |launch|        a launch every 20 us
    GPU           |#|        |#|        |#|       operations of 2 us: idle when the next launch begins
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import units
from nsyswrap.analyses.annotations import NO_PHASE
from nsyswrap.analyses.base import Study
from nsyswrap.analyses.causes import CAUSES, idle_sums
from nsyswrap.analyses.idle_findings import NOTE_SHARE, WARNING_SHARE
from nsyswrap.analyses.replay_changes import gains, one_launch
from nsyswrap.intervals import Indices, Times, Window
from nsyswrap.model import Finding, Severity

# Source: the captures of definite runs that the rule was tried on. Those bound by launches began 0.54 to 0.95 of their
# operations on an idle GPU, those bound by data, a peer or the GPU itself 0.07 to 0.35.
JUST_IN_TIME = 0.50
# Where the host waits for something else this much of the idle time, more launches at once would not help it.
OTHER_CAUSES = ("input_wait", "input_work", "synchronization", "blocking_copy", "lock", "peer_wait")
OTHER_SHARE = 0.30
# The idle time that fewer launches would shorten.
BETWEEN_LAUNCHES = ("host", "launch")


@dataclass(frozen=True, slots=True)
class Launched:
    """The operations of a window whose launch is known, in order of start: arrays of equal length.

    Attributes:
        row: Row in the study's operations.
        began: When its launch call began, in ns.
        just_in_time: Whether its device was idle then.
    """

    row: Indices
    began: Times
    just_in_time: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast some operations were launched and how long they ran.

    Attributes:
        count: Operations.
        just_in_time_share: Share of them launched on an idle device.
        median_launch_interval_ns: From the launch before to theirs; None without one.
        median_operation_ns: Their length.
    """

    count: int
    just_in_time_share: float
    median_launch_interval_ns: float | None
    median_operation_ns: float

    @property
    def is_bound(self) -> bool:
        """Return whether the GPU is faster than the launches: it idles at most of them, and is done between two."""
        interval = self.median_launch_interval_ns
        return self.just_in_time_share >= JUST_IN_TIME and interval is not None and interval > self.median_operation_ns


def by_phase(study: Study, launched: Launched) -> pd.DataFrame:
    """Return the pace of each phase in which operations were launched, in the order of phases."""
    paces = _paces(study, launched)
    columns = ["phase", "count", "just_in_time_share", "median_launch_interval_ns", "median_operation_ns"]
    rows = [(phase, *(getattr(pace, column) for column in columns[1:])) for phase, pace in paces.items()]
    return pd.DataFrame(rows, columns=columns).astype({"median_launch_interval_ns": float})


def findings(study: Study, launched: Launched, window: Window) -> tuple[Finding, ...]:
    """Return one finding for each device that is bound by launches.

    It costs no time of its own: what the GPU idles between launches stands under ``idle/host`` and ``idle/launch``.
    """
    device_id = study.operations.device_id[launched.row]
    found = []
    for device in study.operations.devices:
        chosen = np.flatnonzero(device_id == device)
        if not len(chosen) or launched.just_in_time[chosen].mean() < JUST_IN_TIME:
            continue
        mine = _only(launched, chosen)
        pace = _pace(study, mine, np.arange(len(mine.row)), _intervals(mine.began))
        if pace.is_bound and (finding := _finding(study, mine, pace, device, window)):
            found.append(finding)
    return tuple(sorted(found, key=lambda finding: finding.order))


def _finding(study: Study, launched: Launched, pace: Pace, device: int, window: Window) -> Finding | None:
    """Return the finding of one device, None where its idle time is small or has another cause."""
    idle = idle_by_cause(study, device, window)
    whole, between = sum(idle.values()), sum(idle[cause] for cause in BETWEEN_LAUNCHES)
    if sum(idle[cause] for cause in OTHER_CAUSES) >= OTHER_SHARE * whole or between < NOTE_SHARE * window.length_ns:
        return None
    gained = gains(study, window, one_launch)
    phases = {name: each for name, each in _paces(study, launched).items() if each.is_bound}
    return Finding(
        rule="launches/launch_bound",
        severity=Severity.WARNING if between >= WARNING_SHARE * window.length_ns else Severity.NOTE,
        headline=f"The run is bound by launches: the GPU was idle when {units.share(pace.just_in_time_share)} of them "
        "began.",
        cost_ns=0,
        gain_low_ns=gained.low_ns,
        gain_high_ns=gained.high_ns,
        advice="Launch less and longer operations: torch.compile, CUDA graphs "
        '(torch.compile(mode="reduce-overhead")), a fused optimizer (fused=True), or a larger batch.',
        evidence=(
            f"all: {_words(pace)}",
            *(f"phase {name}: {_words(each)}" for name, each in phases.items()),
            f"{units.duration(between)} of idle time between launches, counted under idle/host and idle/launch",
            *gained.said,
        ),
        device_id=device,
        window=window,
    )


def idle_by_cause(study: Study, device: int, window: Window) -> dict[str, int]:
    """Return the idle time of one device by cause, in ns; 0 for causes it does not have."""
    return dict(zip(CAUSES, idle_sums(study, device, window).total.tolist(), strict=True))


def _words(pace: Pace) -> str:
    interval = pace.median_launch_interval_ns
    return (
        f"{units.count(pace.count)} operations, {units.share(pace.just_in_time_share)} launched on an idle GPU, "
        f"one every {units.duration(interval or 0)}, {units.duration(pace.median_operation_ns)} long (medians)"
    )


def _only(launched: Launched, chosen: Indices) -> Launched:
    return Launched(launched.row[chosen], launched.began[chosen], launched.just_in_time[chosen])


def _intervals(began: Times) -> Times:
    """Return for each launch how long before it the one before began; -1 for the first and for those of one call."""
    order = np.argsort(began, kind="stable")
    found = np.full(len(began), -1, np.int64)
    found[order[1:]] = np.diff(began[order])
    # One call may launch many operations, as that of a CUDA graph does: the first of them has the interval.
    found[found == 0] = -1
    return found


def _paces(study: Study, launched: Launched) -> dict[str, Pace]:
    """Return the pace of each phase, in the order of phases, those without one last."""
    phase = study.phase_of_operations[launched.row]
    intervals = _intervals(launched.began)
    codes = [*range(len(study.phases.names)), NO_PHASE]
    chosen = {study.phases.name(code): np.flatnonzero(phase == code) for code in codes}
    return {name: _pace(study, launched, mine, intervals) for name, mine in chosen.items() if len(mine)}


def _pace(study: Study, launched: Launched, chosen: Indices, intervals: Times) -> Pace:
    rows = launched.row[chosen]
    known = intervals[chosen]
    known = known[known >= 0]
    return Pace(
        count=len(rows),
        just_in_time_share=float(launched.just_in_time[chosen].mean()),
        median_launch_interval_ns=float(np.median(known)) if len(known) else None,
        median_operation_ns=float(np.median(study.operations.end[rows] - study.operations.start[rows])),
    )
