"""Root cause: the GPU switches from one operation to the next queued operation of the same stream."""

import numpy as np

from nsyswrap.attribution.idle_pieces import IdlePieces, Mask
from nsyswrap.attribution.launch_pace import FEW, LATENCY_NS
from nsyswrap.events.operations import streams_of

RULE = "gpu/between_operations"
# A queued operation that begins after more than this many usual gaps waited for something else, such as another stream.
# Source: ours. Fewer gaps than ``FEW`` show no usual length; then it is the time from a launch to its operation.
USUAL_GAPS = 10


def find(idle: IdlePieces, free: Mask) -> Mask:  # noqa: ARG001 - the signature of all root causes
    """Return the pieces of gaps between two operations of one stream, where the second was queued in time."""
    operations, spans = idle.context.operations, idle.gaps.spans
    queued, mine = idle.is_cause("queued"), operations.on(idle.device_id)
    gap = np.flatnonzero(~idle.any_in_gap(~queued))
    place = np.searchsorted(operations.start[mine], spans.end[gap], side="left")
    before, after = mine[np.maximum(place - 1, 0)], idle.gaps.ender[gap]
    follows = (place > 0) & (after >= 0) & (operations.end[before] == spans.start[gap])
    # A migration of unified memory begins before the operation that explains the gap.
    follows &= operations.start[mine[np.minimum(place, len(mine) - 1)]] == operations.start[after]
    one, other = (streams_of(idle.context.trace, operations, rows) for rows in (before, after))
    same = follows & (one >= 0) & (one == other) & (operations.process[before] == operations.process[after])
    gap = gap[same]
    length = spans.end[gap] - spans.start[gap]
    longest = USUAL_GAPS * float(np.median(length)) if len(gap) >= FEW else LATENCY_NS
    usual = np.zeros(len(spans.start), bool)
    usual[gap[length <= longest]] = True
    found: Mask = queued & usual[idle.gap]
    return found
