"""Who waits for whom, and why: each exposed wait is charged to the rank that came last and to what kept it.

Two ranks are in step when the compute of both goes on after a collective. From then on, compare what each rank did
until it arrived at a later collective. The difference explains the wait to the nanosecond::

    rank 0    in step |## forward ##|## backward ##|......... waits ..........|==transfer==|
    rank 1    in step |...data loader...........|## forward ##|## backward ##||==transfer==|
    more in rank 1     data loader                                             = the wait of rank 0

A wait is divided in proportion to the accounts in which the late rank has more time than the waiting one. Where the
late rank has itself waited longer, for a third rank, the wait goes on to that rank and what kept it.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import tables
from nsyswrap.attribution.attribution import Attribution
from nsyswrap.events.operations import COMMUNICATION
from nsyswrap.intervals import Indices, Times, Window, innermost, overlay
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import NO_PHASE, OPTIMIZER
from nsyswrap.ranks.activity import (
    COMPUTES,
    COPIES,
    TRANSFERS,
    USUAL,
    WAITS,
    Activity,
    account_of,
    code_of,
    find_activities,
)
from nsyswrap.ranks.collectives import Collectives
from nsyswrap.ranks.in_step import GATED_NS, find_lags

SLOWER_GPU, MORE_WORK = "ranks/slower_gpu", "ranks/uneven_input"
PACE, UNKNOWN = "ranks/pace", "ranks/unknown"
# Rules that name no cause: hosts of equal ranks differ in their pace, and a late rank has its own transfers.
UNNAMED = frozenset({PACE, UNKNOWN})
BUSY_RULES = {TRANSFERS: UNKNOWN, COPIES: "copies/exposed", WAITS: UNKNOWN}
# Two ranks are in step where the late one has no more left to compute than this share of the wait. Ours.
LAG_SHARE = 0.25
# Two ranks do the same work where this share of their kernels has the same name and grid. Ours: ranks of one program
# with equal inputs have it at 1; a few kernels chosen by measuring may differ.
ALIKE_SHARE = 0.95

# A rank launches more than another in a phase where it has more than this many times as many operations. Ours.
MORE_LAUNCHES = 1.5
# Kernels of a slower GPU take more than this many times as long. Ours: on two like GPUs with the same kernels and
# little communication they took 1.002 times as long.
SLOWER = 1.02


@dataclass(frozen=True)
class Charges:
    """The exposed waits of the window: arrays of one value for each charge.

    Attributes:
        waiting: GPU that waits.
        late: GPU of the rank that kept it waiting.
        rule: What kept the late rank: a rule of idle time, or ``SLOWER_GPU``, ``MORE_WORK`` and the like.
        phase: Phase code of the late rank then; -1 for none.
        wait_ns: Exposed wait.
        collective: Number of the collective, as in ``Collectives.group``.
        account: Code of the late rank's account.
    """

    waiting: Indices
    late: Indices
    rule: npt.NDArray[np.object_]
    phase: Indices
    wait_ns: Times
    collective: Indices
    account: Indices

    def of(self, rows: Indices | npt.NDArray[np.bool_]) -> "Charges":
        """Return some of the charges."""
        return Charges(*(getattr(self, each.name)[rows] for each in fields(self)))


_NO_ROWS = np.empty(0, np.intp)
NO_CHARGES = Charges(
    _NO_ROWS, _NO_ROWS, np.empty(0, object), _NO_ROWS, np.empty(0, np.int64), _NO_ROWS, _NO_ROWS
)  # fmt: skip


@dataclass(frozen=True)
class Lateness:
    """Who waits for whom in the window.

    Attributes:
        charges: The waits.
        activities: What each rank did, by GPU.
        exposed_wait: Exposed wait of each kernel of the collectives inside the window, in ns.
        exposed_transfer: Exposed transfer of each.
    """

    charges: Charges
    activities: Mapping[int, Activity]
    exposed_wait: Times
    exposed_transfer: Times


def find_lateness(
    context: TraceContext, window: Window, collectives: Collectives, attributions: tuple[Attribution, ...]
) -> Lateness:
    """Return the exposed waits of a window, each charged to the rank that came last and to what kept it."""
    wait, transfer = exposed_parts(context, collectives, window)
    if not collectives.matched.any():
        return Lateness(NO_CHARGES, {}, wait, transfer)
    activities = find_activities(context, collectives, attributions)
    return Lateness(_charging(context, collectives, window, activities, wait).charge(), activities, wait, transfer)


def exposed_parts(context: TraceContext, collectives: Collectives, window: Window) -> tuple[Times, Times]:
    """Return the exposed wait and the exposed transfer of each kernel of the collectives inside a window, in ns.

    Where several run at once, a nanosecond counts for the one that began last, so that the sums agree with the ledger.
    """
    wait, transfer = np.zeros(len(collectives.row), np.int64), np.zeros(len(collectives.row), np.int64)
    for device in tables.distinct(collectives.device_id).tolist():
        mine = collectives.on(device)
        _, waiting, moving, *_ = collectives.exclusive(context.operations, device, window)
        begins = (
            (collectives.start, collectives.arrival, waiting, wait),
            (collectives.arrival, collectives.end, moving, transfer),
        )
        for start, end, spans, found in begins:
            owner = innermost(start[mine], end[mine], mine.astype(np.int32))
            which, _, low, high = overlay(owner.spans, spans)
            np.add.at(found, owner.code[which], high - low)
    return wait, transfer


# The charges of each wait, by its kernel: ns by late GPU and account of it.
_Made = dict[int, dict[tuple[int, int], int]]


@dataclass(frozen=True)
class _Ran:
    """The collectives of one GPU in the window, and what it did before each.

    Attributes:
        mine: Its collectives, as indices into ``Collectives``, in order.
        gates: Those that its compute waited for, with nothing left to compute before.
        at_start: The time of each account from the start of the window to the start of each, shape (mine, accounts).
        at_end: The same to the end of each.
    """

    mine: Indices
    gates: Indices
    at_start: npt.NDArray[np.int64]
    at_end: npt.NDArray[np.int64]


def _charging(
    context: TraceContext,
    collectives: Collectives,
    window: Window,
    activities: Mapping[int, Activity],
    exposed: Times,
) -> "_Charging":
    """Return what the charges of exposed waits follow from."""
    lags, place, ran = find_lags(context, collectives), np.zeros(len(collectives.row), np.intp), {}
    for device, activity in activities.items():
        mine = collectives.on(device)
        place[mine] = np.arange(len(mine))
        sides = (collectives.start[mine], collectives.end[mine])
        at_start, at_end = (activity.until(window.start_ns, each) for each in sides)
        ran[device] = _Ran(mine, mine[lags[mine] <= GATED_NS], at_start, at_end)
    members: dict[int, dict[int, int]] = defaultdict(dict)
    for index in np.flatnonzero(collectives.matched).tolist():
        members[int(collectives.group[index])][int(collectives.device_id[index])] = index
    return _Charging(context, collectives, window, activities, exposed, lags, place, ran, members)


@dataclass(frozen=True)
class _Charging:
    """What the charges of exposed waits follow from.

    Attributes:
        context: The trace, its events and its loop.
        collectives: The collectives of all ranks.
        window: Interval of the charges.
        activities: What each rank did, by GPU.
        exposed: Exposed wait of each kernel of the collectives, in ns.
        lags: How much a rank still had to compute when each collective ended, as ``find_lags`` returns it.
        place: Number of each collective among those of its GPU.
        ran: The collectives of each GPU.
        members: The kernels of each collective, by GPU.
    """

    context: TraceContext
    collectives: Collectives
    window: Window
    activities: Mapping[int, Activity]
    exposed: Times
    lags: Times
    place: Indices
    ran: Mapping[int, _Ran]
    members: Mapping[int, Mapping[int, int]]

    def charge(self) -> Charges:
        """Return the charges of all exposed waits, in order of collectives."""
        waits = np.flatnonzero((self.exposed > 0) & self.collectives.matched)
        waits = waits[np.argsort(self.collectives.arrival[waits], kind="stable")]
        made: _Made = {}
        for index in waits.tolist():
            made[index] = self._of_wait(index, made)
        return self._collected(waits, made)

    def _of_wait(self, index: int, made: _Made) -> dict[tuple[int, int], int]:
        """Return one exposed wait, divided by late GPU and account of it, in ns.

        Args:
            index: The kernel that waits.
            made: The charges of the waits before it, which it may pass on.
        """
        found, last = self.collectives, int(self.collectives.last[index])
        mine, late = int(found.device_id[index]), int(found.device_id[last])
        whole = int(self.exposed[index])
        if late not in self.activities:
            # It did nothing in the window: it arrived after the window's end.
            return {(late, self._unknown()): whole}
        begin = self._last_in_step(index, mine, late)
        late_times, own_times = self._between(late, begin.get(late), last), self._between(mine, begin.get(mine), index)
        more = {code: ns - own_times.get(code, 0) for code, ns in late_times.items()}
        more = {code: ns for code, ns in more.items() if ns > 0}
        if not more:
            return {(late, self._unknown()): whole}
        shares: dict[tuple[int, int], float] = defaultdict(float)
        everything = sum(more.values())
        for code, ns in more.items():
            part = whole * ns / everything
            if account_of(code, len(self.context.phases.names))[0] == WAITS:
                for target, share in self._passed_on(late, begin.get(late), last, made).items():
                    shares[target] += part * share
            else:
                shares[late, code] += part
        return _rounded(shares, whole)

    def _unknown(self) -> int:
        """Return the account of a late rank that spent no more time on anything than the rank that waits."""
        return code_of(WAITS, NO_PHASE, len(self.context.phases.names))

    def _last_in_step(self, index: int, mine: int, late: int) -> dict[int, int]:
        """Return the kernels of two GPUs in the last collective after which both went on; empty where there is none."""
        gates = self.ran[mine].gates
        at = int(np.searchsorted(gates, index)) - 1
        while at >= 0 and self.collectives.end[gates[at]] > self.window.start_ns:
            part = self.members.get(int(self.collectives.group[gates[at]]), {}).get(late)
            if part is not None and self.lags[part] <= LAG_SHARE * self.exposed[index]:
                return {mine: int(gates[at]), late: part}
            at -= 1
        return {}

    def _between(self, device: int, begin: int | None, arrival: int) -> dict[int, int]:
        """Return the time of each account of a GPU from the end of one collective to its arrival at another, in ns."""
        times = self.ran[device].at_start[self.place[arrival]]
        if begin is not None:
            times = times - self.ran[device].at_end[self.place[begin]]
        return dict(zip(self.activities[device].accounts.tolist(), times.tolist(), strict=True))

    def _passed_on(self, device: int, begin: int | None, arrival: int, made: _Made) -> dict[tuple[int, int], float]:
        """Return the shares of what a GPU itself waited for between two of its collectives, by late GPU and account."""
        first = self.place[begin] + 1 if begin is not None else 0
        sums: dict[tuple[int, int], int] = defaultdict(int)
        for index in self.ran[device].mine[first : self.place[arrival]].tolist():
            for target, ns in made.get(index, {}).items():
                sums[target] += ns
        whole = sum(sums.values())
        return {target: ns / whole for target, ns in sums.items()} if whole else {(device, self._unknown()): 1.0}

    def _collected(self, waits: Indices, made: _Made) -> Charges:
        rows = [
            (int(self.collectives.device_id[index]), late, account, ns, int(self.collectives.group[index]))
            for index in waits.tolist()
            for (late, account), ns in made[index].items()
            if ns
        ]
        waiting, late, account, wait_ns, group = (np.array([row[at] for row in rows], np.int64) for at in range(5))
        rule, phase = self._named(waiting, late, account)
        return Charges(waiting, late, rule, phase, wait_ns, group, account)

    @cached_property
    def _launched(self) -> dict[tuple[int, int], int]:
        """Return how many operations each GPU ran in the window in each phase, collectives left out."""
        operations, window = self.context.operations, self.window
        inside = (operations.start < window.end_ns) & (operations.end > window.start_ns)
        rows = np.flatnonzero(inside & (operations.kind != COMMUNICATION))
        keys = np.stack([operations.device_id[rows], self.context.phase_of_operations[rows]], axis=1)
        distinct, counts = np.unique(keys, axis=0, return_counts=True)
        return {(int(device), int(phase)): int(n) for (device, phase), n in zip(distinct, counts, strict=True)}

    def _launches_more(self, waiting: int, late: int, phase: int) -> bool:
        """Return whether a late rank launches more in a phase than the rank that waits: then it is not just slower."""
        mine, others = (self._launched.get((device, phase), 0) for device in (late, waiting))
        return mine > MORE_LAUNCHES * others

    def _named(self, waiting: Indices, late: Indices, account: Indices) -> tuple[npt.NDArray[np.object_], Indices]:
        """Return the rule and the phase of each charge; compute is more work, or a slower GPU."""
        codes, pairs = pd.factorize(pd.MultiIndex.from_arrays([waiting, late, account]))
        rules, phases = np.empty(len(pairs), object), np.zeros(len(pairs), np.intp)
        work: dict[tuple[int, int], str] = {}
        kernels: dict[int, pd.DataFrame] = {}
        for at, (one, other, code) in enumerate(pairs):
            rule, phases[at] = account_of(int(code), len(self.context.phases.names))
            if rule == COMPUTES:
                if (one, other) not in work:
                    for device in {int(one), int(other)} - kernels.keys():
                        kernels[device] = kernels_of(self.context, self.window, device)
                    work[one, other] = compared_work(kernels[int(one)], kernels[int(other)])
                rule = work[one, other]
            elif rule.startswith(USUAL):
                extra = self._launches_more(int(one), int(other), int(phases[at]))
                rule = rule.removeprefix(USUAL) if extra else PACE
            rules[at] = BUSY_RULES.get(rule, rule)
        return rules[codes] if len(codes) else np.empty(0, object), phases[codes] if len(codes) else np.empty(
            0, np.intp
        )


def _rounded(shares: Mapping[tuple[int, int], float], whole: int) -> dict[tuple[int, int], int]:
    """Return shares as whole nanoseconds with the same sum: the largest remainders are rounded up."""
    keys = sorted(shares)
    values = np.array([shares[key] for key in keys])
    floors = np.floor(values).astype(np.int64)
    left = whole - int(floors.sum())
    order = np.argsort(floors - values, kind="stable")
    for at in range(abs(left)):
        floors[order[at % len(order)]] += 1 if left > 0 else -1
    return dict(zip(keys, floors.tolist(), strict=True))


def compared_work(one: pd.DataFrame, other: pd.DataFrame) -> str:
    """Return why a late GPU's compute is longer: ``MORE_WORK``, ``SLOWER_GPU``, or ``UNKNOWN`` where it is neither.

    It is more work where names and grids of the kernels differ. Kernels of the optimizer are left out, since they do
    not depend on the size of the input. It is a slower GPU where the same kernels take longer. A GPU that waits has
    slower kernels, too: the collective that waits keeps multiprocessors busy.

    Args:
        one: The kernels of the GPU that waits, as ``kernels_of`` returns them.
        other: Those of the late one.
    """
    both = pd.concat([one["count"] / one["count"].sum(), other["count"] / other["count"].sum()], axis=1).fillna(0)
    if both.to_numpy().min(axis=1).sum() < ALIKE_SHARE:
        return MORE_WORK
    common = one.index.intersection(other.index)
    one, other = one.loc[common], other.loc[common]
    expected = float((one["length"] / one["count"] * other["count"]).sum())
    return SLOWER_GPU if float(other["length"].sum()) > SLOWER * expected else UNKNOWN


def kernels_of(context: TraceContext, window: Window, device: int) -> pd.DataFrame:
    """Return the count and the summed length of each kernel on a GPU in a window, by name, blocks and threads."""
    operations, frame = context.operations, context.trace[tables.KERNELS]
    rows = operations.on(device)
    rows = rows[(operations.table[rows] == 0) & (operations.kind[rows] != COMMUNICATION)]
    rows = rows[(operations.start[rows] < window.end_ns) & (operations.end[rows] > window.start_ns)]
    rows = rows[context.phase_of_operations[rows] != context.phases.code(OPTIMIZER)]
    keys = ["name_id", "grid_blocks", "block_threads"]
    kernels = frame[keys].iloc[operations.row[rows]].assign(length=operations.end[rows] - operations.start[rows])
    found: pd.DataFrame = kernels.groupby(keys).agg(count=("length", "size"), length=("length", "sum"))
    return found
