"""Root cause: a few steps take much longer than the others."""

import numpy as np

from nsyswrap.attribution.idle_pieces import GENERIC, IdlePieces, Mask
from nsyswrap.attribution.root_cause import RootCause
from nsyswrap.attribution.step_outliers import is_outlier, longest_in, lost_to_outliers, unexplained
from nsyswrap.base.intervals import Spans
from nsyswrap.rules.steps import UNEVEN
from nsyswrap.trace.tables import array


def find(idle: IdlePieces, free: Mask) -> Mask:
    """Return the longest generic pieces of each outlier step, up to the unexplained time that it loses."""
    found, pieces = idle.none, idle.pieces
    generic = free & idle.is_cause(*GENERIC)
    explained_here = ~(generic | idle.is_cause("not_traced"))
    for process, steps in idle.context.steps.measured_inside(idle.window).groupby("process"):
        spans = Spans(array(steps, "start"), array(steps, "end"))
        length = spans.end - spans.start
        if not is_outlier(length).any():
            continue
        # The pieces that begin in each step.
        begun = zip(*(np.searchsorted(pieces.start, side).tolist() for side in spans), strict=True)
        of_steps = [slice(first, max(first, last)) for first, last in begun]
        explained = [np.sum(pieces.end[some] - pieces.start[some], where=explained_here[some]) for some in of_steps]
        left = unexplained(length, np.array(explained, np.int64))
        # What shorter steps win back is not lost, so the finding does not count it either.
        lost = lost_to_outliers(idle.context, int(str(process)), idle.window, left)
        left = np.rint(left * (lost / max(int(left.sum()), 1))).astype(np.int64)
        mask = generic & idle.of_processes([int(str(process))])
        losing = [of_steps[step] for step in np.flatnonzero(left > 0)]
        mine = np.concatenate([np.empty(0, np.intp), *(some.start + np.flatnonzero(mask[some]) for some in losing)])
        found[mine] |= longest_in(spans, left, pieces.start[mine], pieces.length_of(mine))
    return found


ROOT_CAUSE = RootCause(150, UNEVEN, find, has_section=True)
