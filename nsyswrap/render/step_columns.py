"""The time that each class of a row takes in each of many narrow columns, and these columns as the outline of a path.

The height of a colour is its share of the column, so its area is its time, and nothing is drawn wider than it is::

    items     |##|  |###||#|      |####|
    columns  |    |    |    |    |    |
    heights    .5   .7   .4   0    .9
"""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nsyswrap.base.intervals import Times, covered, merge, times
from nsyswrap.model import TimelineRow

Sums = npt.NDArray[np.int64]

# Height of a full column in the units of a path.
UNITS = 20


class ColumnCluster(NamedTuple):
    """Columns that belong together: the first one, the one after the last, the middle of their time, and their time."""

    first: int
    last: int
    middle: float
    ns: int


def column_edges(start_ns: int, end_ns: int, count: int) -> Times:
    """Return the bounds of equal columns of an interval in whole ns, shape (count + 1,)."""
    return times(start_ns + np.arange(count + 1) * (end_ns - start_ns) // count)


def taken(row: TimelineRow, edges: Times, columns: Times) -> dict[int, Sums]:
    """Return how many ns each class of a row takes of each column, by code; only classes that take any.

    Where the row has single items this is exact; elsewhere the time of a bin is spread evenly.

    Args:
        row: The row.
        edges: Bounds of the bins of the timeline.
        columns: Bounds of the columns, shape (columns + 1,).
    """
    bins = np.clip(np.searchsorted(edges, columns, side="right") - 1, 0, len(edges) - 2)
    into = np.clip(columns - edges[bins], 0, edges[bins + 1] - edges[bins])
    near = (row.items.end > edges[bins[0]]) & (row.items.start < columns[-1])
    found = {}
    for code in np.flatnonzero(row.sums[:, bins[0] : bins[-1] + 1].any(axis=1)).tolist():
        mine = near & (row.items.code == code)
        spans = merge(row.items.start[mine], row.items.end[mine])
        part = row.sums[code][bins] * into // (edges[bins + 1] - edges[bins])
        part = np.where(row.exact[bins], covered(spans, edges[bins], edges[bins] + into), part)
        before = np.concatenate([[0], np.cumsum(row.sums[code])])[bins] + part
        if before[-1] > before[0]:
            found[code] = np.diff(before)
    return found


def heights(layers: Sequence[Sums], widths: Times) -> list[npt.NDArray[np.int64]]:
    """Return the upper edge of each layer in each column, in units; layers lie on one another, the first at the bottom.

    The edges are rounded, so that layers that fill their columns together fill them in the drawing.

    Args:
        layers: ns of each column.
        widths: Length of each column in ns.
    """
    above = np.zeros(len(widths), np.int64)
    found = []
    for layer in layers:
        above = above + layer
        found.append(np.minimum((2 * UNITS * above + widths) // (2 * widths), UNITS))
    return found


def outline(bottom: npt.NDArray[np.int64], top: npt.NDArray[np.int64]) -> str:
    """Return a layer as an SVG path from the base line: as high as its upper edge where it has any height.

    Lower layers are drawn over it. One unit is one column wide and ``1 / UNITS`` of the lane high.

    Args:
        bottom: Upper edge of the layer below, shape (columns,).
        top: Upper edge of this layer, shape (columns,).
    """
    shown = np.where(top > bottom, top, 0).tolist()
    parts, height, moved = [f"M0 {UNITS}"], 0, 0
    for value, run in groupby(shown):
        if value != height:
            parts += [f"h{moved}"] * (moved > 0) + [f"v{height - value}"]
            height, moved = value, 0
        moved += sum(1 for _ in run)
    return "".join([*parts, f"h{moved}", f"V{UNITS}z"]) if any(shown) else ""


def cluster(layer: Sums, apart: int) -> ColumnCluster:
    """Return the columns that hold most of a layer's time; the earlier ones on a tie.

    Args:
        layer: ns of each column, some above 0.
        apart: Columns at most this far apart belong together.
    """
    at = np.flatnonzero(layer)
    cuts = np.flatnonzero(np.diff(at) > apart) + 1
    groups = np.split(at, cuts)
    sums = [int(layer[group].sum()) for group in groups]
    best = groups[sums.index(max(sums))]
    before = np.cumsum(layer[best])
    half = int(np.searchsorted(2 * before, before[-1]))
    return ColumnCluster(int(best[0]), int(best[-1]) + 1, float(best[half]) + 0.5, max(sums))
