"""The timeline for the template: packed data, a summary in words, and a strip for pages without scripts."""

import functools
import json
from typing import Any, NamedTuple

import numpy as np

from nsyswrap.base import units
from nsyswrap.model import Numbers, TimelineData, TimelineRow
from nsyswrap.render import charts, hues
from nsyswrap.render.drawings import Picture
from nsyswrap.render.escape import elide, visible
from nsyswrap.render.page_files import static
from nsyswrap.render.timeline_codec import LARGEST, Packer
from nsyswrap.rules import CAUSES, RULES

SCRIPTS = (
    "timeline_data.js",
    "timeline_words.js",
    "timeline_colours.js",
    "timeline_rows.js",
    "timeline_paint.js",
    "timeline_panels.js",
    "timeline_statistics.js",
    "timeline_selection.js",
    "timeline_view.js",
    "timeline_input.js",
    "step_draw.js",
    "step_pointer.js",
    "step_picture.js",
    "step_other.js",
    "timeline.js",
)
# Those that a page without a timeline needs to draw steps.
STEP_SCRIPTS = (
    *("timeline_data.js", "timeline_words.js", "timeline_colours.js", "timeline_panels.js"),
    *("step_draw.js", "step_pointer.js", "step_pair.js"),
)
STYLES = ("timeline.css", "step.css")
_NAME_WIDTH = 320
_TEXT_WIDTH = 120
_STRIP_BINS = 400
_HOST_ROWS = frozenset({"steps", "phases", "thread"})
# Classes of a GPU row in which the GPU is busy; all others are idle time.
_BUSY = frozenset({"compute", "communication", "communication_wait", "copy", "memset"})


class Strip(NamedTuple):
    """The busy share of a GPU over time: its name, its share, and its curve."""

    label: str
    share: str
    picture: Picture


class TimelineView(NamedTuple):
    """The timeline as the template draws it.

    Attributes:
        data: The packed rows, as base64.
        summary: The content in words.
        strips: One for each GPU.
        notes: Where it is exact and what it leaves out.
        span: The interval that the strips show.
    """

    data: str
    summary: str
    strips: tuple[Strip, ...]
    notes: tuple[str, ...]
    span: str


def view(data: TimelineData) -> TimelineView:
    """Return a timeline for its template."""
    strips = tuple(_strip(data, row) for row in data.rows if row.kind == "gpu")
    start, end = int(data.edges[0]), int(data.edges[-1])
    span = f"{units.point(start)} to {units.point(end)}"
    return TimelineView(packed(data), _summary(data, strips), strips, (_exactness(data), *data.left_out), span)


@functools.cache
def script(names: tuple[str, ...] = SCRIPTS) -> str:
    """Return the script of the timeline, or some files of it."""
    parts = "\n".join(static(name) for name in names)
    table = json.dumps({kind: dict(names) for kind, names in hues.TABLE.items()}, separators=(",", ":"))
    return f'(() => {{\n"use strict";\nconst HUES = {table};\n{parts}}})();\n'


def packed(data: TimelineData) -> str:
    """Return everything that the page's script draws, packed into one text of base64."""
    packer = Packer()
    head = {
        "version": 1,
        "window": [data.window.start_ns, data.window.end_ns],
        "windowLabel": visible(data.window.label),
        "edges": packer.add(data.edges, differences=True),
        "rows": [_row(packer, data, row) for row in data.rows],
        "gaps": [list(gap) for gap in data.gaps],
        "phases": [visible(name) for name in data.phases],
        "texts": {name: [elide(text, _TEXT_WIDTH) for text in texts] for name, texts in data.texts.items()},
        "kernels": [[elide(one.name, _NAME_WIDTH), *one[1:]] for one in data.kernels],
        "causes": {cause: rule.meaning for cause, rule in CAUSES.items()},
        "names": {each: rule.name for each, rule in (*CAUSES.items(), *RULES.items())},
    }
    return packer.text(head)


def process_of(data: TimelineData, gpu: TimelineRow) -> int:
    """Return the process that launches on a GPU: that of its streams, the only one, or that of its rank; else -1."""
    streams = [row for row in data.rows if row.kind == "stream" and row.device_id == gpu.device_id and row.process]
    host = [row for row in data.rows if row.kind in _HOST_ROWS]
    rank, comma, _ = gpu.label.partition(", ")
    of_rank = [row for row in host if comma and row.label.startswith(f"{rank}, ")]
    only = host if len({row.process for row in host}) == 1 else []
    return next((row.process for row in (*streams, *only, *of_rank)), -1)


def _row(packer: Packer, data: TimelineData, row: TimelineRow) -> dict[str, Any]:
    items, whole = row.items, bool(row.exact.all())
    # Where all items are present, their sums follow from them.
    used = [] if whole else np.flatnonzero(row.sums.any(axis=1)).tolist()
    return {
        "kind": row.kind,
        "label": elide(row.label, _TEXT_WIDTH),
        "device": row.device_id,
        "process": process_of(data, row) if row.kind == "gpu" else row.process,
        "thread": row.thread,
        "classes": [visible(name) for name in row.classes],
        "exact": 1 if whole else packer.add(np.flatnonzero(np.diff(row.exact, prepend=False, append=False))),
        "sums": {str(code): packer.add(row.sums[code]) for code in used},
        "start": packer.add(_clipped(items.start), differences=True),
        "length": packer.add(_clipped(items.end - items.start)),
        "code": packer.add(items.code),
        "details": {name: packer.add(_clipped(values)) for name, values in items.details.items()},
    }


def _clipped(values: Numbers) -> Numbers:
    """Return numbers clipped to what a page can hold: a damaged capture may have a call that began years ago."""
    return np.clip(values, -LARGEST // 2, LARGEST // 2)


def _strip(data: TimelineData, row: TimelineRow) -> Strip:
    """Return the busy share of a GPU over the whole timeline."""
    busy = row.sums[[name in _BUSY for name in row.classes]].sum(axis=0)
    first = np.arange(0, len(busy), -(-len(busy) // _STRIP_BINS))
    start, end = data.edges[first], np.append(data.edges[first[1:]], data.edges[-1])
    share = np.add.reduceat(busy, first) / np.maximum(end - start, 1)
    path = charts.busy_area(start.tolist(), end.tolist(), share.tolist())
    whole = units.share_of(int(busy.sum()), int(data.edges[-1] - data.edges[0]))
    return Strip(row.label, whole, charts.area(path, 48, f"Busy share of {row.label} over time"))


def _summary(data: TimelineData, strips: tuple[Strip, ...]) -> str:
    """Return a description of the timeline; the tables of the page have the full numbers."""
    length = units.duration(int(data.edges[-1] - data.edges[0]))
    busy = ", ".join(f"{strip.label} busy {strip.share}" for strip in strips)
    gaps = f"; longest gap {units.duration(data.gaps[0].end_ns - data.gaps[0].start_ns)}" if data.gaps else ""
    return f"Timeline of {length}: {busy}{gaps}. The tables of gaps, phases and kernels hold the same numbers."


def _exactness(data: TimelineData) -> str:
    """Return a sentence about where single operations are shown and how wide the bins are elsewhere."""
    if data.is_exact:
        return "Exact everywhere: the timeline shows each operation and each call."
    width = units.duration(int(np.diff(data.edges).max()))
    return (
        "Exact around the longest gaps, in the typical step and at the start of the window. Elsewhere the timeline "
        f"shows sums over bins of at most {width}, shorter where there are many operations. Sums over the window, a "
        "step or a listed gap are always exact."
    )
