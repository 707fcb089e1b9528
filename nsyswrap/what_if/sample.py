"""The simulated part of a window: all of it, or as many typical steps as can be simulated quickly."""

from dataclasses import dataclass

import numpy as np

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
        The whole window where it has no more operations; of several processes the part in which all take
        the same number of steps. Else as many consecutive measured steps as fit, or one, with a length nearest to their
        share of the window. Without steps, a part from the middle of the window.
    """
    window = steps.together(window)
    # The times are almost in order, so a stable sort is fast.
    inside = np.sort(launched[(launched >= window.start_ns) & (launched < window.end_ns)], kind="stable")
    start, end = _measured(steps, window)
    if len(inside) <= most:
        return Sample(window, len(start) if window.is_of_steps else 0, 1.0)
    if len(start):
        count = np.searchsorted(inside, np.append(start, end[-1]))
        of_step = max(int(np.median(np.diff(count))), 1)
        fitting = most // of_step or int(of_step <= LONGER_STEP * most)
        if fitting:
            return _mean_run(start, end, min(fitting, len(start)), window)
    first = (len(inside) - most) // 2
    begin, stop = int(inside[first]), int(inside[first + most - 1]) + 1
    part = Window(begin, stop, f"{most} operations from the middle of {window.label}", window.source)
    return Sample(part, 0, window.length_ns / part.length_ns)


def _measured(steps: Steps, window: Window) -> tuple[Times, Times]:
    """Return start and end of the measured steps in a window, of the process with most steps, in ns."""
    frame = steps.frame
    inside = (frame["start"] >= window.start_ns) & (frame["end"] <= window.end_ns) & ~frame["warm_up"]
    mine = frame[inside]
    if not len(mine):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    mine = mine[mine["process"] == mine["process"].mode()[0]]
    return array(mine, "start"), array(mine, "end")


def _mean_run(start: Times, end: Times, count: int, window: Window) -> Sample:
    """Return the run of ``count`` consecutive steps whose mean step is nearest to that of all."""
    # A step lasts until the next one starts: the time between two steps belongs to the window as well.
    until = np.append(start[1:], end[-1])
    first = np.arange(len(start) - count + 1)
    length = until[first + count - 1] - start[first]
    chosen = int(np.argmin(np.abs(length / count - (until[-1] - start[0]) / len(start))))
    begin, stop = int(start[chosen]), int(until[chosen + count - 1])
    label = f"{count} of {len(start)} steps, from step {chosen + 1} of {window.label}"
    return Sample(
        Window(begin, stop, label, window.source if window.is_of_steps else "steps"), count, len(start) / count
    )
