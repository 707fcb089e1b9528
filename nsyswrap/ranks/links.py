"""How long collectives take where the links between the GPUs do what they can: as measured, or by data sheets."""

import numpy as np
import numpy.typing as npt

from nsyswrap.base.intervals import Indices
from nsyswrap.hardware.link_rates import MEASURED, PUBLISHED, published_ns
from nsyswrap.loop.context import TraceContext
from nsyswrap.ranks.collectives import Collectives, bus_bytes

# Smaller messages are limited by latency. Source: NCCL's documentation of NCCL_BUFFSIZE, the buffer between two GPUs.
FILLS_BUFFER_BYTES = 4 << 20
# What data sheets say holds for larger ones. Ours: all_reduce_perf reaches half of the rate on eight H100s with 8 MiB.
PUBLISHED_FROM_BYTES = 16 << 20
# Links are slow where the fastest collective takes more than twice as long as it could. Ours: kernels beside it take
# part of the multiprocessors and of the memory, but seldom in all collectives of a run.
SLOW_FACTOR = 2.0


def fast_ns(context: TraceContext, collectives: Collectives) -> npt.NDArray[np.float64]:
    """Return how long each kernel of the collectives transfers on links that do what they can, in ns; NaN if unknown.

    It is known for ranks of one host. One report holds the ranks of one host, unless several were joined.
    """
    found = np.full(len(collectives.row), np.nan)
    if context.settings.clock_errors or collectives.ranks.missing or not context.trace.gpus:
        return found
    keys = np.column_stack([collectives.kind, collectives.bytes, collectives.communicator])
    distinct, place = np.unique(keys[collectives.matched], axis=0, return_inverse=True)
    times = [_of_one(context, collectives, *each) for each in distinct.tolist()]
    found[collectives.matched] = np.array(times, float)[place.ravel()]
    return found


def _of_one(context: TraceContext, collectives: Collectives, kind_code: int, size: int, communicator: int) -> float:
    """Return how long a collective of a kind, size and communicator takes, in ns; NaN where that is not known."""
    kind, ranks, rates = collectives.kinds[kind_code], collectives.sizes[communicator], context.settings.link_rates
    carried, names = bus_bytes(kind, size, ranks), {gpu.name for gpu in context.trace.gpus}
    if not carried or len(names) > 1:
        return np.nan
    if rates.gpu in names:
        there, ns = bus_bytes(kind, size, rates.gpus), rates.expected_ns(kind, size)
        return np.nan if ns is None or not there else ns * carried / there
    ns = published_ns(names.pop(), carried) if size >= PUBLISHED_FROM_BYTES else None
    return np.nan if ns is None else ns


def source_of(context: TraceContext) -> str:
    """Return where the times of fast links come from, in words."""
    return MEASURED if context.settings.link_rates.times else PUBLISHED


def fastest(context: TraceContext, collectives: Collectives, rows: Indices) -> tuple[float, float, float] | None:
    """Return what the fastest large collective shows of the links; None where they or the sizes are not known.

    The fastest: kernels beside a collective slow it down, and nothing makes it faster than its links.

    Args:
        context: The trace.
        collectives: The collectives of all ranks.
        rows: Collectives of one GPU, as rows of the context's operations.

    Returns:
        How many times as long as it could it takes, the bytes a second on each link, and those that it could have.
    """
    mine = np.flatnonzero(np.isin(collectives.row, rows))
    fast, length = fast_ns(context, collectives)[mine], (collectives.end - collectives.arrival)[mine]
    large = np.flatnonzero((collectives.bytes[mine] >= FILLS_BUFFER_BYTES) & (length > 0) & ~np.isnan(fast))
    if not len(large):
        return None
    at = large[int(np.argmin(length[large] / fast[large]))]
    one = int(mine[at])
    kind, ranks = collectives.kinds[int(collectives.kind[one])], collectives.sizes[int(collectives.communicator[one])]
    carried = bus_bytes(kind, int(collectives.bytes[one]), ranks) or 0.0
    return float(length[at] / fast[at]), carried / length[at] * 1e9, carried / fast[at] * 1e9
