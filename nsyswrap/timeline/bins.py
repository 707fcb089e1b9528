"""The bins of the timeline: where time is cut, exact sums over bins, and which bins are shown item by item."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nsyswrap.intervals import Indices, LabelledSpans, Spans, Times, Window, covered, times
from nsyswrap.model import Flags

# The window has so many bins of equal length, and all that is shown half as many; where there are very many operations,
# so many bins more hold equally many of them. Several GPUs share them, since each has its own sums: a page stays small.
BINS = 1 << 13
FEWEST_BINS = 1 << 10
# Fewer operations than this share no bin that is cut for them.
SPARSE = 16
# More marks than this are not worth an edge each: their sums are then as exact as any other.
MOST_MARKS = 1 << 12
# Bins on either side of a long gap that are shown item by item, too.
AROUND = 3
AT_END = 48


@dataclass(frozen=True)
class Grid:
    """The bins of a timeline.

    Attributes:
        edges: Their bounds, ascending, shape (bins + 1,).
        order: All bins, those first that most deserve to be shown item by item.
    """

    edges: Times
    order: Indices

    @property
    def count(self) -> int:
        """Return how many bins there are."""
        return len(self.edges) - 1

    def sums(self, labels: LabelledSpans, classes: int) -> npt.NDArray[np.int64]:
        """Return how many ns of each bin each class covers, shape (classes, bins).

        Args:
            labels: Sorted, disjoint spans with a class each.
            classes: How many classes there are.
        """
        found = np.zeros((classes, self.count), np.int64)
        for code in np.flatnonzero(np.bincount(labels.code, minlength=classes)):
            mine = labels.code == code
            spans = Spans(labels.spans.start[mine], labels.spans.end[mine])
            found[code] = covered(spans, self.edges[:-1], self.edges[1:])
        return found

    def inside(self, start: Times, end: Times) -> Indices:
        """Return which items touch the grid at all."""
        return np.flatnonzero((start < self.edges[-1]) & (end >= self.edges[0]))

    def choose(self, start: Times, end: Times, most: int) -> tuple[Flags, Indices]:
        """Return the bins whose items are all shown, and these items: as many bins as fit.

        Args:
            start: Start of each item in ns, all inside the grid.
            end: Its end.
            most: How many items there may be.
        """
        first = np.clip(np.searchsorted(self.edges, start, side="right") - 1, 0, self.count - 1)
        last = np.clip(np.searchsorted(self.edges, end, side="left") - 1, first, self.count - 1)
        if len(start) <= most:
            return np.ones(self.count, bool), np.arange(len(start))
        opened, closed = (np.bincount(at, minlength=self.count + 1) for at in (first, last + 1))
        touching = np.cumsum(opened - closed)[:-1]
        fit = int(np.searchsorted(np.cumsum(touching[self.order]), most, side="right"))
        exact = np.zeros(self.count, bool)
        exact[self.order[:fit]] = True
        before = np.concatenate([[0], np.cumsum(exact)])
        return exact, np.flatnonzero(before[last + 1] > before[first])


def bins_of(devices: int) -> int:
    """Return how many bins the window has where so many GPUs share a page."""
    return max(BINS // max(devices, 1), min(FEWEST_BINS, BINS))


def cut(
    stretches: tuple[Window, Window], bins: int, dense: Times, marks: Iterable[Times], first: Sequence[Spans]
) -> Grid:
    """Return the grid of a stretch.

    Args:
        stretches: All that is shown, and the window in it that the report is about: its bins are finer, and items from
            its start on are shown next after those around ``first``.
        bins: How many bins of equal length the window has.
        dense: Times in order, of which every so many becomes an edge if they outnumber the bins.
        marks: Times that become edges, too, unless they are very many.
        first: Spans around which items are shown before all others, the most important first.
    """
    whole, window = stretches
    wanted = [each for each in marks if len(each) <= MOST_MARKS]
    every = max(-(-len(dense) // bins), SPARSE)
    even = [_even(whole, max(bins // 2, 1)), _even(window, bins)]
    edges = np.unique(np.concatenate([*even, dense[::every], *wanted]))
    edges = times(edges[(edges >= whole.start_ns) & (edges <= whole.end_ns)])
    return Grid(edges, _order(edges, first, window.start_ns))


def _even(stretch: Window, count: int) -> Times:
    """Return the bounds of so many equal parts of a stretch."""
    number, length = np.arange(count + 1), stretch.length_ns
    # Whole parts and the rest apart, so that no product outgrows 64 bits.
    return stretch.start_ns + length // count * number + length % count * number // count


def _order(edges: Times, first: Sequence[Spans], begin_ns: int) -> Indices:
    """Return all bins: around the first spans, then from a time on, then the rest."""
    count = len(edges) - 1
    found = []
    for spans in first:
        for start, end in zip(spans.start.tolist(), spans.end.tolist(), strict=True):
            low = int(np.searchsorted(edges, start, side="right")) - 1 - AROUND
            high = int(np.searchsorted(edges, end, side="left")) + AROUND
            around = np.arange(max(low, 0), min(high, count))
            # Of a gap that is very long, how it began and how it ended says most.
            found.append(around if len(around) <= 2 * AT_END else np.concatenate([around[:AT_END], around[-AT_END:]]))
    begin = min(max(int(np.searchsorted(edges, begin_ns, side="right")) - 1, 0), count)
    every = np.concatenate([*found, np.arange(begin, count), np.arange(begin)])
    _, at = np.unique(every, return_index=True)
    order: Indices = every[np.sort(at)]
    return order
