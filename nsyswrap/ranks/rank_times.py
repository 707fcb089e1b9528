"""What the comparison of ranks needs of each GPU: small arrays, so that a thousand ranks fit in memory.

Of a GPU it keeps, for each of its collectives, how long each account has taken from the start of the window to the
begin and to the end of the collective. The trace itself is not needed any more.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.attribution.idle_accounts import IdleAccount
from nsyswrap.base.intervals import Indices, Spans, Times, Window, innermost, overlay, total
from nsyswrap.events.operations import COMMUNICATION
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import OPTIMIZER
from nsyswrap.ranks.activity import Activity
from nsyswrap.ranks.collectives import Timed
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, coded

LEDGER_ROWS = (
    *("compute_ns", "communication_wait_ns", "communication_transfer_ns", "copy_exposed_ns", "memset_exposed_ns"),
    "idle_ns",
)
# What makes two kernels the same work.
SAME_KERNEL = ["name", "grid_blocks", "block_threads"]


@dataclass(frozen=True)
class RankTimes:
    """The times of one GPU in a window. Arrays of collectives are in order of start.

    Attributes:
        device_id: The GPU.
        ledger: Its ledger: ns by ``LEDGER_ROWS``.
        accounts: Rule and phase of each account, shape (accounts,).
        at_start: Time of each account from the start of the window to the start of each collective, in ns, shape
            (collectives, accounts).
        at_end: The same to the end of each.
        exposed_wait: Exposed wait of each collective inside the window, in ns.
        exposed_transfer: Exposed transfer of each.
        lags: What the GPU still had to compute when each ended, as ``find_lags`` returns it.
        launched: Number of operations by phase, collectives left out.
        kernels: Count and summed length in ns of each kernel, by ``SAME_KERNEL``.
        idle: Its idle time by cause, rule and phase; empty where its attribution is in this process.
    """

    device_id: int
    ledger: Mapping[str, int]
    accounts: tuple[tuple[str, str], ...]
    at_start: npt.NDArray[np.int64]
    at_end: npt.NDArray[np.int64]
    exposed_wait: Times
    exposed_transfer: Times
    lags: Times
    launched: Mapping[str, int]
    kernels: pd.DataFrame
    idle: tuple[IdleAccount, ...] = ()


class Split(NamedTuple):
    """The ledger of a GPU in a window, and the exposed wait and transfer of each of its collectives, in ns."""

    ledger: Mapping[str, int]
    exposed_wait: Times
    exposed_transfer: Times


def split_of(spans: list[Spans], timed: Timed, window: Window) -> Split:
    """Return the ledger of a GPU, which adds up to the window, and the exposed times of its collectives.

    Args:
        spans: Spans of the GPU in the window, as ``Collectives.exclusive`` returns them.
        timed: Its collectives.
        window: Interval of the ledger.
    """
    ledger = dict(zip(LEDGER_ROWS[:-1], map(total, spans), strict=True))
    return Split({**ledger, "idle_ns": window.length_ns - sum(ledger.values())}, *exposed(spans, timed))


def times_of(  # noqa: PLR0913, PLR0917 - one argument a source
    context: TraceContext, window: Window, activity: Activity, timed: Timed, lags: Times, found: Split
) -> RankTimes:
    """Return the times of one GPU.

    Args:
        context: The trace, its events and its loop.
        window: Interval of the times, in the clock of the context.
        activity: What the GPU did in the window.
        timed: Its collectives, in the clock of the context.
        lags: What was left to compute when each ended.
        found: Its ledger and its exposed times, in the clock of all ranks.
    """
    phases = context.phases
    rows = _inside(context, window, activity.device_id)
    codes, counts = np.unique(context.phase_of_operations[rows], return_counts=True)
    return RankTimes(
        device_id=activity.device_id,
        ledger=found.ledger,
        accounts=tuple((rule, phases.name(phase)) for rule, phase in activity.named(len(phases.names))),
        at_start=activity.until(window.start_ns, timed.start),
        at_end=activity.until(window.start_ns, timed.end),
        exposed_wait=found.exposed_wait,
        exposed_transfer=found.exposed_transfer,
        lags=lags,
        launched={phases.name(code): count for code, count in zip(codes.tolist(), counts.tolist(), strict=True)},
        kernels=kernels_of(context, window, activity.device_id),
    )


def exposed(spans: list[Spans], timed: Timed) -> tuple[Times, Times]:
    """Return the exposed wait and the exposed transfer of each collective of a GPU, in ns.

    Where several run at once, a nanosecond counts for the one that began last, so that the sums agree with the ledger.

    Args:
        spans: Spans of the GPU in a window, as ``split`` returns them.
        timed: Its collectives.
    """
    _, waiting, moving, *_ = spans
    parts = []
    for start, end, free in ((timed.start, timed.arrival, waiting), (timed.arrival, timed.end, moving)):
        owner = innermost(start, end, np.arange(len(start), dtype=np.int32))
        which, _, low, high = overlay(owner.spans, free)
        times = np.zeros(len(start), np.int64)
        np.add.at(times, owner.code[which], high - low)
        parts.append(times)
    return parts[0], parts[1]


def _inside(context: TraceContext, window: Window, device: int) -> Indices:
    """Return the operations of a GPU that touch a window, collectives left out."""
    operations = context.operations
    rows = operations.on(device)
    rows = rows[operations.kind[rows] != COMMUNICATION]
    inside: Indices = rows[(operations.start[rows] < window.end_ns) & (operations.end[rows] > window.start_ns)]
    return inside


def kernels_of(context: TraceContext, window: Window, device: int) -> pd.DataFrame:
    """Return the count and the summed length of each kernel on a GPU in a window, by name, blocks and threads."""
    operations, frame = context.operations, context.trace[tables.KERNELS]
    rows = _inside(context, window, device)
    rows = rows[operations.table[rows] == 0]
    rows = rows[context.phase_of_operations[rows] != context.phases.code(OPTIMIZER)]
    kernels = operations.row[rows]
    keys = [
        coded(frame, "name_id")[kernels],
        *(array(frame, name)[kernels].astype(np.int64) for name in SAME_KERNEL[1:]),
    ]
    distinct, code = np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True)
    code = code.reshape(-1)  # numpy 2.0 returns another shape.
    length = np.zeros(len(distinct), np.int64)
    np.add.at(length, code, operations.end[rows] - operations.start[rows])
    names = [context.trace.text(int(each)) for each in distinct[:, 0]]
    index = pd.MultiIndex.from_arrays([names, distinct[:, 1], distinct[:, 2]], names=SAME_KERNEL)
    return pd.DataFrame({"count": np.bincount(code, minlength=len(distinct)), "length": length}, index=index)
