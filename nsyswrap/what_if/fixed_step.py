"""The time of a step now, and of a step that is shorter by some saving.

It is the mean step: the time of all measured steps, divided by their number. The ledger, idle time and savings are sums
over the same time, so they add up to it; and it gets shorter where a few long steps do, as the median does not.
"""

from dataclasses import dataclass
from math import hypot

from nsyswrap.base.interval import Interval, around
from nsyswrap.base.intervals import Window
from nsyswrap.model import StepTimes

# A mean of fewer steps says little about the next ones. Source: issue of the project; below it, a page warns.
FEW_STEPS = 5
# Two runs of one program differ by as much, whatever limits them. Source: as the margin of a comparison of two runs.
RUNS_DIFFER = 0.03
# A range that is wider than this factor says nothing. Source: ours; a third of the step or all of it.
WIDEST_FACTOR = 3


@dataclass(frozen=True, slots=True)
class CurrentStep:
    """The time of a step now.

    Attributes:
        length: Its length in ns, without the profiler where that is known well enough.
        window_ns: Time of all steps of the window.
        count: How many steps were measured.
        is_recorded: Whether the length is that of the recorded run.
    """

    length: Interval[int]
    window_ns: int
    count: int = FEW_STEPS
    is_recorded: bool = False

    @property
    def is_of_few(self) -> bool:
        """Return whether so few steps were measured that their mean needs a caution."""
        return self.count < FEW_STEPS

    def after(self, saving: Interval[int], error_left: float = 1.0) -> Interval[int]:
        """Return its length where some time of the window is saved: each step gets shorter by the same share.

        The errors of the step and of the saving do not depend on one another.

        Args:
            saving: The time that is saved, in ns.
            error_left: How much of the error of the step is in what is left, as a share of its share there.
        """
        each, left = self.length.point / self.window_ns, 1 - saving.point / self.window_ns
        point = max(round(self.length.point * left), 0)
        sooner, later = (
            hypot(max(end * error_left, min(end, RUNS_DIFFER * self.length.point)) * left, error * each)
            for end, error in (
                (self.length.point - self.length.low, saving.high - saving.point),
                (self.length.high - self.length.point, saving.point - saving.low),
            )
        )
        return around(point, max(round(point - sooner), 0), round(point + later))


def is_known(time: Interval[int]) -> bool:
    """Return whether the range of a time is narrow enough to say something, and does not hold zero."""
    return 0 < time.high <= WIDEST_FACTOR * time.low


def typical(step: StepTimes, window: Window) -> CurrentStep | None:
    """Return the time of a step to which savings refer; None where fewer than two steps were measured.

    It is that of the program alone, where that is known well enough.
    """
    if not step.recorded_ns or (step.count or 0) <= 1:
        return None
    alone, count, total = step.alone, step.count or 0, step.total_in(window)
    if alone is None or not is_known(alone):
        mean = step.mean_in(window)
        return CurrentStep(Interval(mean, mean, mean), total, count, is_recorded=True)
    # The mean of the program's own steps; without these, that of the recorded steps gets shorter by the same share.
    whole, median = (total, step.recorded_ns) if step.alone_total_ns is None else (step.alone_total_ns, alone.point)
    return CurrentStep(alone.map(lambda ns: round(ns * (whole // count) / median)), whole, count)
