"""The chart of step times, its outliers, and the slowest steps."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from nsyswrap.base import units
from nsyswrap.model import Report, Section
from nsyswrap.render import key_numbers, vocabulary
from nsyswrap.render.document import Pictures, Span, Table, frame_columns
from nsyswrap.render.drawings import Picture, Shape, shape
from nsyswrap.render.escape import elide

_NAME_WIDTH = 40
_HEIGHT = 160
_SLOWEST = 10
# So many steps are columns, and so many are dots; more are at most so many ranges. Ours: a dot is as wide as a column.
_MOST_COLUMNS, _MOST_DOTS, _MOST_RANGES = 120, 400, 400
_COLUMN_WIDTH = 0.76
# The scale ends this far above the longest measured step. Ours.
_HEADROOM = 1.15


class ChartedSteps(NamedTuple):
    """The input of the chart of steps: n steps in order.

    Attributes:
        parts_ns: Parts of each step, which add up to its length, shape (parts, n); empty where unknown.
        spans: Anchor of each in the timeline.
    """

    names: Sequence[str]
    lengths_ns: Sequence[int]
    warm_up: Sequence[bool]
    parts_ns: Sequence[Sequence[float]]
    outlier: Sequence[bool]
    spans: Sequence[str]


def chart_of(report: Report, section: Section) -> Iterator[Pictures]:
    """Yield the chart of step times, the mean over GPUs where there are several; nothing where no steps were found."""
    table = _one_row_a_step(section)
    if len(table):
        median = key_numbers.median_step(report)
        yield Pictures((chart(_charted(section, table), "" if median is None else units.text(median.value, "ns")),))


def slowest_of(_report: Report, section: Section) -> Iterator[Table]:
    """Yield the slowest measured steps."""
    table = _one_row_a_step(section)
    if len(table):
        measured = table[~table["warm_up"].astype(bool)].drop(columns="warm_up")
        slowest = measured.sort_values("length_ns", ascending=False, kind="stable").head(_SLOWEST)
        cut = f"{len(slowest)} of {units.count(len(measured))} steps" if len(measured) else ""
        columns = frame_columns(slowest)
        yield Table("steps-slowest", "Slowest steps", columns, cut=cut, is_titled=True, has_row_heads=False)


def chart(its: ChartedSteps, median: str) -> Picture:
    """Return the chart of at least one step; its scale starts at 0 and ends above the longest measured step."""
    lengths, warm_up = np.asarray(its.lengths_ns, np.float64), np.asarray(its.warm_up, bool)
    measured = lengths if warm_up.all() else lengths[~warm_up]
    top = max(float(measured.max()) * _HEADROOM, 1.0)
    y = _HEIGHT - np.minimum(lengths / top, 1.0) * _HEIGHT
    # Means over GPUs are not whole numbers, so their sum may differ from the length by less than a nanosecond.
    adds_up = len(its.parts_ns) > 0 and bool((np.abs(np.sum(its.parts_ns, axis=0) - lengths) < 1).all())
    has_parts = adds_up and len(lengths) <= _MOST_COLUMNS
    if has_parts:
        drawn = [_linked(its, at, tuple(_column(its, at, _HEIGHT / top))) for at in range(len(lengths))]
    elif len(lengths) <= _MOST_DOTS:
        drawn = [_linked(its, at, (_dot(len(y), at, y[at], is_hollow=warm_up[at]),)) for at in range(len(lengths))]
    else:
        drawn = list(_ranges(y))
    median_y = f"{_HEIGHT - float(np.median(measured)) / top * _HEIGHT:.1f}"
    shapes = (
        shape("line", "ground", x2="100%", y1=0, y2=0, stroke="#929292", stroke_opacity=".4"),
        *drawn,
        shape("line", "ground", x2="100%", y1=_HEIGHT, y2=_HEIGHT, stroke="#929292"),
        shape("line", "median", x2="100%", y1=median_y, y2=median_y, stroke="#16202C", stroke_dasharray="2 4"),
        *(_mark(its, at, y[at]) for at, is_outlier in enumerate(its.outlier) if is_outlier),
    )
    outliers, above = sum(its.outlier), int((lengths > top).sum())
    said = (
        "Time of each step",
        f"dashed line: median {median}" if median else "",
        f"\N{BLACK DOWN-POINTING TRIANGLE} {units.counted(outliers, 'outlier')}" if outliers else "",
        f"hollow: {sum(its.warm_up)} warm-up" if any(its.warm_up) else "",
        f"{above} above the upper edge" if above else "",
    )
    return Picture(
        (shape("svg", "", y=14, width="100%", height=_HEIGHT, overflow="visible", parts=shapes),),
        _HEIGHT + 22,
        f"Time of each of {len(lengths)} steps; {outliers} outliers",
        caption="; ".join(filter(None, said)) + (". Colours as in the breakdown." if has_parts else "."),
        edges=(units.duration(int(top)), ""),
        ends=(its.names[0], its.names[-1]),
        role="group",
    )


def _linked(its: ChartedSteps, at: int, parts: tuple[Shape, ...]) -> Shape:
    """Return the shapes of a step as a link to its place in the timeline."""
    named = {"href": f"#{its.spans[at]}", "tabindex": "-1", "data-name": its.names[at]}
    return Shape("a", named, title=f"{its.names[at]}: {units.duration(int(its.lengths_ns[at]))}", parts=parts)


def _column(its: ChartedSteps, at: int, scale: float) -> Iterator[Shape]:
    """Yield the parts of a step from the bottom up, cut off at the upper edge; what is above them is part of the link.

    A warm-up step is one hollow column, since the ledger does not contain it.
    """
    slot = 100 / len(its.names)
    place: dict[str, Any] = {
        "x": f"{slot * (at + (1 - _COLUMN_WIDTH) / 2):.5g}%",
        "width": f"{slot * _COLUMN_WIDTH:.5g}%",
    }
    yield shape("rect", "hit", **place, height=_HEIGHT, fill="#929292", fill_opacity=0)
    is_hollow = its.warm_up[at]
    lengths = [float(its.lengths_ns[at])] if is_hollow else [float(part[at]) for part in its.parts_ns]
    edges = np.minimum(np.cumsum([0.0, *lengths]) * scale, _HEIGHT)
    for part, (low, high) in zip(vocabulary.LEDGER_PARTS, pairwise(edges), strict=False):
        if high > low:
            box: dict[str, Any] = {**place, "y": f"{_HEIGHT - high:.1f}", "height": f"{high - low:.1f}"}
            if is_hollow:
                yield shape("rect", "hollow", **box, fill="none", stroke="#929292")
            else:
                yield shape("rect", f"p-{part.key}", **box, fill=vocabulary.fill(part))


def _dot(count: int, at: int, y: float, *, is_hollow: bool) -> Shape:
    place: dict[str, Any] = {"cx": f"{_middle(count, at):.5g}%", "cy": f"{y:.1f}", "r": 3}
    if is_hollow:
        return shape("circle", "hollow", **place, fill="none", stroke="#929292", stroke_width=1.5)
    return shape("circle", "p-compute", **place, fill="#0054A9")


def _ranges(y: "np.typing.NDArray[np.float64]") -> Iterator[Shape]:
    """Yield neighbouring steps as vertical lines from the longest to the shortest."""
    first = np.arange(0, len(y), -(-len(y) // _MOST_RANGES))
    for at, (top, bottom) in enumerate(zip(np.minimum.reduceat(y, first), np.maximum.reduceat(y, first), strict=True)):
        x, end = f"{_middle(len(first), at):.5g}%", f"{max(bottom, top + 1):.1f}"
        yield shape("line", "s-compute", x1=x, x2=x, y1=f"{top:.1f}", y2=end, stroke="#0054A9", stroke_width=2)


def _mark(its: ChartedSteps, at: int, y: float) -> Shape:
    """Return the mark above an outlier."""
    words = f"outlier: {its.names[at]}, {units.duration(int(its.lengths_ns[at]))}"
    mark = shape("path", "mark", d="M-5 -12H5L0 -4Z", fill="#16202C", title=words)
    x = f"{_middle(len(its.names), at):.5g}%"
    return shape("svg", "", x=x, y=f"{y:.1f}", width=1, height=1, overflow="visible", parts=(mark,))


def _middle(count: int, at: int) -> float:
    """Return the middle of one of some slots, in per cent of the width."""
    return 100 * (at + 0.5) / count


def _charted(section: Section, table: pd.DataFrame) -> ChartedSteps:
    columns = [part.column for part in vocabulary.LEDGER_PARTS]
    # A table without rows that comes from a report.json has no columns.
    outliers = set(section.tables.get("outliers", pd.DataFrame()).get("start_ns", ()))
    starts, ends = table["start_ns"].tolist(), table["end_ns"].tolist()
    return ChartedSteps(
        names=[elide(str(name), _NAME_WIDTH) for name in table["name"].tolist()],
        lengths_ns=table["length_ns"].tolist(),
        warm_up=[bool(one) for one in table["warm_up"].tolist()],
        parts_ns=[table[column].tolist() for column in columns] if set(columns) <= set(table.columns) else [],
        outlier=[start in outliers for start in starts],
        spans=[Span(start, end).anchor for start, end in zip(starts, ends, strict=True)],
    )


def _one_row_a_step(section: Section) -> pd.DataFrame:
    """Return the steps with their length, and with the mean over GPUs where each GPU has a row."""
    table = section.tables.get("steps", pd.DataFrame())
    if table.empty:
        return table
    table = table.drop(columns="number", errors="ignore")
    if "process" in table and len(table["process"].unique()) == 1:
        table = table.drop(columns="process")
    if "device_id" in table:
        keys = ["start_ns", "end_ns", "name", "warm_up", *(["process"] if "process" in table else [])]
        table = table.groupby(keys, as_index=False, sort=True, observed=True).mean().drop(columns="device_id")
    table = table.assign(length_ns=table["end_ns"] - table["start_ns"])
    first = ["name", "start_ns", "end_ns", "length_ns", "warm_up"]
    return table[[*first, *(name for name in table.columns if name not in first)]]
