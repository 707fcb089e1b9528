"""Geometry of the page's charts, for inline SVG that needs neither script nor style sheet.

Horizontal positions are per cent of the width, so a chart fits any screen; vertical ones are pixels. Colours are
presentation attributes in the template, so charts need no style sheet.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nsyswrap.base import units

_PLACES = 4
_MOST_COLUMNS = 120
_COLUMN_WIDTH = 0.76
_MOST_DOTS = 400
_MOST_BINS = 400
_HEADROOM = 1.15
# Pixels of a bar on a page of 1,280 and of 390 pixels, of a letter of its texts, and of the space around a text.
_WIDTHS = (960, 340)
_LETTER, _SPACE = 7.6, 6

Numbers = npt.NDArray[np.float64]


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
        Segment(_decimal(start), _decimal(round(end - start, _PLACES))) for start, end in zip(starts, ends, strict=True)
    )


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


class Dot(NamedTuple):
    """One step of the chart: position, whether it is warm-up or an outlier, and its anchor in the timeline."""

    x: str
    y: str
    warm_up: bool
    name: str
    ns: int
    outlier: bool
    anchor: str


class ColumnPart(NamedTuple):
    """A part of a step: its index, top and height in pixels."""

    part: int
    y: str
    height: str


class StepColumn(NamedTuple):
    """One step as a column: position and width in per cent, and its parts from the bottom to the top."""

    x: str
    width: str
    parts: tuple[ColumnPart, ...]
    warm_up: bool
    name: str
    ns: int
    anchor: str


class OutlierMark(NamedTuple):
    """An outlier: its middle in per cent, and the top of its step in pixels."""

    x: str
    y: str
    name: str
    ns: int


class Range(NamedTuple):
    """Several neighbouring steps as one vertical line: position in per cent, shortest and longest in pixels."""

    x: str
    top: str
    bottom: str


class StepChart(NamedTuple):
    """Time of each step against its number.

    Attributes:
        columns: The stacked parts of each step; empty where they are unknown or there are too many steps.
        dots: One for each step; empty where there are columns or too many steps.
        ranges: Shortest to longest of neighbouring steps where there are too many for dots.
        top_ns: Value at the upper edge; the lower edge is 0.
        median_y: Position of the median of the measured steps, pixels from the top.
        above: Number of steps above the upper edge, where they are drawn.
        height: Height in pixels.
        marks: The outliers.
    """

    columns: tuple[StepColumn, ...]
    dots: tuple[Dot, ...]
    ranges: tuple[Range, ...]
    top_ns: int
    median_y: str
    above: int
    height: int
    marks: tuple[OutlierMark, ...] = ()


class ChartedSteps(NamedTuple):
    """The input of the chart of steps: n steps in order.

    Attributes:
        names: Name of each.
        lengths_ns: Length of each.
        warm_up: Whether each is warm-up.
        parts_ns: Parts of each step, which add up to its length, shape (parts, n); empty where unknown.
        outlier: Whether each is an outlier; empty where unknown.
        spans: Anchor of each in the timeline; empty where there is none.
    """

    names: Sequence[str]
    lengths_ns: Sequence[int]
    warm_up: Sequence[bool]
    parts_ns: Sequence[Sequence[float]] = ()
    outlier: Sequence[bool] = ()
    spans: Sequence[str] = ()


def step_chart(steps: ChartedSteps, height: int) -> StepChart:
    """Return the chart of step times; its scale starts at 0 and ends above the longest measured step.

    Args:
        steps: At least one step.
        height: Height in pixels.
    """
    lengths = np.asarray(steps.lengths_ns, np.float64)
    measured = lengths[~np.asarray(steps.warm_up, bool)]
    measured = measured if len(measured) else lengths
    top = max(float(measured.max()) * _HEADROOM, 1.0)
    y = height - np.minimum(lengths / top, 1.0) * height
    # Means over GPUs are not whole numbers, so their sum may differ from the length by less than a nanosecond.
    adds_up = len(steps.parts_ns) > 0 and bool((np.abs(np.sum(steps.parts_ns, axis=0) - lengths) < 1).all())
    drawn = adds_up and len(lengths) <= _MOST_COLUMNS
    return StepChart(
        columns=_columns(steps, top, height) if drawn else (),
        dots=_dots(steps, y) if not drawn and len(lengths) <= _MOST_DOTS else (),
        ranges=_ranges(y) if len(lengths) > _MOST_DOTS else (),
        top_ns=int(top),
        median_y=f"{height - float(np.median(measured)) / top * height:.1f}",
        above=int((lengths > top).sum()),
        height=height,
        marks=_marks(steps, y),
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


def _columns(steps: ChartedSteps, top: float, height: int) -> tuple[StepColumn, ...]:
    slot = 100 / len(steps.lengths_ns)
    found = []
    for at, (name, ns, warm) in enumerate(zip(steps.names, steps.lengths_ns, steps.warm_up, strict=True)):
        x = _decimal(slot * (at + (1 - _COLUMN_WIDTH) / 2))
        # A warm-up step is one hollow column, since the ledger does not contain it.
        lengths = [float(ns)] if warm else [float(part[at]) for part in steps.parts_ns]
        parts = _stack(lengths, height / top, height)
        anchor = steps.spans[at] if steps.spans else ""
        found.append(StepColumn(x, _decimal(slot * _COLUMN_WIDTH), parts, bool(warm), name, int(ns), anchor))
    return tuple(found)


def _stack(lengths: Sequence[float], scale: float, height: int) -> tuple[ColumnPart, ...]:
    """Return stacked lengths, cut off at the upper edge."""
    edges = np.minimum(np.cumsum([0.0, *lengths]) * scale, height)
    spans = enumerate(pairwise(edges))
    return tuple(ColumnPart(at, f"{height - high:.1f}", f"{high - low:.1f}") for at, (low, high) in spans if high > low)


def _dots(steps: ChartedSteps, y: Numbers) -> tuple[Dot, ...]:
    x = _middles(len(y))
    outlier, spans = steps.outlier or [False] * len(y), steps.spans or [""] * len(y)
    rows = zip(x, y, steps.warm_up, steps.names, steps.lengths_ns, outlier, spans, strict=True)
    return tuple(
        Dot(_decimal(a), f"{b:.1f}", bool(warm), name, int(ns), bool(out), span)
        for a, b, warm, name, ns, out, span in rows
    )


def _marks(steps: ChartedSteps, y: Numbers) -> tuple[OutlierMark, ...]:
    x = _middles(len(y))
    rows = (at for at, outlier in enumerate(steps.outlier) if outlier)
    return tuple(
        OutlierMark(_decimal(float(x[at])), f"{y[at]:.1f}", steps.names[at], int(steps.lengths_ns[at])) for at in rows
    )


def _middles(count: int) -> Numbers:
    """Return the middle of each of ``count`` slots, in per cent of the width."""
    found: Numbers = 100 * (np.arange(count) + 0.5) / count
    return found


def _ranges(y: Numbers) -> tuple[Range, ...]:
    first = np.arange(0, len(y), -(-len(y) // _MOST_BINS))
    top, bottom = np.minimum.reduceat(y, first), np.maximum.reduceat(y, first)
    columns = zip(_middles(len(first)), top, bottom, strict=True)
    return tuple(Range(_decimal(a), f"{b:.1f}", f"{max(c, b + 1):.1f}") for a, b, c in columns)


def _decimal(value: float) -> str:
    """Return a number as text without trailing zeros."""
    return f"{value:.{_PLACES}f}".rstrip("0").rstrip(".") or "0"
