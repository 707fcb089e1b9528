"""The tables of collectives: what each kind waits and transfers, and which rank waits for which."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import Indices, Times, Window
from nsyswrap.ranks.collectives import Collectives, bus_bytes
from nsyswrap.ranks.lateness import Lateness
from nsyswrap.ranks.parts import NONE

COLLECTIVES = (
    *("communicator", "kind", "bytes", "count", "wait_ns", "transfer_ns", "exposed_wait_ns", "exposed_transfer_ns"),
    "bus_bandwidth",
)
WAITS = ("waiting_rank", "late_rank", "rule", "phase", "wait_ns")


def by_kind(
    collectives: Collectives, lateness: Lateness, window: Window, fast: npt.NDArray[np.float64]
) -> pd.DataFrame:
    """Return a row for each communicator, kind and size of collectives in a window, the most exposed first.

    Times are sums over all ranks, clipped to the window. ``count`` counts a collective once, however many ranks it has.
    ``bus_bandwidth`` is bytes a second on each link while it transfers; NaN where the size or the number of ranks is
    not known, and ``link_bandwidth`` is what these links can do; there is no such column where that is not known at
    all: ``fast`` is how long each transfers on them, in ns, or NaN. ``bytes`` is -1 where NCCL did not record it.
    """
    start, end = (np.clip(each, window.start_ns, window.end_ns) for each in (collectives.start, collectives.end))
    arrival = np.clip(collectives.arrival, start, end)
    touches = (collectives.start < window.end_ns) & (collectives.end > window.start_ns)
    frame = pd.DataFrame(
        {
            "communicator": collectives.communicator,
            "kind": np.array(collectives.kinds, object)[collectives.kind],
            "bytes": collectives.bytes,
            # A collective that is known on one rank only counts as a separate collective.
            "part": np.where(collectives.matched, collectives.group, -1 - np.arange(len(start))),
            "wait_ns": arrival - start,
            "transfer_ns": end - arrival,
            "exposed_wait_ns": lateness.exposed_wait,
            "exposed_transfer_ns": lateness.exposed_transfer,
            "matched": collectives.matched,
            "fast_ns": fast,
        }
    )[touches]
    keys = ["communicator", "kind", "bytes"]
    times = list(COLLECTIVES[4:8])
    found = frame.groupby(keys, as_index=False).agg(
        count=("part", "nunique"),
        parts=("part", "size"),
        matched=("matched", "all"),
        fast_ns=("fast_ns", "mean"),
        **{name: (name, "sum") for name in times},
    )
    columns = (found[name].tolist() for name in (*keys, "parts", "transfer_ns", "matched"))
    bandwidth = [
        _bandwidth(kind, size, collectives.sizes[communicator], parts, transfer) if matched else float("nan")
        for communicator, kind, size, parts, transfer, matched in zip(*columns, strict=True)
    ]
    carried = [
        bus_bytes(kind, size, collectives.sizes[communicator]) or float("nan")
        for communicator, kind, size in zip(*(found[name].tolist() for name in keys), strict=True)
    ]
    links = np.array(carried, float) / found["fast_ns"] * 1e9
    exposed = -found["exposed_wait_ns"] - found["exposed_transfer_ns"]
    whole: pd.DataFrame = found.assign(bus_bandwidth=np.array(bandwidth, float), link_bandwidth=links, exposed=exposed)
    known = ["link_bandwidth"] if np.isfinite(links).any() else []
    return whole.sort_values(["exposed", *keys], ignore_index=True)[[*COLLECTIVES, *known]]


def _bandwidth(kind: str, size: int, ranks: int, parts: int, transfer_ns: int) -> float:
    """Return the bytes a second on each link, from the transfer of all parts; NaN where it is not known."""
    carried = bus_bytes(kind, size, ranks)
    return carried * parts / (transfer_ns / 1e9) if carried is not None and transfer_ns else float("nan")


def who_waits(collectives: Collectives, lateness: Lateness) -> pd.DataFrame:
    """Return who waits for whom: a row for each pair of ranks, rule and phase, the longest wait first.

    The rows of each waiting rank add up to its row ``communication_wait_ns`` of the ledger.
    """
    charges = lateness.charges
    names = [lateness.phase_name(code) for code in range(-1, len(lateness.phases))]
    frame = pd.DataFrame(
        {
            "waiting_rank": _numbers(collectives, charges.waiting),
            "late_rank": _numbers(collectives, charges.late),
            "rule": charges.rule,
            "phase": np.array(names, object)[charges.phase + 1] if len(charges.phase) else np.empty(0, object),
            "wait_ns": charges.wait_ns,
        }
    )
    keys = list(WAITS[:4])
    found: pd.DataFrame = frame.groupby(keys, as_index=False).agg(wait_ns=("wait_ns", "sum"))
    return found.sort_values(["wait_ns", *keys], ascending=[False, True, True, True, True], ignore_index=True)


def _numbers(collectives: Collectives, devices: Indices) -> Times:
    """Return the number of the rank on each GPU."""
    known = {rank.device_id: rank.number for rank in collectives.ranks.each}
    distinct, codes = np.unique(devices, return_inverse=True)
    numbers = np.array([known.get(int(each), int(each)) for each in distinct], np.int64)
    found: Times = numbers[codes] if len(codes) else np.empty(0, np.int64)
    return found


def unmatched_share(collectives: Collectives, window: Window) -> float:
    """Return the share of the time of collectives in a window whose other ranks are not in the capture."""
    length = np.clip(collectives.end, window.start_ns, window.end_ns) - np.clip(
        collectives.start, window.start_ns, window.end_ns
    )
    alone = collectives.group == NONE
    return float(length[alone].sum() / max(int(length.sum()), 1))
