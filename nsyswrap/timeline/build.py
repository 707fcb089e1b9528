"""The timeline: rows of GPUs, streams, phases, steps, threads and counters over one grid of bins."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import pandas as pd

from nsyswrap.base.intervals import Spans, Times, Window, times
from nsyswrap.base.intervals import gaps as uncovered
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import LongGap, TimelineData, TimelineRow
from nsyswrap.ranks.collectives import Collectives
from nsyswrap.timeline.bins import Grid, bins_of, cut
from nsyswrap.timeline.gpu_rows import counter_rows, gpu_row, stream_rows
from nsyswrap.timeline.host_rows import host_rows, phase_rows, step_rows
from nsyswrap.timeline.operation_names import operation_names
from nsyswrap.timeline.typical_step import shown_first
from nsyswrap.trace.tables import array, pid

LISTED_GAPS = 50
# JavaScript numbers are floats of 64 bits, exact for integers up to 53 bits: 104 days in ns.
FARTHEST = 1 << 53
# Number of the longest gaps around which every item is shown, whatever the size of the capture.
SHOWN_GAPS = 20
# With more GPUs than this, their streams and counters have no rows. Ours: the rows of eight fill several screens.
MOST_WITH_STREAMS = 8
NO_STREAMS = "The streams of {count} GPUs are not shown; analyze the report of one rank for them."
NOT_SHOWN = "{shown} of {count} GPUs are shown: those in the picture of the ranks."


def timeline(
    context: TraceContext,
    window: Window,
    gaps: pd.DataFrame,
    collectives: Collectives,
    drawn: Collection[int] = (),
) -> TimelineData | None:
    """Return the timeline of a report; None where no GPU ran anything, or where it would span months.

    Args:
        context: The trace, its events and its loop.
        window: Window of the report.
        gaps: The table ``gaps`` of the section on idle time: rule, phase and evidence of each idle ns of the window.
        collectives: When the last rank of each collective had arrived.
        drawn: GPUs that have rows; empty for all.
    """
    operations = context.operations
    if not operations.devices:
        return None
    whole = _whole(context, window)
    if max(abs(whole.start_ns), abs(whole.end_ns)) > FARTHEST:
        return None
    gaps = gaps.astype(dict.fromkeys(("rule", "phase", "evidence"), "category"))
    longest = longest_gaps(context, window)
    grid = _grid(context, window, whole, longest)
    names = operation_names(context)
    evidence = tuple(str(text) for text in gaps["evidence"].cat.categories)
    threads = host_rows(context, grid, window)
    devices = [device for device in operations.devices if device in drawn or not drawn]
    has_streams = len(devices) <= MOST_WITH_STREAMS
    gpus = [gpu_row(context, collectives, grid, window, gaps, device) for device in devices]
    streams = [
        [*stream_rows(context, grid, names, threads.threads, device), *counter_rows(context, grid, device)]
        for device in (devices if has_streams else ())
    ]
    of_gpus = _in_order(gpus, streams, is_job=bool(collectives.matched.any()))
    rows = (*step_rows(context, grid), *phase_rows(context, grid), *of_gpus, *threads.rows)
    shown, count = len(devices), len(operations.devices)
    left_out = [NOT_SHOWN.format(shown=shown, count=count)] if shown < count else []
    left_out += [] if has_streams else [NO_STREAMS.format(count=shown)]
    return TimelineData(
        window=window,
        edges=grid.edges,
        rows=tuple(_of_rank(row, collectives) for row in rows),
        gaps=longest,
        phases=context.phases.names,
        texts={**threads.texts, "evidence": evidence, "call": names.call_names},
        kernels=names.names,
        left_out=(*left_out, *threads.left_out),
    )


def _in_order(
    gpus: Sequence[TimelineRow], streams: Sequence[Sequence[TimelineRow]], *, is_job: bool
) -> list[TimelineRow]:
    """Return the rows of GPUs, each before its streams; in a job of ranks all GPUs first, to be compared."""
    if is_job or not streams:
        return [*gpus, *(row for each in streams for row in each)]
    return [row for gpu, its in zip(gpus, streams, strict=True) for row in (gpu, *its)]


def _of_rank(row: TimelineRow, collectives: Collectives) -> TimelineRow:
    """Return a row with the number of its rank in its label, where the capture has ranks that communicate."""
    ranks = collectives.ranks
    if not collectives.matched.any():
        return row
    of_gpu = row.device_id >= 0
    numbers = [
        rank.number
        for rank in ranks.each
        if (rank.device_id == row.device_id if of_gpu else pid(rank.process) == row.process)
    ]
    if len(numbers) != 1:
        return row
    return replace(row, label=f"rank {numbers[0]}, {row.label.removesuffix(f' of {row.process}')}")


def longest_gaps(context: TraceContext, window: Window) -> tuple[LongGap, ...]:
    """Return the longest gaps of all GPUs, longest first; on a tie by GPU and start."""
    gaps = []
    for device in context.operations.devices:
        spans = uncovered(context.operations.busy(device), window.start_ns, window.end_ns)
        order = np.argsort(spans.start - spans.end, kind="stable")[:LISTED_GAPS]
        gaps += [LongGap(device, int(spans.start[at]), int(spans.end[at])) for at in order]
    gaps.sort(key=lambda gap: (gap.start_ns - gap.end_ns, gap.device_id, gap.start_ns))
    return tuple(gaps[:LISTED_GAPS])


def _whole(context: TraceContext, window: Window) -> Window:
    """Return the interval that is shown: it holds the window, all operations and all steps."""
    steps, operations = context.steps.frame, context.operations
    starts = [window.start_ns, int(operations.start.min()), *array(steps, "start").tolist()]
    ends = [window.end_ns, int(operations.end.max()), *array(steps, "end").tolist()]
    if min(starts) == window.start_ns and max(ends) == window.end_ns:
        return window
    return Window(min(starts), max(ends), "all that is shown", "session")


def _grid(context: TraceContext, window: Window, whole: Window, longest: tuple[LongGap, ...]) -> Grid:
    frame = context.steps.frame
    steps: list[Times] = [array(frame, "start"), array(frame, "end")]
    shown = list(islice(longest, SHOWN_GAPS))
    around = [Spans(times([gap.start_ns]), times([gap.end_ns])) for gap in shown]
    bounds = times([window.start_ns, window.end_ns, *(at for gap in longest for at in gap[1:])])
    bins = bins_of(len(context.operations.devices))
    # The steps that the page shows first, those of each process in turn.
    starts, ends, warm_up = (array(frame, name) for name in ("start", "end", "warm_up"))
    rows: list[int] = []
    for process in frame["process"].unique().tolist():
        mine = np.flatnonzero(array(frame, "process") == process)
        rows += mine[shown_first(starts[mine], ends[mine], warm_up[mine].astype(bool), window)].tolist()
    first = Spans(starts[rows], ends[rows])
    return cut((whole, window), bins, context.operations.start, [bounds, *steps], around, first)
