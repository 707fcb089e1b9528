"""The flame graph of Python stacks over idle time, its root on top: boxes in per cent of the width."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nsyswrap.base import units
from nsyswrap.model import Report
from nsyswrap.render import hues, report_cards, summary_model
from nsyswrap.render.drawings import Picture, Shape, shape
from nsyswrap.render.escape import elide, visible
from nsyswrap.rules import rule_name

TITLE = "idle time with samples"
REST = "other stacks"
# Height of a row and of a box in it, in pixels.
ROW, _BOX = 20, 19
# Boxes narrower than this share of the width are left out. Ours: less than a pixel of a wide page.
_NARROWEST = 0.001
_NAME_WIDTH = 160
_SEPARATOR = ";"
_CAPTION = (
    "width: idle time, estimated from samples; from the top: root cause, then the frames of Python, the program's own "
    "ones bold"
)
_LEFT_OUT = (
    "frames are left out, because each has less than a thousandth of this time. The table below names all lines."
)


@dataclass
class _Node:
    """A frame with what it called: its idle time in ns and its samples."""

    ns: int = 0
    samples: int = 0
    below: dict[str, "_Node"] = field(default_factory=dict)

    def add(self, frames: list[str], ns: int, samples: int) -> None:
        """Add the time of a stack to this frame and to those below it."""
        node = self
        for frame in ["", *frames]:
            node = node.below.setdefault(frame, _Node()) if frame else node
            node.ns += ns
            node.samples += samples


def flame(report: Report) -> Picture | None:
    """Return the flame graph of a report; None without stacks of idle time."""
    section = report.section("python_lines")
    rows = [row for row in summary_model.rows(section, "stacks") if row["idle_estimate_ns"] > 0]
    if section is None or not rows:
        return None
    root = _Node()
    for row in rows:
        frames = [visible(frame) for frame in str(row["stack"]).split(_SEPARATOR)] if row["stack"] else [REST]
        root.add([str(row["rule"]), *frames], int(row["idle_estimate_ns"]), int(row["sample_count"]))
    anchors = {finding.rule: report_cards.anchor(finding.rule) for finding in report.findings}
    own = frozenset(visible(str(row["file"])) for row in summary_model.rows(section, "lines"))
    drawn = tuple(_boxes(root, own, anchors))
    height = max(int(box.attributes["y"]) for box in drawn) + ROW
    left_out = _count(root) - len(drawn)
    return Picture(
        drawn,
        height,
        "Flame graph of Python over idle time",
        title="Flame graph of idle time",
        caption=_CAPTION,
        note=f"{units.count(left_out)} {_LEFT_OUT}" if left_out else "",
        role="group",
    )


def _boxes(root: _Node, own: frozenset[str], anchors: Mapping[str, str]) -> Iterator[Shape]:
    """Yield the boxes from the top down, those of a row from the largest to the smallest."""
    waiting = [("", root, 0.0, 0)]
    while waiting:
        key, node, x, depth = waiting.pop()
        yield _box(key, node, root, x, depth, own, anchors)
        at = x
        below = sorted(node.below.items(), key=lambda pair: (-pair[1].ns, pair[0]))
        found = []
        for name, child in below:
            if child.ns >= _NARROWEST * root.ns:
                found.append((name, child, at, depth + 1))
            at += child.ns / root.ns
        waiting += reversed(found)


def _box(  # noqa: PLR0913, PLR0917 - one argument a thing that a box shows
    key: str, node: _Node, root: _Node, x: float, depth: int, own: frozenset[str], anchors: Mapping[str, str]
) -> Shape:
    """Return a box: all idle time, a root cause with its hue, or a frame such as "train.py:42 in loss".

    It is a drawing of its own, so that its name is cut where it ends. The frames of the program itself are bold.
    """
    name = elide(TITLE if not depth else visible(rule_name(key)) if depth == 1 else key, _NAME_WIDTH)
    left, width = f"{100 * x:.3f}", f"{100 * node.ns / root.ns:.3f}"
    place: dict[str, Any] = {"x": f"{left}%", "y": depth * ROW, "width": f"{width}%", "height": _BOX}
    place |= {"data-x": left, "data-width": width}
    whole: dict[str, Any] = {"width": "100%", "height": _BOX}
    if depth == 1:
        place |= {"data-finding": anchors[key]} if key in anchors else {}
        hue, plate = hues.idle_hue(key), round(7.2 * len(name) + 10)
        ground: tuple[Shape, ...] = (
            shape("rect", f"h-{hue}", **whole, fill=hues.LIGHT[hue]),
            shape("rect", "", **whole, fill="url(#stripes)"),
            shape("rect", "st-plate", x=3, y=2, width=plate, height=15, rx=7, fill="#FFFFFF"),
        )
    else:
        ground = (shape("rect", "frame", **whole, fill=hues.LIGHT["phase-batch" if depth else "phase-copy"]),)
    bold: dict[str, Any] = {"font_weight": 650} if depth > 1 and key.rpartition(":")[0] in own else {}
    text = shape("text", "", words=name, x=7, y=13.5, font_size=12, **bold, fill="#16202C")
    said = f"{units.duration(node.ns)}, {units.share_of(node.ns, root.ns)}, {units.counted(node.samples, 'sample')}"
    return shape("svg", "box", title=f"{name}: {said}", **place, parts=(*ground, text))


def _count(node: _Node) -> int:
    """Return the number of frames from this one down."""
    waiting, count = [node], 0
    while waiting:
        waiting += waiting.pop().below.values()
        count += 1
    return count
