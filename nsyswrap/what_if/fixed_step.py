"""The time of a step now, and of a step that is shorter by some saving."""

from dataclasses import dataclass

from nsyswrap.base.intervals import Window
from nsyswrap.model import StepTimes
from nsyswrap.rules import steps

# Where the mean step is more than this many times the median step, a few long steps hold much of the time. Source:
# ours.
UNEVEN_FACTOR = 1.25


@dataclass(frozen=True, slots=True)
class CurrentStep:
    """The time of a step now.

    Attributes:
        length_ns: Its length.
        window_ns: Time of all steps of the window.
        is_mean: Whether it is the mean of the window; the median otherwise.
    """

    length_ns: int
    window_ns: int
    is_mean: bool = False

    def after(self, saving_ns: float) -> int:
        """Return its length where some time of the window is saved: each step gets shorter by the same share."""
        return max(round(self.length_ns * (1 - saving_ns / self.window_ns)), 0)


def typical(step: StepTimes, window: Window, rule: str | None) -> CurrentStep | None:
    """Return the time of a step to which savings refer, that of the program alone; None where there are no steps.

    Args:
        step: The measured steps of the window.
        window: Interval of the findings.
        rule: Rule of the first finding.
    """
    if not step.count or not step.recorded_ns:
        return None
    median_ns, total_ns = step.recorded_ns, step.total_in(window)
    if step.alone is not None and step.alone_total_ns:
        median_ns, total_ns = step.alone.point, step.alone_total_ns
    mean_ns = total_ns // step.count
    # The median does not change where a few long steps get shorter.
    uneven = rule == steps.UNEVEN.key or mean_ns > UNEVEN_FACTOR * median_ns
    return CurrentStep(mean_ns if uneven else median_ns, total_ns, uneven)
