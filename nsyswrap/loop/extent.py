"""How long a capture is, and whether a report on it is one about a GPU."""

from nsyswrap.base.errors import CannotTellError
from nsyswrap.base.intervals import total
from nsyswrap.events.lost_events import UnrecordedLaunches
from nsyswrap.events.operations import Operations
from nsyswrap.trace.tables import Trace

# Work that takes less of the time cannot be a finding. Source: ours, the least share of a finding.
LEAST_SHARE = 0.02


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
