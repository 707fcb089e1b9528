"""How long a capture is, and whether a report on it is one about a GPU."""

import re
from typing import Literal

from nsyswrap.base.errors import CannotTellError, UsageError
from nsyswrap.base.excerpt import Excerpt
from nsyswrap.base.intervals import Window, total
from nsyswrap.events.lost_events import UnrecordedLaunches
from nsyswrap.events.operations import Operations
from nsyswrap.trace.tables import Trace
from nsyswrap.trace.valid_rows import FARTHEST

# Work that takes less of the time cannot be a finding. Source: ours, the least share of a finding.
LEAST_SHARE = 0.02


BETWEEN_HINT = "seconds count from the start of the capture: --window 12.5:14"
_BETWEEN = re.compile(r"(-?\d+(?:\.\d+)?):(-?\d+(?:\.\d+)?)")


def extent(trace: Trace) -> tuple[int, int]:
    """Return the start of the first event of a capture and the end of the last, in ns.

    Raises:
        CannotTellError: There are no events.
    """
    if trace.excerpt is not None:
        return trace.excerpt.extent
    events = [frame for frame in trace.frames.values() if "end" in frame and len(frame)]
    if not events:
        raise CannotTellError("the capture holds no events at all", hint="run nsyswrap doctor")
    first = min(int(frame["start"].min()) for frame in events)
    last = max(int(frame["end"].max()) for frame in events)
    return first, max(last, first + 1)


def is_about_gpus(trace: Trace, operations: Operations, missing: UnrecordedLaunches) -> bool:
    """Return whether a report is one about GPUs: these ran kernels, or copied for a share of the time that matters.

    Where kernels were launched and have no record, what was recorded is not what the GPUs did.
    """
    if operations.has_kernels:
        return True
    if not operations.devices or len(missing.kernels.rows):
        return False
    first, last = extent(trace)
    length = trace.session.duration_ns or last - first
    return max(total(operations.busy(device)) for device in operations.devices) >= LEAST_SHARE * length


def between(text: str) -> Window:
    """Return the window of "START:END" in seconds since capture start.

    Raises:
        UsageError: The text is no such window, or the window is empty.
    """
    found = _BETWEEN.fullmatch(text.strip())
    if not found:
        raise UsageError(f"--window {text!r} is none of steps, all and START:END in seconds", hint=BETWEEN_HINT)
    start, end = (round(float(bound) * 1e9) for bound in found.groups())
    if end <= start:
        raise UsageError(f"--window {text}: the end must come after the start", hint=BETWEEN_HINT)
    if max(-start, end) > FARTHEST:
        raise UsageError(f"--window {text}: no capture lasts that long", hint=BETWEEN_HINT)
    return Window(start, end, f"{found.group(1)} s to {found.group(2)} s", "user")


def recorded(extent: tuple[int, int], given: Window) -> Window:
    """Return the part of the user's window between the first and the last event.

    Raises:
        UsageError: There is no such part.
    """
    first, last = extent
    start, end = max(given.start_ns, first), min(given.end_ns, last)
    if end <= start:
        held = f"the capture's events lie from {_bounds(first, last)}"
        raise UsageError(f"--window {given.label}: nothing was recorded there, {held}", hint=BETWEEN_HINT)
    if (start, end) == (given.start_ns, given.end_ns):
        return given
    return Window(start, end, _bounds(start, end), given.source)


def part_read(excerpt: Excerpt, source: Literal["operations", "user"]) -> Window:
    """Return the window of the part of a capture that was read."""
    words = f"{_bounds(excerpt.start_ns, excerpt.end_ns)}, the part that was read"
    return Window(excerpt.start_ns, excerpt.end_ns, words, source)


def _bounds(start_ns: int, end_ns: int) -> str:
    return f"{start_ns / 1e9:.9g} s to {end_ns / 1e9:.9g} s"
