"""Root cause: a few steps take much longer than the others."""

import numpy as np

from nsyswrap.attribution.idle_pieces import GENERIC, IdlePieces, Mask
from nsyswrap.attribution.step_outliers import is_outlier, longest_in, lost_to_outliers, unexplained
from nsyswrap.intervals import Spans, containing
from nsyswrap.tables import array

RULE = "steps/uneven"


def find(idle: IdlePieces, free: Mask) -> Mask:
    """Return the longest generic pieces of each outlier step, up to the unexplained time that it loses."""
    found = idle.none
    generic, not_traced = free & idle.is_cause(*GENERIC), idle.is_cause("not_traced")
    for process, steps in idle.context.steps.measured_inside(idle.window).groupby("process"):
        spans = Spans(array(steps, "start"), array(steps, "end"))
        length = spans.end - spans.start
        if not is_outlier(length).any():
            continue
        step = containing(spans, idle.pieces.start)
        explained = (step >= 0) & ~generic & ~not_traced
        left = unexplained(length, np.bincount(step[explained], idle.length[explained], len(length)).astype(np.int64))
        # What shorter steps win back is not lost, so the finding does not count it either.
        left = np.rint(left * (lost_to_outliers(length, left) / max(int(left.sum()), 1))).astype(np.int64)
        mine = np.flatnonzero(generic & (idle.process == int(str(process))))
        found[mine] |= longest_in(spans, left, idle.pieces.start[mine], idle.length[mine])
    return found
