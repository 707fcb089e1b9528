"""The timeline: what each GPU, stream, phase, step, thread and counter did, as rows over one grid of bins."""

from itertools import islice

import numpy as np
import pandas as pd

from nsyswrap.intervals import Spans, Times, Window, gaps, times
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import LongGap, TimelineData
from nsyswrap.tables import array
from nsyswrap.timeline.bins import Grid, bins_of, cut
from nsyswrap.timeline.gpu_rows import counter_rows, gpu_row, stream_rows
from nsyswrap.timeline.host_rows import host_rows, phase_rows, step_rows
from nsyswrap.timeline.operation_names import operation_names

LISTED_GAPS = 50
# A page reads numbers as floats of 64 bits, which hold whole ones up to 53: 104 days in ns.
FARTHEST = 1 << 53
# Of these, time around is shown item by item whatever the size of the capture.
SHOWN_GAPS = 20


def timeline(context: TraceContext, window: Window, idle: pd.DataFrame) -> TimelineData | None:
    """Return what the timeline of a report shows; None where no GPU did anything, or it would span months.

    Args:
        context: The trace and what is known of it.
        window: Stretch the report is about.
        idle: The table ``gaps`` of the section on idle time: what each idle ns of the window is put down to.
    """
    operations = context.operations
    if not operations.devices or _reach(_whole(context, window)) > FARTHEST:
        return None
    idle = idle.astype(dict.fromkeys(("cause", "phase", "evidence"), "category"))
    longest = longest_gaps(context, window)
    grid = _grid(context, window, longest)
    names = operation_names(context)
    evidence = tuple(str(text) for text in idle["evidence"].cat.categories)
    threads = host_rows(context, grid, window)
    rows = [*step_rows(context, grid), *phase_rows(context, grid)]
    for device in operations.devices:
        rows.append(gpu_row(context, grid, window, idle, device))
        rows.extend(stream_rows(context, grid, names, threads.threads, device))
        rows.extend(counter_rows(context, grid, device))
    return TimelineData(
        window=window,
        edges=grid.edges,
        rows=(*rows, *threads.rows),
        gaps=longest,
        phases=context.phases.names,
        texts={**threads.texts, "evidence": evidence, "call": tuple(names.calls)},
        kernels=names.names,
        left_out=threads.left_out,
    )


def longest_gaps(context: TraceContext, window: Window) -> tuple[LongGap, ...]:
    """Return the longest gaps of all GPUs, longest first; of equal ones the earlier GPU and start."""
    found = []
    for device in context.operations.devices:
        spans = gaps(context.operations.busy(device), window.start_ns, window.end_ns)
        order = np.argsort(spans.start - spans.end, kind="stable")[:LISTED_GAPS]
        found += [LongGap(device, int(spans.start[at]), int(spans.end[at])) for at in order]
    found.sort(key=lambda gap: (gap.start_ns - gap.end_ns, gap.device_id, gap.start_ns))
    return tuple(found[:LISTED_GAPS])


def _whole(context: TraceContext, window: Window) -> Window:
    """Return the stretch that is shown: all operations and steps, and the window."""
    steps, operations = context.steps.frame, context.operations
    starts = [window.start_ns, int(operations.start.min()), *array(steps, "start").tolist()]
    ends = [window.end_ns, int(operations.end.max()), *array(steps, "end").tolist()]
    if min(starts) == window.start_ns and max(ends) == window.end_ns:
        return window
    return Window(min(starts), max(ends), "all that is shown", "session")


def _reach(whole: Window) -> int:
    """Return the farthest time from the start of the capture, either way."""
    return max(abs(whole.start_ns), abs(whole.end_ns))


def _grid(context: TraceContext, window: Window, longest: tuple[LongGap, ...]) -> Grid:
    frame = context.steps.frame
    steps: list[Times] = [array(frame, "start"), array(frame, "end")]
    shown = list(islice(longest, SHOWN_GAPS))
    around = [Spans(times([gap.start_ns]), times([gap.end_ns])) for gap in shown]
    bounds = times([window.start_ns, window.end_ns, *(at for gap in longest for at in gap[1:])])
    bins = bins_of(len(context.operations.devices))
    return cut((_whole(context, window), window), bins, context.operations.start, [bounds, *steps], around)
