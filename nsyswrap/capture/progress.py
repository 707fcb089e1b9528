"""Progress of a capture: its phases, and the percentages in nsys's text output."""

import re
from collections.abc import Callable
from enum import StrEnum

_PERCENT = re.compile(rb"\[=*(\d{1,3})%")

# Longer than any bar that nsys draws.
_BAR_BYTES = 1024


class Phase(StrEnum):
    """The phases of a capture, in order."""

    RUNNING = "running"
    WRITING = "writing"
    EXPORTING = "exporting"


# Called with the phase and the share of it that is done (0 to 1, never falling), or None if that is unknown.
Progress = Callable[[Phase, float | None], None]


def silent(phase: Phase, share: float | None) -> None:
    """Ignore progress."""


def share_in(output: bytes) -> float | None:
    """Return the last percentage of nsys's progress bars, from 0 to 1; None if there is no complete bar.

    nsys prints ``[1/1] [==20%   ] name.nsys-rep`` while it writes a report and ``Processing 12121 events: [=6%  ]``
    while it exports one, each over the previous one after a carriage return. A bar that is cut off is ignored.
    """
    percents = _PERCENT.findall(output)
    return min(int(percents[-1]), 100) / 100 if percents else None


class MonotonicProgress:
    """Reports the progress of a phase only when it increases; nsys's own bar also goes backwards."""

    def __init__(self, progress: Progress, phase: Phase) -> None:
        self._progress = progress
        self._phase = phase
        self._highest = -1.0
        self._kept = b""
        progress(phase, None)

    def __call__(self, output: bytes) -> None:
        """Read the next piece of nsys's output; a bar may span two pieces."""
        self._kept = (self._kept + output)[-_BAR_BYTES:]
        share = share_in(self._kept)
        if share is not None and share > self._highest:
            self._highest = share
            self._progress(self._phase, share)
