"""The typical step as a picture: what the CPU and the GPU did, one lane for each account, and where findings lie.

The script of the page draws any other step in the same way (``static/step_draw.js``); it reads the constants from here.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from nsyswrap.base import units
from nsyswrap.base.intervals import Times
from nsyswrap.model import TimelineData, TimelineRow
from nsyswrap.render import hues
from nsyswrap.render.escape import elide, visible
from nsyswrap.render.step_columns import Sums, cluster, column_edges, heights, outline, taken
from nsyswrap.render.step_marks import Mark, Tick, Wanted, place, ticks
from nsyswrap.render.step_rows import process_of, rows_of
from nsyswrap.render.vocabulary import LEDGER_PARTS
from nsyswrap.rules import rule_name, rule_of

# Columns of a whole drawing: about the pixels of a wide page.
COLUMNS = 1200
# Time of one class that is fewer columns apart than this belongs together. Ours: a letter is as wide.
APART = 8
# Pixels: the line above a lane, the space below it, and the axis.
HEAD, SPACE, AXIS = 17, 7, 22
MOST_THREADS, MOST_ARROWS = 2, 3
# Arrows start at least this share of the drawing apart, and are at least this long.
ARROWS_APART, SHORTEST_ARROW = 0.08, 0.004
_NAME_WIDTH = 32


class LaneKind(NamedTuple):
    """A lane of GPU time: key, name, the classes in it (none: all idle time) and the height of its bar in pixels."""

    key: str
    name: str
    classes: tuple[str, ...]
    height: int


PHASES, THREAD = LaneKind("phases", "phases", (), 22), LaneKind("thread", "thread", (), 12)
GPU_LANES = (
    LaneKind("compute", "compute", ("compute",), 22),
    LaneKind("communication", "exposed communication", ("communication", "communication_wait"), 20),
    LaneKind("copies", "exposed copies", ("copy", "memset"), 16),
    LaneKind("idle", "idle, by account", (), 26),
)
WORDS: Mapping[str, str] = {part.key: part.label for part in LEDGER_PARTS} | {
    "communication_wait": "waiting for other ranks",
    "outside": "idle outside the window",
}
WORK = frozenset(name for kind in GPU_LANES for name in kind.classes)
# What a thread does: hue, words, and the classes of its row.
STATES = (
    ("idle-launch", "in CUDA calls", ("launch",)),
    ("idle-wait", "blocked in CUDA calls", ("synchronization", "blocking_copy")),
    ("waiting", "waiting", ("lock", "wait", "thread_wait", "off_cpu", "untraced_wait", "peer_wait")),
)


class Pinned(NamedTuple):
    """A finding that may have a place in a step: number on the page, rule, GPUs (none for all), anchor and headline."""

    number: int
    rule: str
    devices: tuple[int, ...]
    anchor: str
    headline: str


class ClassTime(NamedTuple):
    """The time of one class: its key, hue and fill, its time, its outline, and what it says under the pointer."""

    key: str
    hue: str
    fill: str
    ns: int
    path: str
    title: str


class LaneAmount(NamedTuple):
    """A time in words, with hue and fill of its colour in the lane; empty where it is the whole lane."""

    hue: str
    fill: str
    text: str


class Lane(NamedTuple):
    """A lane: key, name, times, top and height of its bar in pixels, parts from the upper one, marks, and its ns."""

    key: str
    name: str
    amounts: tuple[LaneAmount, ...]
    y: int
    height: int
    parts: tuple[ClassTime, ...]
    marks: tuple[Mark, ...]
    ns: int = 0


class Arrow(NamedTuple):
    """From the launch of a kernel to its start: positions in per cent and pixels, and a sentence."""

    x1: str
    y1: int
    x2: str
    y2: int
    title: str


class InStep(NamedTuple):
    """A finding that has time in the step: number, anchor, name, hue and fill, and its time."""

    number: int
    anchor: str
    name: str
    hue: str
    fill: str
    time: str


class StepPicture(NamedTuple):
    """One step, drawn.

    Attributes:
        label: The picture in words.
        lanes: Its lanes, from the top.
        arrows: The longest waits from launch to start.
        ticks: Times of its axis.
        columns: Columns of its outlines.
        part: Width of the step in per cent of the drawing.
        height: Height in pixels.
        findings: The findings with time in it.
    """

    label: str
    lanes: tuple[Lane, ...]
    arrows: tuple[Arrow, ...]
    ticks: tuple[Tick, ...]
    columns: int
    part: str
    height: int
    findings: tuple[InStep, ...]


class _Layer(NamedTuple):
    """One class of a lane: key, hue, name, and its ns in each column."""

    key: str
    hue: str
    name: str
    sums: Sums


class _Columns(NamedTuple):
    """The bounds of the columns of a step in ns, and how many columns the whole drawing has."""

    edges: Times
    whole: int


def draw(  # noqa: PLR0913 - one argument a source
    data: TimelineData,
    gpu: TimelineRow,
    span: tuple[int, int],
    findings: Sequence[Pinned],
    *,
    inferred: bool,
    scale_ns: int = 0,
) -> StepPicture:
    """Return the picture of a step on one GPU.

    Args:
        data: The timeline.
        gpu: The row of the GPU.
        span: Start and end of the step in ns.
        findings: The findings of the report that may have a place in it.
        inferred: Whether its phases are inferred.
        scale_ns: Time of the whole width, so that steps can be compared; the step fills it where it is longer.
    """
    length = span[1] - span[0]
    scale = max(scale_ns, length)
    whole = min(COLUMNS, scale)
    columns = _Columns(column_edges(*span, max(round(whole * length / scale), 1)), whole)
    streams = [row for row in data.rows if row.kind == "stream" and row.device_id == gpu.device_id]
    mine = [one for one in findings if not one.devices or gpu.device_id in one.devices]
    found = (
        *_host_lanes(data, process_of(data, gpu), columns, inferred=inferred),
        *_gpu_lanes(data, gpu, streams, columns, mine),
    )
    lanes, top = _stacked(found)
    return StepPicture(
        label=_label(lanes, span),
        lanes=lanes,
        arrows=tuple(_arrows(data, streams, lanes, span, scale)),
        ticks=tuple(ticks(scale)),
        columns=len(columns.edges) - 1,
        part=f"{100 * length / scale:.2f}".rstrip("0").rstrip("."),
        height=top + AXIS,
        findings=tuple(_in_step(data, gpu, streams, columns.edges, mine)),
    )


def _stacked(lanes: Sequence[Lane]) -> tuple[tuple[Lane, ...], int]:
    """Return lanes below one another, and the height of all in pixels."""
    found, top = [], 0
    for lane in lanes:
        found.append(lane._replace(y=top + HEAD))
        top += HEAD + lane.height + SPACE
    return tuple(found), top


def _host_lanes(data: TimelineData, process: int, columns: _Columns, *, inferred: bool) -> Iterator[Lane]:
    """Yield the lanes of phases and of the threads that launch most in the step."""
    for row in rows_of(data, "phases", process):
        found = taken(row, data.edges, columns.edges)
        layers = [
            _Layer(row.classes[code], hues.hue("phases", row.classes[code]), visible(row.classes[code]), sums)
            for code, sums in found.items()
        ]
        if layers:
            wanted = [_named(layer) for layer in _largest(layers) if layer.key != "batch"]
            name = "phases, inferred" if inferred else "phases"
            yield _lane(PHASES._replace(name=name), layers, columns, wanted, amounts=())
    main = {row.thread for row in rows_of(data, "phases", process)}
    shown = 0
    for row in sorted(rows_of(data, "thread", process), key=lambda row: row.thread not in main):
        layers = [
            _Layer(row.classes[code], hues.hue("thread", row.classes[code]), row.classes[code].replace("_", " "), sums)
            for code, sums in taken(row, data.edges, columns.edges).items()
        ]
        if layers and shown < MOST_THREADS:
            shown += 1
            name = elide(row.label.rpartition(", ")[2], _NAME_WIDTH)
            kind = THREAD._replace(key=f"thread-{row.thread}", name=name)
            yield _lane(kind, layers, columns, (), amounts=_thread_times(layers))


def _thread_times(layers: Sequence[_Layer]) -> tuple[LaneAmount, ...]:
    """Return how long a thread was in CUDA calls, and how long it could not go on."""
    found = []
    for hue, words, keys in STATES:
        ns = sum(int(layer.sums.sum()) for layer in layers if layer.key in keys)
        if ns:
            found.append(LaneAmount(hue, hues.LIGHT[hue], f"{units.duration(ns)} {words}"))
    return tuple(found)


def _gpu_lanes(
    data: TimelineData, gpu: TimelineRow, streams: Sequence[TimelineRow], columns: _Columns, findings: Sequence[Pinned]
) -> Iterator[Lane]:
    """Yield the lanes of a GPU; together they hold each nanosecond of the step once."""
    found = {gpu.classes[code]: sums for code, sums in taken(gpu, data.edges, columns.edges).items()}
    for kind in GPU_LANES:
        names = kind.classes or tuple(name for name in found if name not in WORK)
        layers = [_layer(name, found[name]) for name in names if name in found]
        if not layers:
            continue
        wanted = []
        for one in findings:
            of, name = rule_of(one.rule).row_and_class
            sums = _of_kernels(data, streams, name, columns.edges) if of == "stream" else found.get(name)
            if sums is not None and (name in names or (of == "stream" and kind.key == "compute")):
                wanted.append(_numbered(one, sums))
        pinned = {rule_of(one.rule).row_and_class[1] for one in findings}
        rest = [layer for layer in _largest(layers) if kind.key == "idle" and layer.key not in pinned]
        yield _lane(kind, layers, columns, [*wanted, *(_named(layer) for layer in rest)])


def _of_kernels(data: TimelineData, streams: Sequence[TimelineRow], name: str, edges: Times) -> Sums | None:
    """Return the time of kernels of one class in each column; None where none ran."""
    found = [
        sums for row in streams for code, sums in taken(row, data.edges, edges).items() if row.classes[code] == name
    ]
    return None if not found else np.sum(found, axis=0)


def _layer(name: str, sums: Sums) -> _Layer:
    return _Layer(name, hues.hue("gpu", name), visible(WORDS.get(name) or rule_name(name)), sums)


def _largest(layers: Sequence[_Layer]) -> list[_Layer]:
    return sorted(layers, key=lambda layer: (-int(layer.sums.sum()), layer.key))


def _named(layer: _Layer) -> Wanted:
    """Return the mark of a class without a finding: its name and time, or its name."""
    found = cluster(layer.sums, APART)
    time = units.duration(int(layer.sums.sum()))
    return Wanted(found, "", (f"{layer.name} {time}", layer.name), "", f"{layer.name}: {time}")


def _numbered(one: Pinned, sums: Sums) -> Wanted:
    name, time = visible(rule_name(one.rule)), units.duration(int(sums.sum()))
    return Wanted(cluster(sums, APART), str(one.number), (f"{name} {time}", name), one.anchor, f"{name}: {time}")


def _lane(
    kind: LaneKind,
    layers: Sequence[_Layer],
    columns: _Columns,
    wanted: Sequence[Wanted],
    amounts: tuple[LaneAmount, ...] | None = None,
) -> Lane:
    """Return a lane at the top of the picture; its largest class lies at the bottom."""
    ordered, whole = _largest(layers), int(columns.edges[-1] - columns.edges[0])
    widths = np.diff(columns.edges)
    tops = heights([layer.sums for layer in ordered], widths)
    bottoms = [np.zeros(len(widths), np.int64), *tops[:-1]]
    parts = [_part(*each, whole) for each in zip(ordered, bottoms, tops, strict=True)]
    ns = sum(part.ns for part in parts)
    said = (LaneAmount("", "", f"{units.duration(ns)} · {units.share_of(ns, whole)}"),) if amounts is None else amounts
    drawn = tuple(part for part in reversed(parts) if part.path)
    return Lane(kind.key, kind.name, said, 0, kind.height, drawn, tuple(place(wanted, columns.whole)), ns)


def _part(layer: _Layer, bottom: Sums, top: Sums, whole: int) -> ClassTime:
    ns = int(layer.sums.sum())
    title = f"{layer.name}: {units.duration(ns)}, {units.share_of(ns, whole)}"
    return ClassTime(layer.key, layer.hue, hues.LIGHT[layer.hue], ns, outline(bottom, top), title)


def _arrows(
    data: TimelineData, streams: Sequence[TimelineRow], lanes: Sequence[Lane], span: tuple[int, int], scale: int
) -> Iterator[Arrow]:
    """Yield arrows from launch to start of the kernels that waited longest, some way apart."""
    threads = [f"thread-{row.thread}" for row in data.rows if row.kind == "thread"]
    by_key = {lane.key: lane for lane in lanes}
    compute = by_key.get("compute")
    if compute is None:
        return
    found = []
    for row in streams:
        for at in _launched_in(row, span):
            key = row.items.details["thread"][at]
            lane = by_key.get(threads[key - 1]) if 0 < key <= len(threads) else None
            start, wait = int(row.items.start[at]), int(row.items.details["latency"][at])
            if lane is not None and wait >= SHORTEST_ARROW * scale:
                found.append((wait, start, lane, data.kernels[int(row.items.details["name"][at])].name))
    shown: list[int] = []
    for wait, start, lane, name in sorted(found, key=lambda one: (-one[0], one[1])):
        if len(shown) < MOST_ARROWS and all(abs(start - other) >= ARROWS_APART * scale for other in shown):
            shown.append(start)
            x1, x2 = (f"{100 * (at - span[0]) / scale:.2f}" for at in (start - wait, start))
            title = f"{elide(name, 80)} starts {units.duration(wait)} after its launch"
            yield Arrow(x1, lane.y + lane.height, x2, compute.y, title)


def _launched_in(row: TimelineRow, span: tuple[int, int]) -> list[int]:
    """Return the kernels of a stream that are launched and start inside a step."""
    start, latency = row.items.start, row.items.details.get("latency")
    if latency is None:
        return []
    inside = (start < span[1]) & (start - latency >= span[0]) & (latency > 0)
    kernel = np.array([name not in ("communication", *WORK) for name in row.classes])[row.items.code]
    found: list[int] = np.flatnonzero(inside & kernel).tolist()
    return found


def _in_step(
    data: TimelineData, gpu: TimelineRow, streams: Sequence[TimelineRow], edges: Times, findings: Sequence[Pinned]
) -> Iterator[InStep]:
    """Yield the findings that have time in the step, with that time."""
    found = {gpu.classes[code]: sums for code, sums in taken(gpu, data.edges, edges).items()}
    whole = int(edges[-1] - edges[0])
    for one in findings:
        of, name = rule_of(one.rule).row_and_class
        sums = _of_kernels(data, streams, name, edges) if of == "stream" else found.get(name)
        if sums is not None:
            ns = int(sums.sum())
            time = f"{units.duration(ns)}, {units.share_of(ns, whole)}"
            hue = hues.hue(of, name)
            yield InStep(one.number, one.anchor, visible(rule_name(one.rule)), hue, hues.LIGHT[hue], time)


def _label(lanes: Sequence[Lane], span: tuple[int, int]) -> str:
    """Return the picture in words."""
    said = [(lane.name, lane.amounts[0].text) for lane in lanes if lane.amounts and "thread" not in lane.key]
    parts = ", ".join(f"{name} {text}" for name, text in said)
    return f"A step of {units.duration(span[1] - span[0])}: {parts}"
