"""The part of the idle time that recording the host's calls takes: it gets the cause ``profiler``.

nsys adds some microseconds to each call that it records. While the GPU waits for the host, they are idle time that the
program alone does not have. The cost of a call is known only as measured on the machine, so each piece in which a
thread runs loses the usual cost of the calls that begin in it::

    GPU      ####|..............gap..............|####
    T            |   cpu    |       launch       |
    calls           ^event   ^launch
    pieces       | cpu |prof|  launch |   prof   |

The part is put at the end of the piece. Where a call costs more than its piece is long, the rest is taken from the
piece before it, in the same gap on the same thread.
"""

import numpy as np

from nsyswrap.attribution.causes import CODE
from nsyswrap.attribution.pieces import Pieces
from nsyswrap.base.intervals import Times
from nsyswrap.events.recorded_calls import RecordedCalls
from nsyswrap.events.thread_states import NO_NAME
from nsyswrap.trace.tables import distinct

# Causes in which the thread runs code of the program, which the recording of its calls delays. In the other causes it
# waits, or it is in a call that takes far longer than its recording.
RUNNING_CAUSES = ("cpu", "launch", "data_work", "garbage_collection", "file_io")


def with_profiler_time(pieces: Pieces, calls: RecordedCalls) -> Pieces:
    """Return the pieces of idle time, with the part that recording took as pieces of their own.

    Returns:
        Pieces whose lengths add up to the same idle time. They are unchanged where the cost was not measured.
    """
    taken = _taken(pieces, calls)
    if not taken.any():
        return pieces
    # A piece that loses a part is there twice, then each half gets its bound; a piece that loses all is there once.
    length = pieces.length
    split = (taken > 0) & (taken < length)
    row = np.repeat(np.arange(len(length)), 1 + split)
    second = np.append(False, row[1:] == row[:-1])[: len(row)]
    found, lost = pieces.of(row), taken[row]
    profiler = second | (lost == length[row])
    border = found.end - lost
    return Pieces(
        np.where(second, border, found.start),
        np.where(split[row] & ~second, border, found.end),
        found.gap,
        np.where(profiler, np.int8(CODE["profiler"]), found.cause),
        found.phase,
        found.owner,
        np.where(profiler, np.int32(NO_NAME), found.name),
        found.threads,
    )


def _taken(pieces: Pieces, calls: RecordedCalls) -> Times:
    """Return how much of each piece recording took, in ns: the usual cost of the calls in it."""
    cost = np.zeros(len(pieces.start), np.int64)
    if calls.cost is None or not len(cost):
        return cost
    running = np.isin(pieces.cause, [CODE[cause] for cause in RUNNING_CAUSES])
    for owner in distinct(pieces.owner).tolist():
        mine = np.flatnonzero(running & (pieces.owner == owner))
        added = calls.usual(int(pieces.threads[owner]), pieces.start[mine], pieces.end[mine])
        cost[mine] = np.rint(added).astype(np.int64)
    room = np.where(running, pieces.length, 0)
    same = (pieces.gap[1:] == pieces.gap[:-1]) & (pieces.owner[1:] == pieces.owner[:-1])
    spilled = np.append(np.where(same, np.maximum(cost - room, 0)[1:], 0), 0)
    taken: Times = np.minimum(cost + spilled, room)
    return taken
