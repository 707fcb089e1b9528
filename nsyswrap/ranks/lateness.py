"""Who waits for whom, and why: each exposed wait is charged to the rank that came last and to what kept it.

Two ranks are in step when the compute of both goes on after a collective. From then on, compare what each rank did
until it arrived at a later collective. The difference explains the wait to the nanosecond::

    rank 0    in step |## forward ##|## backward ##|......... waits ..........|==transfer==|
    rank 1    in step |...data loader...........|## forward ##|## backward ##||==transfer==|
    more in rank 1     data loader                                             = the wait of rank 0

A wait is divided in proportion to the accounts in which the late rank has more time than the waiting one. Where the
late rank has itself waited longer, for a third rank, the wait goes on to that rank and what kept it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from nsyswrap.attribution.attribution import Attribution
from nsyswrap.base.intervals import Times, Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.own_windows import find_own_windows
from nsyswrap.loop.phase_detection import NO_PHASE, NONE
from nsyswrap.ranks.activity import Activity, find_activities
from nsyswrap.ranks.charging import NO_CHARGES, Charges, charged
from nsyswrap.ranks.collectives import Collectives
from nsyswrap.ranks.in_step import find_lags
from nsyswrap.ranks.rank_times import exposed, split_of, times_of


@dataclass(frozen=True)
class Lateness:
    """Who waits for whom in the window.

    Attributes:
        charges: The waits.
        activities: What each rank did, by GPU.
        exposed_wait: Exposed wait of each kernel of the collectives inside the window, in ns.
        exposed_transfer: Exposed transfer of each.
        phases: Name of each phase code of the charges.
    """

    charges: Charges
    activities: Mapping[int, Activity]
    exposed_wait: Times
    exposed_transfer: Times
    phases: tuple[str, ...] = ()

    def phase_name(self, code: int) -> str:
        """Return the name of a phase code of the charges; "none" for no phase."""
        return NONE if code == NO_PHASE else self.phases[code]


def find_lateness(
    context: TraceContext, window: Window, collectives: Collectives, attributions: tuple[Attribution, ...]
) -> Lateness:
    """Return the exposed waits of a window, each charged to the rank that came last and to what kept it."""
    wait, transfer = exposed_parts(context, collectives, window)
    phases = context.phases.names
    if not collectives.matched.any():
        return Lateness(NO_CHARGES, {}, wait, transfer, phases)
    activities = find_activities(context, collectives, attributions)
    lags = find_lags(context, collectives)
    times = []
    for device, activity in activities.items():
        mine, timed = collectives.on(device), collectives.timed(device)
        own = find_own_windows(context, window).on(device)
        split = split_of(collectives.exclusive(context.operations, device, own), timed, own)
        times.append(times_of(context, own, activity, timed, lags[mine], split))
    return Lateness(charged(collectives, times, window, phases), activities, wait, transfer, phases)


def exposed_parts(context: TraceContext, collectives: Collectives, window: Window) -> tuple[Times, Times]:
    """Return the exposed wait and the exposed transfer of each kernel of the collectives inside a window, in ns."""
    wait, transfer = np.zeros(len(collectives.row), np.int64), np.zeros(len(collectives.row), np.int64)
    for device in np.unique(collectives.device_id).tolist():
        mine, own = collectives.on(device), find_own_windows(context, window).on(device)
        spans = collectives.exclusive(context.operations, device, own)
        wait[mine], transfer[mine] = exposed(spans, collectives.timed(device))
    return wait, transfer
