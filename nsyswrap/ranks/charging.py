"""Each exposed wait is charged to the rank that came last and to what kept it: the comparison of two ranks.

All waits are compared at once, as rows of matrices with one column for each account. Only waits that go on to a third
rank are followed one by one, in order of time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.attribution.attribution import RULES
from nsyswrap.base.intervals import Indices, Times, Window
from nsyswrap.hardware.kernel_names.collectives import SEND_RECEIVE
from nsyswrap.loop.phase_detection import NO_PHASE
from nsyswrap.ranks.activity import COMPUTES, COPIES, TRANSFERS, USUAL, WAITS, account_of, code_of
from nsyswrap.ranks.collectives import Collectives
from nsyswrap.ranks.in_step import GATED_NS, NEVER
from nsyswrap.ranks.rank_times import RankTimes
from nsyswrap.ranks.same_work import MORE_WORK, PACE, PIPELINE, SLOWER_GPU, UNKNOWN, compared_work, launches_more
from nsyswrap.rules import copies

BUSY_RULES = {TRANSFERS: UNKNOWN, COPIES: copies.EXPOSED.key, WAITS: UNKNOWN}
# Two ranks are in step where one has nothing left to compute, and the other no more than this share of the wait. Ours.
LAG_SHARE = 0.25
NONE = -1
Matrix = npt.NDArray[np.int64]


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
        account: Code of the late rank's account, for as many phases as ``Lateness.phases`` has.
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

    def stretched(self, factor: float) -> "Charges":
        """Return the charges with waits that are longer by a factor."""
        return replace(self, wait_ns=np.rint(self.wait_ns * factor).astype(np.int64))


_NO_ROWS = np.empty(0, np.intp)
NO_CHARGES = Charges(
    _NO_ROWS, _NO_ROWS, np.empty(0, object), _NO_ROWS, np.empty(0, np.int64), _NO_ROWS, _NO_ROWS
)  # fmt: skip


def charged(collectives: Collectives, times: Sequence[RankTimes], window: Window, phases: tuple[str, ...]) -> Charges:
    """Return the charges of all exposed waits, in order of the arrival of the last rank.

    Args:
        collectives: The collectives of all ranks.
        times: The times of each GPU in the window.
        window: Interval of the charges, in the clock of the collectives.
        phases: Name of each phase code of the charges.
    """
    compared = _compared(collectives, times, window, phases)
    waits = np.flatnonzero((compared.exposed > 0) & collectives.matched)
    waits = waits[np.argsort(collectives.arrival[waits], kind="stable")]
    if not len(waits):
        return NO_CHARGES
    rows = _Rows(compared, waits)
    place, late, account, ns = rows.charged()
    waiting = collectives.device_id[waits[place]].astype(np.intp)
    message = np.array([kind == SEND_RECEIVE for kind in collectives.kinds], bool)[collectives.kind[waits[place]]]
    rule, phase = _rules_and_phases(compared, waiting, late, account, ns, message)
    return Charges(waiting, late, rule, phase, ns, collectives.group[waits[place]], account)


@dataclass(frozen=True)
class _Compared:
    """The times of all collectives as rows of matrices.

    Attributes:
        collectives: The collectives of all ranks.
        phases: Name of each phase code.
        times: The times of each GPU, by device id.
        codes: Code of the account of each column, ascending.
        at_start: Time of each account until the start of each collective, in ns, shape (collectives, accounts).
        at_end: The same until its end.
        exposed: Exposed wait of each collective, in ns.
        lags: What was left to compute when each ended.
        gate: The last collective before each, on its GPU and inside the window, after which that GPU may have gone on;
            -1 for none.
        slot: Numbers of collectives and GPUs as one key, ascending, and the kernel of each key.
    """

    collectives: Collectives
    phases: tuple[str, ...]
    times: Mapping[int, RankTimes]
    codes: Indices
    at_start: Matrix
    at_end: Matrix
    exposed: Times
    lags: Times
    gate: Indices
    slot: tuple[Times, Indices]

    def part(self, group: Indices, device: Indices) -> Indices:
        """Return the kernel of each collective on a GPU; -1 where there is none."""
        keys, kernels = self.slot
        wanted = _key(group, device)
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        kernel: Indices = np.where((group >= 0) & (keys[at] == wanted), kernels[at], NONE)
        return kernel

    def rule(self, code: int) -> str:
        """Return the rule of an account."""
        return account_of(code, len(self.phases))[0]


def _most_left(wait: Times) -> npt.NDArray[np.float64]:
    """Return how much one of two ranks may still have to compute where they are in step, for waits in ns."""
    most: npt.NDArray[np.float64] = np.maximum(LAG_SHARE * np.asarray(wait), GATED_NS)
    return most


def _key(group: Indices, device: Indices) -> Times:
    key: Times = group.astype(np.int64) << np.int64(20) | device.astype(np.int64)
    return key


def _compared(
    collectives: Collectives, times: Sequence[RankTimes], window: Window, phases: tuple[str, ...]
) -> _Compared:
    number = {name: code for code, name in enumerate(phases)}
    own = [
        np.array([code_of(rule, number.get(phase, NO_PHASE), len(phases)) for rule, phase in each.accounts], np.intp)
        for each in times
    ]
    codes = np.unique(np.concatenate([np.empty(0, np.intp), *own]))
    count = len(collectives.row)
    at_start, at_end = np.zeros((count, len(codes)), np.int64), np.zeros((count, len(codes)), np.int64)
    exposed, lags, gate = np.zeros(count, np.int64), np.full(count, NEVER), np.full(count, NONE, np.intp)
    for each, its in zip(times, own, strict=True):
        mine, columns = collectives.on(each.device_id), np.searchsorted(codes, its)
        at_start[mine[:, None], columns], at_end[mine[:, None], columns] = each.at_start, each.at_end
        exposed[mine], lags[mine] = each.exposed_wait, each.lags
        on = (each.lags <= _most_left(each.exposed_wait.max(initial=0))) & (collectives.end[mine] > window.start_ns)
        last = np.maximum.accumulate(np.where(on, np.arange(len(mine)), NONE))
        before = np.concatenate([[NONE], last[:-1]])[: len(mine)]
        gate[mine] = np.where(before >= 0, mine[np.maximum(before, 0)], NONE)
    kernels = np.flatnonzero(collectives.matched)
    keys = _key(collectives.group[kernels], collectives.device_id[kernels].astype(np.intp))
    order = np.argsort(keys, kind="stable")
    by_device = {each.device_id: each for each in times}
    slot = keys[order], kernels[order]
    return _Compared(collectives, phases, by_device, codes, at_start, at_end, exposed, lags, gate, slot)


class _Rows:
    """The waits as rows: how long the late rank had each account more than the rank that waits.

    Args:
        compared: The times of all collectives.
        waits: The collectives that wait, in order of the arrival of the last rank.
    """

    def __init__(self, compared: _Compared, waits: Indices) -> None:
        self._compared, self._waits = compared, waits
        collectives = compared.collectives
        self._last = collectives.last[waits]
        self._late = collectives.device_id[self._last].astype(np.intp)
        self._whole = compared.exposed[waits]
        self._begin, self._begin_late = self._in_step()
        self._row = np.full(len(collectives.row), NONE, np.intp)
        self._row[waits] = np.arange(len(waits))
        # How long the late rank had each account more since both were in step, in ns, shape (waits, codes).
        late, own, known = compared.at_start[self._last].copy(), compared.at_start[waits].copy(), self._begin >= 0
        late[known] -= compared.at_end[self._begin_late[known]]
        own[known] -= compared.at_end[self._begin[known]]
        more: Matrix = np.maximum(late - own, 0)
        self._onward = np.array([compared.rule(int(code)) == WAITS for code in compared.codes], bool)
        # Waits that do not go on to a third rank are divided at once.
        self._simple = (more.sum(axis=1) > 0) & (more[:, self._onward].sum(axis=1) == 0)
        self._shared = np.zeros_like(more)
        if self._simple.any():
            part, whole = more[self._simple], self._whole[self._simple]
            self._shared[self._simple] = _rounded(
                whole[:, None].astype(float) * part / part.sum(axis=1)[:, None], whole
            )
        # The others are divided one by one, and each may need what was made of those before it.
        self._passed: dict[tuple[int, int], dict[tuple[int, int], float]] = {}
        self._made: dict[int, dict[tuple[int, int], int]] = {}
        for row in np.flatnonzero(~self._simple).tolist():
            self._made[row] = self._divided(row, more[row])

    def charged(self) -> tuple[Indices, Indices, Indices, Times]:
        """Return the charges: number of the wait, late GPU, account and exposed wait in ns."""
        codes = self._compared.codes
        place, column = np.nonzero(self._shared)
        rows = [(place, self._late[place], codes[column], self._shared[place, column])]
        for row, made in self._made.items():
            items = [(row, late, code, ns) for (late, code), ns in made.items() if ns]
            rows.append(tuple(np.array(items, np.int64).reshape(-1, 4).T))  # type: ignore[arg-type]
        whole = [np.concatenate([np.asarray(each[at], np.int64) for each in rows]) for at in range(4)]
        order = np.argsort(whole[0], kind="stable")
        columns = [each[order] for each in whole]
        return columns[0].astype(np.intp), columns[1].astype(np.intp), columns[2].astype(np.intp), columns[3]

    def _in_step(self) -> tuple[Indices, Indices]:
        """Return the kernels of both GPUs in the last collective after which both went on; -1 where there is none."""
        compared, group = self._compared, self._compared.collectives.group
        mine, late = np.full(len(self._waits), NONE, np.intp), np.full(len(self._waits), NONE, np.intp)
        open_ = np.arange(len(self._waits))
        gate = compared.gate[self._waits]
        while len(open_):
            open_, gate = open_[gate >= 0], gate[gate >= 0]
            part = compared.part(group[gate], self._late[open_])
            left = np.stack([compared.lags[gate], compared.lags[np.maximum(part, 0)]])
            ready = (part >= 0) & (left.min(axis=0) <= GATED_NS) & (left.max(axis=0) <= _most_left(self._whole[open_]))
            mine[open_[ready]], late[open_[ready]] = gate[ready], part[ready]
            open_, gate = open_[~ready], compared.gate[gate[~ready]]
        return mine, late

    def _divided(self, row: int, more: Times) -> dict[tuple[int, int], int]:
        """Return one wait by late GPU and account, in ns; what the late rank waited for goes on to a third one."""
        late, whole, everything = int(self._late[row]), int(self._whole[row]), int(more.sum())
        if not everything:
            return {(late, self._unknown): whole}
        shares: dict[tuple[int, int], float] = {}
        for column in np.flatnonzero(more).tolist():
            part = whole * int(more[column]) / everything
            targets = self._passed_on(row) if self._onward[column] else {(late, int(self._compared.codes[column])): 1.0}
            for target, share in targets.items():
                shares[target] = shares.get(target, 0.0) + part * share
        keys = sorted(shares)
        values = _rounded(np.array([[shares[key] for key in keys]]), np.array([whole]))[0]
        return dict(zip(keys, values.tolist(), strict=True))

    @property
    def _unknown(self) -> int:
        """Return the account of a late rank that spent no more time on anything than the rank that waits."""
        return code_of(WAITS, NO_PHASE, len(self._compared.phases))

    def _passed_on(self, row: int) -> dict[tuple[int, int], float]:
        """Return the shares of what a late GPU itself waited for since both were in step, by late GPU and account."""
        key = int(self._begin_late[row]), int(self._last[row])
        if key in self._passed:
            return self._passed[key]
        begin, arrival = key
        late = int(self._late[row])
        mine = self._compared.collectives.on(late)
        first = int(np.searchsorted(mine, begin)) + 1 if begin >= 0 else 0
        sums: dict[tuple[int, int], int] = {}
        for kernel in mine[first : int(np.searchsorted(mine, arrival))].tolist():
            for target, ns in self._charges_of_kernel(kernel, row).items():
                sums[target] = sums.get(target, 0) + ns
        whole = sum(sums.values())
        shares = {target: ns / whole for target, ns in sums.items()} if whole else {(late, self._unknown): 1.0}
        self._passed[key] = shares
        return shares

    def _charges_of_kernel(self, kernel: int, before: int) -> dict[tuple[int, int], int]:
        """Return the charges of a kernel's wait, in ns; none where its last rank arrived later than that of a row."""
        row = int(self._row[kernel])
        if row < 0 or row >= before:
            return {}
        if not self._simple[row]:
            return self._made.get(row, {})
        columns = np.flatnonzero(self._shared[row])
        late = int(self._late[row])
        return {(late, int(self._compared.codes[each])): int(self._shared[row, each]) for each in columns.tolist()}


def _rounded(shares: npt.NDArray[np.float64], whole: Times) -> Matrix:
    """Return rows of shares as whole nanoseconds that add up: in each row the largest remainders are rounded up."""
    floors = np.floor(shares).astype(np.int64)
    left = whole - floors.sum(axis=1)
    remainder = np.where(shares > 0, floors - shares, np.inf)
    order = np.argsort(remainder, axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(shares.shape[1]), shares.shape), axis=1)
    rounded: Matrix = floors + np.where(rank < np.abs(left)[:, None], np.sign(left)[:, None], 0)
    return rounded


def _rules_and_phases(  # noqa: PLR0913, PLR0917 - one argument a column
    compared: _Compared, waiting: Indices, late: Indices, account: Indices, ns: Times, message: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.object_], Indices]:
    """Return the rule and the phase of each charge."""
    known, place = np.unique(account, return_inverse=True)
    pairs = [account_of(int(code), len(compared.phases)) for code in known]
    names = np.array([BUSY_RULES.get(rule, rule).removeprefix(USUAL) for rule, _ in pairs], object)
    phase = np.array([code for _, code in pairs], np.intp)
    rule = names[place]
    usual = np.array([name.startswith(USUAL) and name.removeprefix(USUAL) in RULES for name, _ in pairs], bool)[place]
    rows = np.flatnonzero(usual)
    extra = launches_more(compared.times, waiting[rows], late[rows], phase[place[rows]], compared.phases)
    rule[rows[~extra]] = PACE
    _name_work(compared, rule, (waiting, late), ns, message, message & usual)
    return rule, phase[place]


def _name_work(  # noqa: PLR0913, PLR0917 - one argument a column
    compared: _Compared,
    rule: npt.NDArray[np.object_],
    gpus: tuple[Indices, Indices],
    ns: Times,
    message: npt.NDArray[np.bool_],
    launching: npt.NDArray[np.bool_],
) -> None:
    """Set the rule of each charge to work, in place: more work, a slower GPU, or a bubble of a pipeline.

    A rank that waits for a message waits while the other computes what it sends, as a pipeline has it. That is the
    fault of a slower GPU only where most of these waits are what its kernels take longer. The usual time of a host
    between two launches belongs to the work of its stage: it moves with the layers. That is so where both stages have
    the same kernels in the same proportion; what one of them alone launches is no layer of the other.

    Args:
        compared: The times of all collectives.
        rule: Rule of each charge; ``COMPUTES`` where it is to be named.
        gpus: GPU that waits, and GPU of the late rank.
        ns: Exposed wait of each charge.
        message: Which charges are of a message between two ranks.
        launching: Which of these are of the usual time between two launches.
    """
    work = np.flatnonzero((rule == COMPUTES) | launching)
    if not len(work):
        return
    couples, which = pd.factorize(pd.MultiIndex.from_arrays([each[work] for each in gpus]))
    reasons, longer = zip(*compared_work(compared.times, [(int(a), int(b)) for a, b in which]), strict=True)
    reason, computes = np.array(reasons, object)[couples], ~launching[work]
    rule[work[computes]] = reason[computes]
    sent = message[work] & computes
    waits = np.bincount(couples[sent], weights=ns[work[sent]], minlength=len(which))
    mostly = (2 * np.array(longer) > waits)[couples]
    rule[work[sent & ~((reason == SLOWER_GPU) & mostly)]] = PIPELINE
    rule[work[~computes & (reason != MORE_WORK)]] = PIPELINE
