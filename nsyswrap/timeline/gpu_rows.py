"""Rows of the timeline about GPUs: work and idle time by rule, the operations of each stream, and the counters."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from nsyswrap.attribution.attribution import RULES
from nsyswrap.base.intervals import Indices, LabelledSpans, Spans, Times, Window, intersect, layered, merge
from nsyswrap.base.intervals import gaps as uncovered
from nsyswrap.base.rows import taken
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import NO_PHASE
from nsyswrap.model import Numbers, TimelineItems, TimelineRow
from nsyswrap.ranks.collectives import Collectives
from nsyswrap.timeline.bins import Grid
from nsyswrap.timeline.operation_names import STREAM_CLASSES, OperationNames
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, coded

# Limits for all GPUs together: they keep the page below a few megabytes.
MOST_PIECES = 100_000
MOST_OPERATIONS = 100_000
MOST_STREAMS = 6
# A stream with less than this share of the busiest one's time has no row of its own.
SMALL_STREAM = 0.01

OUTSIDE = "outside"
# The kinds of work, the rules of idle time as the findings have them, and idle time outside the window.
BUSY_CLASSES = ("compute", "communication_wait", "communication", "copy", "memset")
GPU_CLASSES = (*BUSY_CLASSES, *RULES, OUTSIDE)
HUNDREDTHS = 100
NOT_SAMPLED = -1
_STREAM_BITS = 33


def gpu_row(  # noqa: PLR0913, PLR0917 - one argument a source
    context: TraceContext, collectives: Collectives, grid: Grid, window: Window, gaps: pd.DataFrame, device_id: int
) -> TimelineRow:
    """Return the time of a GPU: by kind of work while it is busy, by rule while it is idle."""
    layers = collectives.exclusive(context.operations, device_id, grid.extent)
    parts = [_part(spans, np.full(len(spans.start), kind)) for kind, spans in enumerate(layers)]
    parts += [_idle_part(context, gaps, device_id), _outside_part(context, grid, window, device_id)]
    order = np.argsort(np.concatenate([part["start"] for part in parts]), kind="stable")
    whole = {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}
    start, end, code = whole.pop("start"), whole.pop("end"), whole.pop("code")
    exact, chosen = grid.choose(start, end, MOST_PIECES // len(context.operations.devices))
    details = {name: values[chosen] for name, values in whole.items()}
    labels = LabelledSpans(Spans(start, end), code.astype(np.int32))
    return TimelineRow(
        *("gpu", f"GPU {device_id}", device_id, 0, 0, GPU_CLASSES),
        sums=grid.sums(labels, len(GPU_CLASSES)),
        exact=exact,
        items=TimelineItems(start[chosen], end[chosen], code[chosen], details),
    )


def _idle_part(context: TraceContext, gaps: pd.DataFrame, device_id: int) -> dict[str, Numbers]:
    """Return the idle time of the window: class, phase and evidence of each piece; phase and evidence count from 1."""
    mine = gaps[gaps["device_id"] == device_id]
    spans = Spans(array(mine, "start_ns"), array(mine, "end_ns"))
    rule = _recoded(mine["rule"], {name: len(BUSY_CLASSES) + at for at, name in enumerate(RULES)})
    phase = _recoded(mine["phase"], {name: at + 1 for at, name in enumerate(context.phases.names)})
    return _part(spans, rule, phase, mine["evidence"].cat.codes.to_numpy().astype(np.int32) + 1)


def _outside_part(context: TraceContext, grid: Grid, window: Window, device_id: int) -> dict[str, Numbers]:
    """Return the idle time before and after the window; it has no rule."""
    whole = grid.extent
    free = uncovered(context.operations.busy(device_id), whole.start_ns, whole.end_ns)
    beyond = uncovered(merge([window.start_ns], [window.end_ns]), whole.start_ns, whole.end_ns)
    spans = intersect(free, beyond)
    return _part(spans, np.full(len(spans.start), GPU_CLASSES.index(OUTSIDE)))


def _part(
    spans: Spans, code: Numbers, phase: Numbers | None = None, evidence: Numbers | None = None
) -> dict[str, Numbers]:
    none = np.zeros(len(spans.start), np.int32)
    return {
        "start": spans.start,
        "end": spans.end,
        "code": code,
        "phase": none if phase is None else phase,
        "evidence": none if evidence is None else evidence,
    }


def _recoded(texts: "pd.Series[str]", meaning: Mapping[str, int]) -> Numbers:
    """Return the number of each text of a categorical column; 0 for a text without a number."""
    column = texts.cat
    numbers = np.array([meaning.get(str(text), 0) for text in column.categories], np.int32)
    codes: Numbers = numbers[column.codes.to_numpy()] if len(numbers) else np.zeros(len(texts), np.int32)
    return codes


class _Lane(NamedTuple):
    """The operations of one row."""

    label: str
    process: int
    rows: Indices


def stream_rows(
    context: TraceContext, grid: Grid, names: OperationNames, threads: Times, device_id: int
) -> list[TimelineRow]:
    """Return the operations of a GPU, a row for each of its busiest streams and one for all others."""
    operations = context.operations
    mine = operations.on(device_id)
    # Each process numbers its own streams.
    of_process, processes = pd.factorize(operations.process[mine])
    codes, keys = pd.factorize(of_process.astype(np.int64) << _STREAM_BITS | taken(operations.stream, mine) + 1)
    busy = np.bincount(codes, weights=operations.end[mine] - operations.start[mine], minlength=len(keys))
    ranked = np.argsort(-busy, kind="stable")
    shown = max(int((busy[ranked[:MOST_STREAMS]] > SMALL_STREAM * busy.max()).sum()), 1)
    shown += len(ranked) == shown + 1  # a single remaining stream has a row of its own
    lanes = []
    for code in ranked[:shown].tolist():
        process, number = divmod(int(keys[code]), 1 << _STREAM_BITS)
        label = f"stream {number - 1}" if number else "operations"
        pid = tables.pid(int(processes[process]))
        lanes.append(_Lane(f"{label} of {pid}" if len(processes) > 1 else label, pid, mine[codes == code]))
    others = ranked[shown:]
    if len(others):
        lanes.append(_Lane(f"{len(others)} other streams", 0, mine[np.isin(codes, others)]))
    most = MOST_OPERATIONS // max(len(context.operations.devices) * len(lanes), 1)
    return [_stream_row(context, grid, names, threads, device_id, lane, most) for lane in lanes]


def _stream_row(  # noqa: PLR0913, PLR0917 - one argument a thing that a row is made of
    context: TraceContext, grid: Grid, names: OperationNames, threads: Times, device_id: int, lane: _Lane, most: int
) -> TimelineRow:
    operations, rows = context.operations, lane.rows
    start, end, code = operations.start[rows], operations.end[rows], names.classes[rows]
    exact, chosen = grid.choose(start, end, most)
    items = TimelineItems(start[chosen], end[chosen], code[chosen], _details(context, names, threads, rows[chosen]))
    sums = grid.sums(_flat(Spans(start, end), code), len(STREAM_CLASSES))
    return TimelineRow("stream", lane.label, device_id, lane.process, 0, STREAM_CLASSES, sums, exact, items)


def _flat(spans: Spans, code: Numbers) -> LabelledSpans:
    """Return the operations of a stream as labels; where those of a graph overlap, the first class counts."""
    if np.all(spans.start[1:] >= spans.end[:-1]):
        return LabelledSpans(spans, code.astype(np.int32))
    layers = [(each, merge(spans.start[code == each], spans.end[code == each])) for each in range(len(STREAM_CLASSES))]
    return layered(layers)


def _details(context: TraceContext, names: OperationNames, threads: Times, rows: Indices) -> dict[str, Numbers]:
    """Return name, phase, launch and size of operations; codes count from 1, and 0 means unknown."""
    operations, trace = context.operations, context.trace
    call = operations.call[rows]
    known = call >= 0
    latency, duration, thread = (np.zeros(len(rows), np.int64) for _ in range(3))
    calls = trace[tables.CALLS]
    began = array(calls, "start")[call[known]]
    latency[known] = operations.start[rows[known]] - began
    duration[known] = array(calls, "end")[call[known]] - began
    by_thread = coded(calls, "thread")[call[known]]
    order = np.argsort(threads)
    at = np.searchsorted(threads[order], by_thread) if len(threads) else np.zeros(len(by_thread), np.int64)
    hit = np.append(threads[order], -1)[at] == by_thread
    thread[known] = np.where(hit, np.append(order, 0)[at] + 1, 0)
    details: dict[str, Numbers] = {
        "name": names.codes[rows],
        "phase": context.phase_of_operations[rows] - NO_PHASE,
        "latency": latency,
        "call_ns": duration,
        "call": names.call_codes[rows],
        "thread": thread,
    }
    return details | {name: names.of_table(context, rows, name) for name in ("grid_blocks", "block_threads", "bytes")}


def counter_rows(context: TraceContext, grid: Grid, device_id: int) -> list[TimelineRow]:
    """Return the counters of a GPU: the mean of each bin in hundredths of a per cent."""
    rows = []
    start, end = grid.edges[:-1], grid.edges[1:]
    nothing = TimelineItems(start[:0], start[:0], start[:0])
    for reading in context.counter_samples:
        if reading.device_id != device_id:
            continue
        sampled = reading.sampled(start, end)
        mean = reading.integral(start, end) * HUNDREDTHS // np.maximum(sampled, 1)
        values = np.where(sampled > 0, mean, NOT_SAMPLED)[None, :]
        exact = np.zeros(grid.count, bool)
        rows.append(TimelineRow("counter", reading.name, device_id, 0, 0, ("mean",), values, exact, nothing))
    return rows
