"""Root cause: the GPU switches from one operation to the next queued operation of the same stream."""

import numpy as np

from nsyswrap.attribution.idle_pieces import IdlePieces, Mask
from nsyswrap.attribution.launch_pace import FEW, LATENCY_NS
from nsyswrap.attribution.root_cause import RootCause
from nsyswrap.base.intervals import Indices, Times, places
from nsyswrap.base.rows import taken
from nsyswrap.rules import gpu
from nsyswrap.trace.tables import blocks

# A queued operation that begins after more than this many usual gaps waited for something else, such as another stream.
# Source: ours. Fewer gaps than ``FEW`` show no usual length; then it is the time from a launch to its operation.
USUAL_GAPS = 10
# Whatever gaps are usual, a longer one is not the GPU's own: it takes 2 us from kernel to kernel, and up to 83 us from
# one CUDA graph to the next. Source: tests/captures/faults, graph_for_each_layer on an H200.
LONGEST_NS = 200_000


def find(idle: IdlePieces, free: Mask) -> Mask:  # noqa: ARG001 - the signature of all root causes
    """Return the pieces of gaps between two operations of one stream, where the second was queued in time."""
    spans, queued = idle.gaps.spans, idle.is_cause("queued")
    gap = np.flatnonzero(~idle.any_in_gap(~queued))
    mine = idle.context.operations.on(idle.device_id)
    start = taken(idle.context.operations.start, mine)
    parts = [gap[:0], *(taken(gap[some], _in_one_stream(idle, mine, start, gap[some])) for some in blocks(len(gap)))]
    gap = np.concatenate(parts)
    length = taken(spans.end, gap) - taken(spans.start, gap)
    longest = min(USUAL_GAPS * float(np.median(length)), LONGEST_NS) if len(gap) >= FEW else LATENCY_NS
    usual = np.zeros(len(spans.start), bool)
    usual[gap[length <= longest]] = True
    found: Mask = queued & taken(usual, idle.gap)
    return found


def _in_one_stream(idle: IdlePieces, mine: Indices, start: Times, gap: Indices) -> Mask:
    """Return which gaps lie between two operations of one stream, from the device's operations and their starts."""
    operations, spans = idle.context.operations, idle.gaps.spans
    place = places(start, taken(spans.end, gap), side="left")
    before, after = taken(mine, np.maximum(place - 1, 0)), taken(idle.gaps.ender, gap)
    follows = (place > 0) & (after >= 0) & (taken(operations.end, before) == taken(spans.start, gap))
    # A migration of unified memory begins before the operation that explains the gap.
    follows &= taken(start, np.minimum(place, len(mine) - 1)) == taken(operations.start, after)
    one, other = (taken(operations.stream, rows) for rows in (before, after))
    same: Mask = follows & (one >= 0) & (one == other) & (operations.process[before] == operations.process[after])
    return same


ROOT_CAUSE = RootCause(180, gpu.BETWEEN_OPERATIONS, find)
