"""Root cause: a few steps take much longer than the others."""

import numpy as np

from nsyswrap.attribution.idle_pieces import GENERIC, IdlePieces, Mask
from nsyswrap.attribution.root_cause import RootCause
from nsyswrap.attribution.step_outliers import is_outlier, longest_in, lost_to_outliers, unexplained
from nsyswrap.base.intervals import Indices, Spans, containing
from nsyswrap.base.rows import chosen, taken
from nsyswrap.rules.steps import UNEVEN
from nsyswrap.trace.tables import array, blocks


def find(idle: IdlePieces, free: Mask) -> Mask:
    """Return the longest generic pieces of each outlier step, up to the unexplained time that it loses."""
    found = idle.none
    generic = free & idle.is_cause(*GENERIC)
    explained_here = ~(generic | idle.is_cause("not_traced"))
    for process, steps in idle.context.steps.measured_inside(idle.window).groupby("process"):
        spans = Spans(array(steps, "start"), array(steps, "end"))
        length = spans.end - spans.start
        if not is_outlier(length).any():
            continue
        explained = np.zeros(len(spans.start), np.int64)
        for some in blocks(len(explained_here)):
            begun, end = chosen(explained_here[some], idle.pieces.start[some], idle.pieces.end[some])
            step = containing(spans, begun)
            inside = np.flatnonzero(step >= 0)
            np.add.at(explained, step[inside], end[inside] - begun[inside])
        left = unexplained(length, explained)
        # What shorter steps win back is not lost, so the finding does not count it either.
        lost = lost_to_outliers(idle.context, int(str(process)), idle.window, left)
        left = np.rint(left * (lost / max(int(left.sum()), 1))).astype(np.int64)
        losing = left > 0
        mine = _in_steps(idle, Spans(*chosen(losing, *spans)), generic & idle.of_processes([int(str(process))]))
        found[mine] |= longest_in(spans, left, idle.pieces.start[mine], idle.pieces.length_of(mine))
    return found


def _in_steps(idle: IdlePieces, steps: Spans, mask: Mask) -> Indices:
    """Return the chosen pieces that begin in a step; a few at a time, since few steps are meant and most pieces are."""
    parts = [np.empty(0, np.intp)]
    for some in blocks(len(mask)):
        rows = some.start + np.flatnonzero(mask[some])
        parts.append(rows[containing(steps, taken(idle.pieces.start, rows)) >= 0])
    return np.concatenate(parts)


ROOT_CAUSE = RootCause(150, UNEVEN, find, has_section=True)
