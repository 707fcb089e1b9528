"""When ranks are in step: after collectives that the compute of both waits for.

::

    compute        |## backward ##|                |## optimizer ##|      waits for the event of the last collective
    collectives         |bucket|   |last bucket ...|

Most collectives of a backward pass run beside it, and the compute of one rank may be far ahead of another's when they
end. A rank is in step where nothing is left to compute before the operation that waits for the collective. The export
tells which operations wait for which event. Without events, an operation that was queued and begins right when a
collective ends has waited for it.
"""

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import Indices, Times, containing, covered, merge
from nsyswrap.base.rows import taken
from nsyswrap.events.api_calls import calls_named, synchronizes
from nsyswrap.events.cuda_events import recorded_stream_waits
from nsyswrap.events.operations import COMMUNICATION
from nsyswrap.loop.context import TraceContext
from nsyswrap.ranks.collectives import Collectives
from nsyswrap.ranks.parts import Parts
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, coded

# An operation that was queued this long before a collective ended and begins this soon after it waited for it. One that
# begins this much later than its launch and its stream explain waited for another stream. Source: ours; launch
# latencies in the tests' captures are 1 to 7 us.
GATED_NS = 10_000
NEVER = np.int64(1 << 60)
# A call of the host that waits returns this soon after what it waits for. Source: the same captures, below 20 us.
RETURNS_NS = 50_000


# The communication kernels of a capture, in order of start.
Kernels = Parts | Collectives


def find_lags(context: TraceContext, collectives: Kernels) -> Times:
    """Return how much a rank still had to compute when each collective ended, before what waits for it, in ns.

    It is ``NEVER`` where nothing waits for the collective. Without events it is 0 where the next operation of the GPU
    seems to have waited for it.
    """
    lags = _by_event(context, collectives)
    for device in context.operations.devices:
        mine = collectives.on(device)
        if (lags[mine] == NEVER).all():
            lags[gating(context, collectives, device)] = 0
    return lags


def _by_event(context: TraceContext, collectives: Kernels) -> Times:
    """Return the lags where streams waited for events of collectives; of several collectives, the last one counts."""
    trace, operations = context.trace, context.operations
    lags = np.full(len(collectives.row), NEVER, np.int64)
    if not len(trace[tables.EVENT_RECORDS]) or not len(trace[tables.EVENT_WAITS]) or not len(lags):
        return lags
    waits = recorded_stream_waits(trace)
    launched, known = operations.start.copy(), operations.call >= 0
    launched[known] = array(trace[tables.CALLS], "start")[operations.call[known]]
    sent = _launched(context, collectives.row, launched).rename(columns={"stream": "of_stream", "launched": "record"})
    awaited = pd.merge_asof(waits.drop(columns="of_device"), sent, on="record", by=["process", "of_stream"])
    others = np.flatnonzero(operations.kind != COMMUNICATION)
    after = _launched(context, others, launched).rename(columns={"launched": "start", "place": "following"})
    pairs = pd.merge_asof(
        awaited.sort_values("start", kind="stable"), after, on="start", by=["process", "stream"], direction="forward"
    )
    pairs = pairs.dropna(subset=["place", "following"]).astype({"place": np.int64, "following": np.int64})
    place, following = array(pairs, "place"), array(pairs, "following")
    possible = collectives.end[place] <= operations.start[others[following]]
    place, following = place[possible], following[possible]
    order = np.lexsort((collectives.end[place], following))
    last = order[np.append(following[order][1:] != following[order][:-1], True)[: len(order)]]
    # When the operation before each one in its stream ended; 0 for the first.
    ends = pd.Series(operations.end[others][array(after, "following")], index=after.index)
    ended_before = np.zeros(len(others), np.int64)
    before = ends.groupby([after["process"], after["stream"]]).shift(fill_value=0)
    ended_before[array(after, "following")] = before.to_numpy(np.int64)
    lag = ended_before[following[last]] - collectives.end[place[last]]
    np.minimum.at(lags, place[last], np.maximum(lag, 0))
    return lags


def _launched(context: TraceContext, rows: Indices, launched: Times) -> pd.DataFrame:
    """Return the place, process, stream and launch of each operation in ``rows``, in order of launch."""
    columns = {
        "place": np.arange(len(rows)),
        "launched": launched[rows],
        "process": context.operations.process[rows],
        "stream": taken(context.operations.stream, rows),
    }
    return pd.DataFrame(columns).astype(np.int64).sort_values("launched", kind="stable", ignore_index=True)


def gating(context: TraceContext, collectives: Kernels, device: int) -> Indices:
    """Return the collectives of a GPU that its compute waited for, as indices into ``collectives``, in order.

    The GPU did nothing else when they ended. The next operation was queued well before that and began right after; or
    the host was in a call that waits, and the call returned right after.
    """
    operations, calls = context.operations, context.trace[tables.CALLS]
    mine = collectives.on(device)
    end = collectives.end[mine]
    whole = operations.by_device[device].exclusive[COMMUNICATION]
    alone = covered(whole, end - 1, end) == 1
    others = operations.on(device)
    others = others[operations.kind[others] != COMMUNICATION]
    at = np.searchsorted(operations.start[others], end)
    exists = at < len(others)
    following = others[np.minimum(at, len(others) - 1)] if len(others) else np.zeros(len(mine), np.intp)
    call = operations.call[following]
    launched = np.where(call >= 0, array(calls, "end")[call] if len(calls) else 0, operations.start[following])
    queued = exists & (launched + GATED_NS <= end) & (operations.start[following] <= end + GATED_NS)
    awaited: Indices = mine[alone & (queued | _host_waited(context, operations.process[collectives.row[mine]], end))]
    return awaited


def _host_waited(context: TraceContext, process: Times, end: Times) -> npt.NDArray[np.bool_]:
    """Return at which moments a call of the process that waits for the GPU was open and returned right after."""
    calls = context.trace[tables.CALLS]
    if not len(calls) or not len(end):
        return np.zeros(len(end), bool)
    first, last = np.searchsorted(array(calls, "start"), [0, int(end.max()) + 1])
    rows = first + np.flatnonzero(calls_named(context.trace, synchronizes)[first:last])
    owner = tables.process_of(coded(calls, "thread")[rows])
    waited = np.zeros(len(end), bool)
    for each in np.unique(process).tolist():
        its = rows[owner == each]
        spans = merge(array(calls, "start")[its], array(calls, "end")[its])
        at = containing(spans, end)
        mine = (process == each) & (at >= 0)
        waited[mine] = spans.end[at[mine]] <= end[mine] + RETURNS_NS
    return waited
