"""The waits of the host in a simulation: the operations that must end before a call returns.

::

    wait          |.................|        a wait returns when its operation has ended
    stream   [###########][########]
    launch        |.......|                  a launch returns when its stream has room for it
"""

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import Indices, Times
from nsyswrap.events.api_calls import base_name
from nsyswrap.events.cuda_events import event_records, with_last_record
from nsyswrap.events.operations import Operations, launch_calls
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace, array, coded
from nsyswrap.what_if import cpu_nodes as host
from nsyswrap.what_if.cpu_nodes import CLOCK_NS, FREEING, HostNodes
from nsyswrap.what_if.gpu_nodes import NONE, Queued, medians
from nsyswrap.what_if.stream_waits import OF_STREAM, by_launch

# A stream holds at most this many unfinished operations; the next launch waits. Source: observed with driver 580. Of
# 1327 long launch calls of one capture, almost all began with exactly 1022 unfinished operations; in captures of two
# ranks, where each launches from two threads, they began with 1023 or 1024.
QUEUE_LENGTHS = (1024, 1023, 1022)
DEVICE_WIDE = frozenset({"cudaDeviceSynchronize", "cuCtxSynchronize", "cudaThreadSynchronize", *FREEING})
OF_EVENTS = frozenset({"cudaEventSynchronize", "cuEventSynchronize"})


class Recorded(NamedTuple):
    """Waits for events whose record is in the export; arrays of one value a wait.

    Attributes:
        node: Index of the host node of the wait.
        operation: Index of the last operation before the record, in the record's stream; ``NONE`` where there is none.
    """

    node: Indices
    operation: Indices


@dataclass(frozen=True)
class Holds:
    """What each moment of the host waits for: arrays of one value a node.

    Attributes:
        by: The operation that it waits for; of several, the one that ends last; ``NONE`` for none.
        others: Further operations that a node waits for, by node.
        delay: ns from the end of operation ``by`` to this moment.
        busy_until: End of the thread's own work, in ns since capture start.
    """

    by: Indices
    others: dict[int, list[int]]
    delay: Times
    busy_until: Times


def find_holds(trace: Trace, nodes: HostNodes, queued: Queued, recorded: Recorded) -> Holds:
    """Return what each moment of the host waits for.

    Args:
        trace: The tables of one export.
        nodes: Moments of the host.
        queued: Operations of the sample.
        recorded: The operations that waits for events wait for, where the export shows them; other waits are guessed.
    """
    calls = trace[tables.CALLS]
    codes, ids = pd.factorize(np.where(nodes.call >= 0, coded(calls, "name_id")[nodes.call], -1))
    names = [base_name(trace.text(int(each))) for each in ids]

    def of(wanted: frozenset[str]) -> npt.NDArray[np.bool_]:
        return np.array([name in wanted for name in names], bool)[codes]

    by, others = _awaited(nodes, queued, of(DEVICE_WIDE), of(OF_EVENTS))
    by[recorded.node] = recorded.operation
    launches = nodes.kind == host.LAUNCH
    room = _room(nodes, queued)
    by = np.where(launches, room, by)
    ended = np.where(by >= 0, queued.end[by], nodes.begun)
    held = (by >= 0) & (ended > nodes.begun)
    # A call's own work is its length without the wait.
    length = nodes.moment - nodes.begun
    typical, launch = _unheld(nodes, codes, held)
    works = np.isin(nodes.kind, (host.LAUNCH, host.WAIT, host.RETURN))
    work = np.where(works, np.where(held, np.minimum(length, typical), length), 0)
    # A long wait with nothing pending is unexplained; it does not count as CPU work. Calls that free do work long.
    work = np.where((nodes.kind == host.WAIT) & ~held & ~of(FREEING), np.minimum(work, launch), work)
    delay = medians(nodes.moment - ended, codes, held & (length > typical))
    return Holds(by, others, delay, nodes.begun + work)


def _unheld(nodes: HostNodes, codes: Indices, held: npt.NDArray[np.bool_]) -> tuple[Times, int]:
    """Return the typical length of each call without a wait, by name, and the typical length of a launch, in ns.

    Where every call of a name waits, its typical length is that of a launch.
    """
    free = ~held & np.isin(nodes.kind, (host.LAUNCH, host.WAIT))
    length = nodes.moment - nodes.begun
    found = medians(length, codes, free)
    any_launch = length[free & (nodes.kind == host.LAUNCH)]
    typical = int(np.median(any_launch)) if len(any_launch) else 0
    return np.where(np.isin(codes, codes[free]), found, typical), typical


def _awaited(
    nodes: HostNodes, queued: Queued, wide: npt.NDArray[np.bool_], of_event: npt.NDArray[np.bool_]
) -> tuple[Indices, dict[int, list[int]]]:
    """Return the operation that each moment waits for, and further ones; of several, the first is the last to end."""
    found = np.full(len(nodes.moment), NONE, np.intp)
    returns = np.flatnonzero(nodes.kind == host.RETURN)
    if len(returns):
        launched_by = np.where(queued.launch >= 0, nodes.call[queued.launch], NONE)
        order = np.argsort(launched_by, kind="stable")
        last = np.searchsorted(launched_by[order], nodes.call[returns], side="right") - 1
        found[returns] = order[last]
    waits = np.flatnonzero(nodes.kind == host.WAIT)
    if not len(waits) or not len(queued.row):
        return found, {}
    latest = np.stack(
        [
            _last_of_stream(nodes, queued, np.flatnonzero(queued.stream == each), waits, of_event[waits])
            for each in range(int(queued.stream.max()) + 1)
        ]
    )
    ended = np.where(latest >= 0, queued.end[latest], np.iinfo(np.int64).min)
    found[waits] = latest[np.argmax(ended, axis=0), np.arange(len(waits))]
    others = {
        int(waits[at]): [int(each) for each in latest[:, at] if each not in {NONE, found[waits[at]]}]
        for at in np.flatnonzero(wide[waits])
    }
    return found, others


def _last_of_stream(
    nodes: HostNodes, queued: Queued, mine: Indices, waits: Indices, of_event: npt.NDArray[np.bool_]
) -> Indices:
    """Return the operation of one stream that each wait may have waited for; ``NONE`` for none.

    It is the last operation launched before the wait, if it ended before the wait returned. A wait for an event may
    have waited for an earlier operation.
    """
    until = nodes.moment[waits] + CLOCK_NS
    last = np.searchsorted(queued.launch[mine], waits) - 1
    ended = np.searchsorted(np.maximum.accumulate(queued.end[mine]), until, side="right") - 1
    last = np.where(of_event, np.minimum(last, ended), last)
    chosen = mine[np.maximum(last, 0)]
    same = queued.process[chosen] == tables.process_of(nodes.thread[waits])
    return np.where((last >= 0) & (queued.end[chosen] <= until) & same, chosen, NONE)


def _room(nodes: HostNodes, queued: Queued) -> Indices:
    """Return the operation that must end before the stream of each launch has room; ``NONE`` for none.

    Of the operations that the length of the queue allows, it is the last that ended before the call returned.
    """
    found = np.full(len(nodes.moment), NONE, np.intp)
    for each, length in product(range(int(queued.stream.max(initial=-1)) + 1), QUEUE_LENGTHS):
        mine = np.flatnonzero(queued.stream == each)
        behind, ahead = mine[length:], mine[:-length]
        fits = queued.launch[behind] >= 0
        launch, holder = queued.launch[behind[fits]], ahead[fits]
        # For a call that launches many operations, the first counts. A call that returned before the holder ended did
        # not wait for it.
        first = np.append(True, launch[1:] != launch[:-1])[: len(launch)]
        first &= queued.end[holder] <= nodes.moment[launch]
        found[launch[first]] = holder[first]
    return found


def find_recorded(trace: Trace, operations: Operations, nodes: HostNodes, queued: Queued, launched: Times) -> Recorded:
    """Return the operations that waits for events wait for, as far as the export shows them."""
    if not len(trace[tables.EVENT_RECORDS]) or not len(trace[tables.EVENT_WAITS]):
        return Recorded(np.empty(0, np.intp), np.empty(0, np.intp))
    # A wait is for the last record before it: an event may be recorded again and again.
    recorded = with_last_record(_waits(trace, nodes), event_records(trace))
    ran = by_launch(operations, queued, launched)
    found = pd.merge_asof(recorded, ran, left_on="record", right_on="launched", by=OF_STREAM)
    node, operation = (array(found.fillna(NONE).astype(np.int64), name) for name in ("node", "operation"))
    # Threads that launch and record at the same time may do so in another order than their calls began.
    possible = (operation == NONE) | (queued.end[operation] <= nodes.moment[node] + CLOCK_NS)
    return Recorded(node[possible], operation[possible])


def _waits(trace: Trace, nodes: HostNodes) -> pd.DataFrame:
    """Return the moments that wait for an event, in order of begin."""
    frame = trace[tables.EVENT_WAITS]
    process, event = array(frame, "process"), array(frame, "event_id")
    call = launch_calls(trace, process, array(frame, "correlation_id"))
    node = np.flatnonzero((nodes.kind == host.WAIT) & np.isin(nodes.call, call))
    of_call = pd.DataFrame({"call": call, "process": process, "event_id": event}).drop_duplicates("call")
    waits = pd.DataFrame({"node": node, "call": nodes.call[node], "start": nodes.begun[node]})
    return waits.merge(of_call, on="call").sort_values("start", kind="stable", ignore_index=True)
