"""Geometry of the page's charts, for inline SVG that needs neither script nor style sheet.

Horizontal positions are per cent of the width, so a chart fits any screen; vertical ones are pixels. Colours are
presentation attributes in the template, so charts need no style sheet.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nsyswrap.base import units
from nsyswrap.render.drawings import Picture, decimal, shape

_PLACES = 4
_MOST_BINS = 400
# Pixels of a bar on a page of 1,280 and of 390 pixels, of a letter of its texts, and of the space around a text.
_WIDTHS = (960, 340)
_LETTER, _SPACE = 7.6, 6
# Narrower parts, in per cent of the bar, are not named beside it. Source: ours, they are hardly seen.
_SEEN = 1.0


class Segment(NamedTuple):
    """One part of a bar: position and width in per cent, as decimal texts that join without gaps."""

    x: str
    width: str


def bar(parts: Sequence[int]) -> tuple[Segment, ...]:
    """Return the parts of a stacked bar, which fill it together.

    Widths are differences of rounded boundaries, so segments do not overlap and leave no gap::

        0          boundary 1   boundary 2       100
        |----------|------------|-----------------|

    Args:
        parts: Lengths, none negative, in any unit.
    """
    whole = sum(parts)
    if whole <= 0:
        return tuple(Segment("0", "0") for _ in parts)
    ends = [round(100 * sum(parts[: at + 1]) / whole, _PLACES) for at in range(len(parts))]
    starts = [0.0, *ends[:-1]]
    return tuple(
        Segment(decimal(start, _PLACES), decimal(end - start, _PLACES)) for start, end in zip(starts, ends, strict=True)
    )


def cell_bar(fills: Sequence[tuple[str, str]], parts: Sequence[int], titles: Sequence[str] = ()) -> Picture:
    """Return a stacked bar for a cell of a table; a part without a colour is left blank.

    Args:
        fills: Key and fill of the colour of each part.
        parts: Length of each part, in any unit; together they are as long as the cell.
        titles: What each part says under the pointer; empty for nothing.
    """
    words = titles or [""] * len(parts)
    shapes = (
        shape("rect", f"p-{key}", title=title, x=f"{one.x}%", width=f"{one.width}%", height=14, fill=fill)
        for (key, fill), one, title in zip(fills, bar(parts), words, strict=False)
        if fill and one.width != "0"
    )
    return Picture(tuple(shapes), 14)


def area(path: str, height: int, alt: str) -> Picture:
    """Return an outline in a box 1000 wide and 100 high, as ``busy_area`` makes it, on its ground."""
    ground = shape("rect", "ground", width=1000, height=100, fill="#929292", fill_opacity=".15")
    return Picture((ground, shape("path", "p-compute", d=path, fill="#0054A9")), height, alt, box="1000 100")


def swatch(row: "LegendRow") -> Picture:
    """Return the colour of a part of a bar for a cell of a table."""
    square = shape("rect", f"p-{row.key}", width=12, height=12, rx=2, fill=row.fill)
    return Picture((square,), 12, width="12")


class Label(NamedTuple):
    """The text of a part of a bar, the width of its plate in pixels, and the pages that show it: ``all``, ``wide``."""

    text: str
    plate: int
    fits: str


class LegendRow(NamedTuple):
    """A part of a bar: its position in the bar and its texts in the legend."""

    key: str
    label: str
    meaning: str
    fill: str
    time: str
    share: str
    x: str
    width: str

    @property
    def inside(self) -> Label:
        """Return what the part says in the bar."""
        return _label((f"{self.label} {self.share}", self.label, self.share), float(self.width))

    @property
    def complete(self) -> Label:
        """Return its name and share for the bar; no text where both together have no room."""
        return _label((f"{self.label} {self.share}",), float(self.width))

    @property
    def is_beside(self) -> bool:
        """Return whether it can be seen, and its name and share have no room in the bar on some page."""
        return float(self.width) >= _SEEN and self.complete.fits != "all"


def _label(texts: Sequence[str], share_percent: float) -> Label:
    """Return the first text that has room in a part of a bar, else one that no page shows.

    Args:
        texts: What the part may say, from long to short.
        share_percent: Width of the part, as a share of the page's width.
    """
    for text in texts:
        plate = round(_LETTER * len(text)) + 2 * _SPACE
        fits = [share_percent / 100 * width >= plate + 2 * _SPACE for width in _WIDTHS]
        if fits[0]:
            return Label(text, plate, "all" if fits[1] else "wide")
    return Label("", 0, "")


def stacked(
    parts: Sequence[tuple[str, str, str, float]], scale: float = 0.0, unit: str = "ns"
) -> tuple[LegendRow, ...]:
    """Return the parts of a bar, each with its share of all of them.

    Args:
        parts: Key, label, fill and amount of each part.
        scale: The amount that fills the bar; their sum where that is larger.
        unit: Unit of the amounts.
    """
    amounts = [amount for *_, amount in parts]
    whole = sum(amounts)
    # Bars are made of whole numbers, and the rest of the scale has no part.
    factor = 1e9 / max(whole, scale, 1e-9)
    lengths = [round(factor * amount) for amount in (*amounts, max(scale - whole, 0))]
    return tuple(
        LegendRow(
            key, label, "", fill, units.text(amount, unit), units.share_of(amount, whole) if whole else "", *segment
        )
        for (key, label, fill, amount), segment in zip(parts, bar(lengths), strict=False)
    )


def busy_area(start_ns: Sequence[int], end_ns: Sequence[int], busy_share: Sequence[float | None]) -> str:
    """Return the outline of the busy share over time, as an SVG path in a box 1000 wide and 100 high.

    More than a few hundred bins are merged; each merged bin has the height of its busy share, so gaps stay visible.

    Args:
        start_ns: Start of each bin, in order, shape (n,).
        end_ns: End of each, shape (n,).
        busy_share: Busy share of each, 0 to 1; None where unknown, which draws as 0.
    """
    if not len(start_ns):
        return ""
    starts, ends = np.asarray(start_ns, np.float64), np.asarray(end_ns, np.float64)
    busy = np.asarray([one or 0.0 for one in busy_share], np.float64) * (ends - starts)
    first = np.arange(0, len(starts), -(-len(starts) // _MOST_BINS))
    length = np.add.reduceat(ends - starts, first)
    height = np.divide(np.add.reduceat(busy, first), length, out=np.zeros(len(first)), where=length > 0)
    left, right = starts[first], np.append(starts[first[1:]], ends[-1])
    scale = 1000 / max(float(ends[-1] - starts[0]), 1.0)
    points = [
        f"V{100 - 100 * min(max(up, 0.0), 1.0):.1f}H{(to - starts[0]) * scale:.1f}"
        for up, to in zip(height, right, strict=True)
    ]
    return f"M{(left[0] - starts[0]) * scale:.1f} 100" + "".join(points) + "V100Z"
