"""Times of a step on one scale: with the same unit and decimals, so that what is shown adds up.

A saving is the difference of the two times as they are shown. A range that is wider than a factor of three gives no
time, and a saving that rounds to nothing gives none.
"""

from dataclasses import dataclass

from nsyswrap.base import units
from nsyswrap.base.interval import Interval
from nsyswrap.base.units import Scale
from nsyswrap.model import Report
from nsyswrap.render.document import Effect
from nsyswrap.what_if.fixed_step import CurrentStep, is_known, typical

UNKNOWN = "unknown"
WIDE = "The range of the estimate is wider than a factor of 3."
SMALL = "It saves less than the estimate can show."
NO_ESTIMATE = "Nothing simulates what this saves."


@dataclass(frozen=True, slots=True)
class StepScale:
    """The scale of all times of a step on a page."""

    now: CurrentStep
    scale: Scale

    @property
    def now_ns(self) -> int:
        """Return the time of a step now."""
        return self.now.length.point

    def text(self, ns: float) -> str:
        """Return a time of a step with its unit."""
        return f"{self.scale.text(ns)} {self.scale.unit}"

    def at_most_now(self, ns: int) -> int:
        """Return a time after a change in ns: at most that of a step now."""
        return min(ns, self.now_ns)

    def range(self, time: Interval[int]) -> str:
        """Return the range of a time that is not longer than a step now; empty where both ends read the same."""
        low, high = map(self.scale.text, map(self.at_most_now, time.ends))
        return f"{low} to {high} {self.scale.unit}" if low != high else ""

    def percent(self, ns: float) -> str:
        """Return a time as a share of the step now, in per cent, at most all of it."""
        return f"{min(100 * ns / max(self.now_ns, 1), 100.0):.2f}"

    def _digits(self, ns: float) -> int:
        """Return the digits of a time as it is shown."""
        return int(f"{ns / self.scale.divisor:.{self.scale.decimals}f}".replace(".", ""))

    def effect(self, before_ns: int, after: Interval[int], label: str, how: str) -> Effect:
        """Return what a change does to a step."""
        saved = self._digits(before_ns) - self._digits(after.point)
        if not is_known(after):
            return Effect(UNKNOWN, label, why=WIDE)
        if saved <= 0:
            return Effect(UNKNOWN, label, why=SMALL)
        saving = f"saves {self.text(saved * self.scale.divisor / 10**self.scale.decimals)}"
        ends = (self.percent(after.low), self.percent(after.high))
        point, before = self.percent(after.point), self.percent(before_ns)
        return Effect(self.text(after.point), label, saving, self.range(after), how, (point, before), ends)


def step_scale(report: Report) -> StepScale | None:
    """Return the scale of a report; None where the window is not made of at least two measured steps."""
    now = typical(report.step, report.window)
    # Of the rounded time: 999.6 ms reads 1.00 s.
    return None if now is None else StepScale(now, units.scale_for([float(f"{now.length.point:.3g}")], "ns"))
