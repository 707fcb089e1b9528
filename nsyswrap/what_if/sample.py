"""The simulated part of a window: all of it, or as many typical steps as can be simulated quickly."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsyswrap.base.intervals import Times, Window
from nsyswrap.loop.step_detection import Steps
from nsyswrap.trace.tables import array

# A sample has at most this many operations. Source: ours; 9,716 operations and their launches took 4 ms of CPU time a
# run.
MOST_OPERATIONS = 12_000
# One step may have so many times as many: what a step repeats, such as its microbatches, shows only in a whole one.
# Ours: by the same measurement, 40 ms a run.
LONGER_STEP = 8


@dataclass(frozen=True)
class Sample:
    """A part of a window.

    Attributes:
        window: Interval of the part.
        steps: Number of steps in it; 0 where it is not made of steps.
        scale: Length of the whole window divided by that of the part, or the ratio of their steps.
    """

    window: Window
    steps: int
    scale: float


def choose_sample(launched: Times, steps: Steps, window: Window, most: int = MOST_OPERATIONS) -> Sample:
    """Return the part of a window to simulate.

    Args:
        launched: When each operation was launched, in ns; where no call is known, when it began.
        steps: The steps of the training loop.
        window: The whole window.
        most: The most operations that it may have.

    Returns:
        The whole window where it has no more operations. Else as many consecutive measured steps as fit, or one, with
        a length nearest to their share of the window; of several processes the same steps. Without steps, a part from
        the middle of the window.
    """
    # The times are almost in order, so a stable sort is fast.
    inside = np.sort(launched[(launched >= window.start_ns) & (launched < window.end_ns)], kind="stable")
    measured = _measured(steps, window)
    if len(inside) <= most:
        return Sample(window, len(measured) if window.is_of_steps else 0, 1.0)
    if len(measured):
        start, end = array(measured, "start"), array(measured, "end")
        count = np.searchsorted(inside, np.append(start, end[-1]))
        of_step = max(int(np.median(np.diff(count))), 1)
        fitting = most // of_step or int(of_step <= LONGER_STEP * most)
        if fitting:
            return _mean_run(measured, min(fitting, len(measured)), window)
    first = (len(inside) - most) // 2
    begin, stop = int(inside[first]), int(inside[first + most - 1]) + 1
    part = Window(begin, stop, f"{most} operations from the middle of {window.label}", window.source)
    return Sample(part, 0, window.length_ns / part.length_ns)


def _measured(steps: Steps, window: Window) -> pd.DataFrame:
    """Return the measured steps that each process has in a window, by number.

    Returns:
        start: When the first process begins the step, in ns.
        end: When the last one ends it.
        length: Its mean length. A step lasts until the next one: the time between two belongs to the window as well.
    """
    frame = steps.in_all(window)
    start, end, process = array(frame, "start"), array(frame, "end"), array(frame, "process")
    is_last = np.append(process[1:] != process[:-1], True)[: len(process)]
    end = np.where(is_last, end, np.append(start[1:], 0)[: len(start)])
    frame = frame.assign(end=end, length=end - start)
    return frame.groupby("number").agg(start=("start", "min"), end=("end", "max"), length=("length", "mean"))


def _mean_run(measured: pd.DataFrame, count: int, window: Window) -> Sample:
    """Return the run of ``count`` consecutive steps whose mean step is nearest to that of all."""
    start, end, length = (array(measured, name) for name in ("start", "end", "length"))
    so_far = np.append(0, np.cumsum(length))
    chosen = int(np.argmin(np.abs((so_far[count:] - so_far[:-count]) / count - length.mean())))
    label = f"{count} of {len(start)} steps, from step {chosen + 1} of {window.label}"
    source = window.source if window.is_of_steps else "steps"
    part = Window(int(start[chosen]), int(end[chosen + count - 1]), label, source)
    return Sample(part, count, len(start) / count)
