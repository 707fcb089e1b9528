"""How far a capture is: phases, and the percentages that nsys draws as text."""

import re
from collections.abc import Callable
from enum import StrEnum

_PERCENT = re.compile(rb"\[=*(\d{1,3})%")

# Longer than any bar that nsys draws.
_BAR_BYTES = 1024


class Phase(StrEnum):
    """What a capture does now, in the order in which it happens."""

    RUNNING = "running"
    WRITING = "writing"
    EXPORTING = "exporting"


# Called with the phase and the share of it that is done (0 to 1, never falling), or None where nothing tells.
Progress = Callable[[Phase, float | None], None]


def silent(phase: Phase, share: float | None) -> None:
    """Show nothing."""


def share_in(output: bytes) -> float | None:
    """Read the last percentage of nsys's progress bars.

    nsys draws ``[1/1] [==20%   ] name.nsys-rep`` while it writes a report and ``Processing 12121 events: [=6%  ]``
    while it exports one, each over the one before with a carriage return.

    Args:
        output: Bytes of nsys's output; a bar that is cut off at either end is not counted.

    Returns:
        A share of 1, or None where no whole bar is in the bytes.
    """
    found = _PERCENT.findall(output)
    return min(int(found[-1]), 100) / 100 if found else None


class MonotonicProgress:
    """Pass on a phase's share only where it rises: nsys's own bar goes back and forth.

    Args:
        progress: Where to.
        phase: The phase that all calls are about; announced at once.
    """

    def __init__(self, progress: Progress, phase: Phase) -> None:
        """Announce the phase."""
        self._progress = progress
        self._phase = phase
        self._highest = -1.0
        self._kept = b""
        progress(phase, None)

    def __call__(self, output: bytes) -> None:
        """Read one more piece of nsys's output; a bar may begin in one piece and end in the next."""
        self._kept = (self._kept + output)[-_BAR_BYTES:]
        share = share_in(self._kept)
        if share is not None and share > self._highest:
            self._highest = share
            self._progress(self._phase, share)
