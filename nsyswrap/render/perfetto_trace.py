"""The events of a capture in the trace event format, which ui.perfetto.dev and chrome://tracing open.

Each GPU is a process with one track for its idle time, named by the rule it belongs to, and one for each stream. Each
CPU process has steps, ranges and calls by thread. An arrow connects each launch call with its operation. Times are µs
with three decimals, so each ns is kept. The text comes in pieces, so that it can be written while it is made.

Source: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU, "Trace Event Format".
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import Indices, Times
from nsyswrap.loop.phase_detection import NONE
from nsyswrap.model import Report
from nsyswrap.render.escape import visible
from nsyswrap.render.vocabulary import cause_name, rule_name
from nsyswrap.trace.tables import array

ROWS_AT_ONCE = 1 << 16
# The viewer treats a track with the number of its process as the main thread, so track numbers start above them.
FIRST_TRACK = 1 << 16


class FrameStyle(NamedTuple):
    """How the rows of one frame are drawn.

    Attributes:
        name: Column that names an event.
        keys: Columns that identify a track, after the GPU or the process.
        label: Label of a track, with the keys filled in.
        details: Columns that are shown after a click.
    """

    frame: str
    name: str
    keys: tuple[str, ...]
    label: str
    details: tuple[str, ...]


_STREAM = ("pid", "stream")
_GPU_KINDS = (
    FrameStyle("gaps", "reason", (), "idle time", ("cause", "phase", "evidence")),
    FrameStyle(
        "kernels",
        "name",
        _STREAM,
        "stream {stream} of process {pid}",
        ("phase", "verdict", "precision", "library", "grid_blocks", "block_threads"),
    ),
    FrameStyle("copies", "name", _STREAM, "stream {stream} of process {pid}: copies", ("phase", "bytes")),
    FrameStyle("memsets", "name", _STREAM, "stream {stream} of process {pid}: memsets", ("phase", "bytes")),
    FrameStyle("graphs", "name", _STREAM, "stream {stream} of process {pid}: graphs", ("phase",)),
)
_HOST_KINDS = (
    FrameStyle("steps", "name", ("tid",), "steps of thread {tid}", ("warm_up",)),
    FrameStyle("phases", "phase", ("tid",), "phases of thread {tid}", ("text",)),
    FrameStyle("ranges", "text", ("tid",), "thread {tid}: NVTX ranges", ("domain", "phase")),
    FrameStyle("calls", "name", ("tid",), "thread {tid}: CUDA calls", ()),
    FrameStyle("os_calls", "name", ("tid",), "thread {tid}: operating system", ()),
)
_LAUNCHED = ("kernels", "copies", "memsets", "graphs")


@dataclass
class _Tracks:
    """Process and track numbers of the viewer, each used once, and the events that name them."""

    groups: dict[tuple[str, int], int] = field(default_factory=dict)
    named: list[str] = field(default_factory=list)
    count: int = 0

    def group(self, kind: str, number: int, label: str) -> int:
        """Return the viewer's process number for a GPU or a process."""
        if (kind, number) not in self.groups:
            self.groups[kind, number] = len(self.groups) + 1
            own = self.groups[kind, number]
            self.named += [_meta("process_name", own, 0, {"name": label})]
            self.named += [_meta("process_sort_index", own, 0, {"sort_index": own})]
        return self.groups[kind, number]

    def track(self, group: int, label: str) -> int:
        """Return a new track of a group."""
        own = FIRST_TRACK + self.count
        self.count += 1
        self.named += [_meta("thread_name", group, own, {"name": label})]
        self.named += [_meta("thread_sort_index", group, own, {"sort_index": own})]
        return own


class _Placed(NamedTuple):
    """The viewer's process and track of each row of a frame."""

    group: Indices
    track: Indices


def pieces(report: Report, frames: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """Yield the text of the trace."""
    phases = frames["ranges"][frames["ranges"]["phase"] != NONE]
    frames = {**frames, "phases": phases, "gaps": _with_reasons(frames["gaps"])}
    # The viewer cannot show times before zero.
    zero = min((int(array(frame, "start_ns").min()) for frame in frames.values() if len(frame)), default=0)
    zero = min(zero, 0)
    about = {
        "capture": visible(report.capture.name),
        "verdict": visible(report.verdict),
        "window": visible(report.window.label),
        "window_start_ns": report.window.start_ns,
        "window_end_ns": report.window.end_ns,
        "zero_ns": zero,
    }
    tracks = _Tracks()
    names = {gpu.device_id: gpu.name for gpu in report.gpus}
    placed = {kind.frame: _placed(tracks, frames[kind.frame], kind, names) for kind in (*_GPU_KINDS, *_HOST_KINDS)}
    gpu_of = {device: _gpu(tracks, device, names) for device in frames["counters"]["device_id"].unique().tolist()}
    yield f'{{"displayTimeUnit":"ns","otherData":{json.dumps(about)},"traceEvents":[\n'
    yield _meta("process_labels", 1, 0, {"labels": "nsyswrap"})
    yield "".join(f",\n{event}" for event in tracks.named)
    for kind in (*_GPU_KINDS, *_HOST_KINDS):
        yield from _slices(kind, frames[kind.frame], placed[kind.frame], zero)
    yield from _arrows(frames, placed, zero)
    yield from _counters(frames["counters"], gpu_of, zero)
    yield "\n]}\n"


def _with_reasons(gaps: pd.DataFrame) -> pd.DataFrame:
    """Return the idle time with the name of its rule, or of its cause where it has no rule."""
    if "rule" in gaps:
        return gaps.assign(reason=gaps["rule"].astype(str).map(rule_name))
    return gaps.assign(reason=gaps["cause"].astype(str).map(cause_name))


def lanes(start: Times, end: Times) -> npt.NDArray[np.int64]:
    """Return the lane of each span, so that two spans of one lane are disjoint or nested.

    The viewer misplaces or drops a span that overlaps another one only partly.

    Args:
        start: Starts in order; spans with equal starts are in order of length, the longest first.
        end: Their ends.
    """
    found = np.zeros(len(start), np.int64)
    if not (end[:-1] > start[1:]).any():
        return found
    # For each lane the ends of its open spans, the innermost last.
    open_ends: list[list[int]] = []
    for row, (first, last) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        for lane, ends in enumerate(open_ends):  # noqa: B007 - the lane that fits is used below
            while ends and ends[-1] <= first:
                ends.pop()
            if not ends or last <= ends[-1]:
                break
        else:
            lane, ends = len(open_ends), []
            open_ends.append(ends)
        ends.append(last)
        found[row] = lane
    return found


def _placed(tracks: _Tracks, frame: pd.DataFrame, kind: FrameStyle, names: Mapping[int, str]) -> _Placed:
    of_gpu = kind in _GPU_KINDS
    keys = ["device_id" if of_gpu else "pid", *kind.keys]
    group, track = np.zeros(len(frame), np.intp), np.zeros(len(frame), np.intp)
    start, end = array(frame, "start_ns"), array(frame, "end_ns")
    for key, rows in frame.groupby(keys, sort=True, observed=True).indices.items():
        values = dict(zip(keys, key if isinstance(key, tuple) else (key,), strict=True))
        number = int(values[keys[0]])
        own = _gpu(tracks, number, names) if of_gpu else tracks.group("process", number, f"process {number}")
        order = rows[np.lexsort((-end[rows], start[rows]))]
        lane = lanes(start[order], end[order])
        label = kind.label.format(**values)
        numbers = [
            tracks.track(own, f"{label} ({at + 1})" if at else label) for at in range(int(lane.max(initial=0)) + 1)
        ]
        group[order], track[order] = own, np.array(numbers)[lane]
    return _Placed(group, track)


def _gpu(tracks: _Tracks, device_id: int, names: Mapping[int, str]) -> int:
    return tracks.group("GPU", device_id, f"GPU {device_id} {visible(names.get(device_id, ''))}".strip())


def _slices(kind: FrameStyle, frame: pd.DataFrame, placed: _Placed, zero: int) -> Iterator[str]:
    """Yield the rows of a frame as spans."""
    details = ",".join(f"{json.dumps(name)}:%s" for name in kind.details)
    form = f',\n{{"ph":"X","cat":"{kind.frame}","name":%s,"pid":%s,"tid":%s,"ts":%s,"dur":%s,"args":{{{details}}}}}'
    start, end = array(frame, "start_ns"), array(frame, "end_ns")
    for rows in _parts(len(frame)):
        part = frame.iloc[rows]
        columns: list[Iterable[object]] = [_texts(part[kind.name]), placed.group[rows], placed.track[rows]]
        columns += [_micros(start[rows] - zero), _micros(end[rows] - start[rows])]
        columns += [_texts(part[name]) for name in kind.details]
        yield "".join([form % row for row in zip(*columns, strict=True)])


def _arrows(frames: Mapping[str, pd.DataFrame], placed: Mapping[str, _Placed], zero: int) -> Iterator[str]:
    """Yield an arrow from each launch call to its operation."""
    calls = array(frames["calls"], "start_ns")
    one = ',\n{"ph":"%s","cat":"launch","name":"launch","id":%%s,"pid":%%s,"tid":%%s,"ts":%%s%s}'
    form = one % ("s", "") + one % ("f", ',"bp":"e"')
    count = 0
    for key in _LAUNCHED:
        call, start = array(frames[key], "call"), array(frames[key], "start_ns")
        known = np.flatnonzero(call >= 0)
        for part in _parts(len(known)):
            rows = known[part]
            by = call[rows]
            numbers = range(count + 1, count + 1 + len(rows))
            count += len(rows)
            left = (numbers, placed["calls"].group[by], placed["calls"].track[by], _micros(calls[by] - zero))
            right = (numbers, placed[key].group[rows], placed[key].track[rows], _micros(start[rows] - zero))
            yield "".join([form % row for row in zip(*left, *right, strict=True)])


def _counters(frame: pd.DataFrame, gpu_of: Mapping[int, int], zero: int) -> Iterator[str]:
    """Yield the samples of the GPU counters."""
    form = ',\n{"ph":"C","cat":"counters","name":%s,"pid":%s,"ts":%s,"args":{"per cent":%s}}'
    for rows in _parts(len(frame)):
        part = frame.iloc[rows]
        group = [gpu_of[device] for device in array(part, "device_id").tolist()]
        columns = (_texts(part["counter"]), group, _micros(array(part, "start_ns") - zero), array(part, "percent"))
        yield "".join([form % row for row in zip(*columns, strict=True)])


def _parts(count: int) -> Iterator[slice]:
    return (slice(at, min(at + ROWS_AT_ONCE, count)) for at in range(0, count, ROWS_AT_ONCE))


def _texts(column: "pd.Series[Any]") -> list[str]:
    """Return the cells of a column as JSON; each distinct text is written once."""
    if column.dtype.kind in "iub":
        return [json.dumps(value) for value in column.tolist()]
    codes, distinct = pd.factorize(column)
    texts = [json.dumps(visible(str(text))) for text in distinct]
    return [texts[code] for code in codes]


def _micros(ns: Times) -> list[str]:
    """Return times as µs with three decimals, exactly; none is negative."""
    return [f"{value // 1000}.{value % 1000:03d}" for value in ns.tolist()]


def _meta(what: str, group: int, track: int, about: Mapping[str, object]) -> str:
    return json.dumps({"ph": "M", "name": what, "pid": group, "tid": track, "args": about})
