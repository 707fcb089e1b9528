"""Idle time by cause, of a window and of each step: what is kept of the pieces of idle time, which are many."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nsyswrap.intervals import Spans, Times, covered
from nsyswrap.loop.step_detection import Steps
from nsyswrap.tables import array


class IdleSums(NamedTuple):
    """Idle time of one device inside a window.

    Attributes:
        total: In ns by cause, shape (causes,).
        of_steps: In ns by cause and row of the context's steps, clipped to the window, shape (causes, steps).
    """

    total: Times
    of_steps: npt.NDArray[np.int64]


def sum_idle(spans: Spans, cause: npt.NDArray[np.int8], causes: int, steps: Steps) -> IdleSums:
    """Return the sums of pieces of idle time.

    Args:
        spans: The pieces, sorted and disjoint.
        cause: Number of the cause of each piece, shape (n,).
        causes: How many causes there are.
        steps: The steps of the training loop.
    """
    start, end = array(steps.frame, "start"), array(steps.frame, "end")
    total = np.zeros(causes, np.int64)
    of_steps = np.zeros((causes, len(start)), np.int64)
    for code in np.flatnonzero(np.bincount(cause, minlength=causes)):
        mine = cause == code
        pieces = Spans(spans.start[mine], spans.end[mine])
        total[code] = np.sum(pieces.end - pieces.start)
        if len(start):
            of_steps[code] = covered(pieces, start, end)
    return IdleSums(total, of_steps)
