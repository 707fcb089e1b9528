"""Which ranks are late beyond chance: others wait longer for such a rank than it waits for them.

The rank that arrives last in nearly every collective may cost nothing, and a rank that is late once may just have been
unlucky. So the waits of each step are summed, and a rank is late if the sum exceeds what chance explains. The interval
is by bootstrap over steps.

The host of a rank that waits may be steps ahead of that of the late one, as far as the queue of its GPU reaches. Then
the steps that are measured are not the same on all GPUs, and at the edges waits for a rank are not in sight::

    rank 0    | step 5 | step 6 | step 7 | step 8 |
    rank 1             | step 5 | step 6 | step 7 | step 8 |
                       |........ in sight ........|

So waits count in the part in which all ranks are measured, and stand for the whole window.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from nsyswrap.base.interval import Interval, around
from nsyswrap.base.intervals import Indices, Times, Window
from nsyswrap.loop.step_detection import Steps
from nsyswrap.ranks.charging import Charges
from nsyswrap.ranks.collectives import Collectives
from nsyswrap.ranks.same_work import UNNAMED
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array

# Resampled series of steps, and the bounds of a 95 % interval. Source: Efron and Tibshirani, An Introduction to the
# Bootstrap: 1000 or more for percentile intervals.
RESAMPLES = 2000
PERCENTILES = (2.5, 97.5)
SEED = 20260101
# Where the window has no steps, it is cut into this many equal parts.
PARTS = 20


@dataclass(frozen=True)
class LateRank:
    """A rank that others wait for.

    Attributes:
        device_id: Its GPU.
        waiting: GPUs of the ranks that wait for it, those that wait longest first.
        lost_ns: Exposed wait for it in the window: in each collective, the shortest wait of the ranks that wait for
            it, summed for one rank in the middle of them.
        net: That, less what the rank itself waits for others, in ns: what the job saves if the rank is in time. The
            range is what chance and the error of the clocks leave.
        steps: Number of steps, or of parts, of the window.
        share_late: Share of them in which others waited longer for it than it waited for others.
    """

    device_id: int
    waiting: tuple[int, ...]
    lost_ns: int
    net: Interval[int]
    steps: int
    share_late: float


def find_late_ranks(
    steps: Steps, clock_errors: Mapping[int, int], window: Window, collectives: Collectives, charges: Charges
) -> tuple[LateRank, ...]:
    """Return the ranks that others wait for beyond chance and for a cause that can be named, the costliest first.

    Hosts of equal ranks differ a little in their pace, so one of them is always last. That is not a cause.

    Args:
        steps: The steps of all ranks.
        clock_errors: How wrong the times of each process can be, in ns, by global id.
        window: Interval of the charges.
        collectives: The collectives of all ranks.
        charges: Who waits for whom.
    """
    named = ~np.isin(charges.rule.astype(str), list(UNNAMED))
    charges = charges.of(named & (charges.waiting != charges.late))  # A wait can come back to the rank that waits.
    if not len(charges.wait_ns):
        return ()
    part, whole = in_sight(steps, window, collectives), steps.total_ns
    edges, late_ranks = _edges(steps, window), []
    # Of stages that only begin a part of a step later, all steps are in sight.
    if steps.windows_of(window) and part.length_ns < (1 - 1 / (2 * steps.measured_count)) * whole:
        edges = np.unique(np.clip(edges, part.start_ns, part.end_ns))
        arrived = _arrivals(collectives)[charges.collective]
        charges = charges.of((arrived >= part.start_ns) & (arrived <= part.end_ns)).stretched(whole / part.length_ns)
    for device in tables.distinct(charges.late).tolist():
        lost = _lost_by_step(collectives, charges, device, edges)
        its = charges.waiting == device
        awaited, waits = _summed(charges.collective[its], charges.wait_ns[its])
        more = lost - _by_step(collectives, awaited, waits, edges)
        if more.sum() <= 0:
            continue
        # The bounds of a 95 % interval of the sum over steps, by bootstrap over the steps.
        random = np.random.default_rng(SEED)
        drawn = random.integers(len(more), size=(RESAMPLES, len(more)))
        ends = np.percentile(more[drawn].sum(axis=1), PERCENTILES).tolist()
        net = around(int(more.sum()), *map(round, ends))
        unsure = _clock_error(clock_errors, collectives, charges, device)
        if net.low <= unsure:
            continue
        for_it = charges.late == device
        waiting, times = _summed(charges.waiting[for_it], charges.wait_ns[for_it])
        late_ranks.append(
            LateRank(
                device_id=device,
                waiting=tuple(waiting[np.argsort(-times, kind="stable")].tolist()),
                lost_ns=int(lost.sum()),
                net=Interval(net.low - unsure, net.point, net.high + unsure),
                steps=len(more),
                share_late=float((more > 0).mean()),
            )
        )
    return tuple(sorted(late_ranks, key=lambda rank: (-rank.lost_ns, rank.device_id)))


def in_sight(steps: Steps, window: Window, collectives: Collectives) -> Window:
    """Return the part of a window in which the steps of all ranks are measured, and all parts of each collective known.

    Args:
        steps: The steps of all ranks.
        window: The window.
        collectives: The collectives of all ranks.
    """
    own = steps.windows_of(window).values()
    start, end = max((each.start_ns for each in own), default=0), min((each.end_ns for each in own), default=0)
    start, end = (start, end) if start < end else (window.start_ns, window.end_ns)
    matched = np.flatnonzero(collectives.matched)
    group = collectives.group[matched]
    members, arrived = np.bincount(group), _arrivals(collectives)
    most = np.zeros(len(collectives.sizes), np.intp)
    np.maximum.at(most, collectives.communicator[matched], members[group])
    is_cut = members[group] < most[collectives.communicator[matched]]
    cut = arrived[group[is_cut]]
    cut = cut[(cut > start) & (cut < end)]
    middle = (start + end) // 2
    return replace(
        window,
        start_ns=int(cut[cut <= middle].max(initial=start)),
        end_ns=int(cut[cut > middle].min(initial=end)),
    )


def _clock_error(errors: Mapping[int, int], collectives: Collectives, charges: Charges, device: int) -> int:
    """Return how wrong the waits for a rank can be in all, in ns: in each collective by the error of two clocks."""
    if not errors:
        return 0
    of_gpu = {rank.device_id: errors.get(rank.process, 0) for rank in collectives.ranks.each}
    mine = charges.late == device
    others = max((of_gpu.get(each, 0) for each in tables.distinct(charges.waiting[mine]).tolist()), default=0)
    return (of_gpu.get(device, 0) + others) * len(tables.distinct(charges.collective[mine]))


def _edges(all_steps: Steps, window: Window) -> Times:
    """Return where the steps of the window begin, and its end; equal parts of it where there are no steps."""
    steps = all_steps.measured
    if window.is_of_steps and len(steps):
        first = steps[steps["process"] == steps["process"].iloc[0]].drop_duplicates("number")
        return np.concatenate([[window.start_ns], array(first, "start")[1:], [window.end_ns]]).astype(np.int64)
    return np.linspace(window.start_ns, window.end_ns, PARTS + 1).round().astype(np.int64)


def _lost_by_step(collectives: Collectives, charges: Charges, device: int, edges: Times) -> Times:
    """Return by how much a rank delays the others in each step, in ns.

    In one collective the delay is the shortest wait for it: without the late rank, the rank with this wait would be
    last. Where ranks wait in different collectives, as for the messages of a pipeline, the same delay reaches one after
    another. So delays add up along one rank: that at which half of all waits is reached, from the shortest sum up::

        rank 0    |...............wait for 1.|
        rank 1    |.. late ..|##|message|
        rank 2    |...wait for 1...|##|
        rank 3    |........wait for 2, so for 1.|     the job loses one of these waits, not three
    """
    mine = np.flatnonzero(charges.late == device)
    width = int(charges.waiting.max()) + 1
    pairs, times = _summed(charges.collective[mine] * width + charges.waiting[mine], charges.wait_ns[mine])
    group, waiting = pairs // width, pairs % width
    is_first = np.append(True, group[1:] != group[:-1])[: len(group)]
    least = np.minimum.reduceat(times, np.flatnonzero(is_first))
    delays = least[np.cumsum(is_first) - 1]
    ranks, sums = _summed(waiting, delays)
    order = np.argsort(sums, kind="stable")
    reached = np.cumsum(sums[order])
    along = waiting == ranks[order[int(np.searchsorted(2 * reached, reached[-1]))]]
    return _by_step(collectives, group[along], delays[along], edges)


def _by_step(collectives: Collectives, group: Indices, times: Times, edges: Times) -> Times:
    """Return the sum of the times in each step; a collective belongs to the step in which its last rank arrives."""
    step = np.clip(np.searchsorted(edges, _arrivals(collectives)[group], side="right") - 1, 0, len(edges) - 2)
    by_step = np.zeros(len(edges) - 1, np.int64)
    np.add.at(by_step, step, times)
    return by_step


def _arrivals(collectives: Collectives) -> Times:
    """Return when the last rank arrives at each collective, by its number, in ns."""
    matched = np.flatnonzero(collectives.matched)
    arrived = np.zeros(int(collectives.group.max(initial=-1)) + 1, np.int64)
    np.maximum.at(arrived, collectives.group[matched], collectives.arrival[matched])
    return arrived


def _summed(keys: Indices, times: Times) -> tuple[Indices, Times]:
    """Return the distinct keys, ascending, and the sum of the times of each."""
    distinct, codes = np.unique(keys, return_inverse=True)
    sums = np.zeros(len(distinct), np.int64)
    np.add.at(sums, codes, times)
    return distinct, sums


def by_account(charges: Charges, device: int) -> list[tuple[str, int, int, npt.NDArray[np.bool_]]]:
    """Return what kept a rank, the longest waits first: rule, phase code, exposed wait in ns, and the charges."""
    rows = []
    mine = charges.late == device
    for rule, phase in sorted(set(zip(charges.rule[mine].tolist(), charges.phase[mine].tolist(), strict=True))):
        chosen = mine & (charges.rule == rule) & (charges.phase == phase)
        rows.append((str(rule), int(phase), int(charges.wait_ns[chosen].sum()), chosen))
    return sorted(rows, key=lambda each: (-each[2], each[0], each[1]))
