"""The bins of the timeline: their edges, exact sums over them, and the bins whose items are all shown."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nsyswrap.base.intervals import Indices, LabelledSpans, Spans, Times, Window, covered, times
from nsyswrap.model import Flags

# The window is cut into this many bins of equal length, and the whole timeline into half as many. Every n-th
# operation adds an edge: at most as many as the window has bins. Several GPUs share this number, so that a page stays
# small.
BINS = 1 << 13
FEWEST_BINS = 1 << 10
# The smallest value of this n.
SPARSE = 16
# If there are more marks than this, they do not become edges.
MOST_MARKS = 1 << 12
# Bins on either side of a long gap whose items are shown, too; and bins at the start and the end of a very long gap.
AROUND = 3
AT_END = 48


@dataclass(frozen=True)
class Grid:
    """The bins of a timeline.

    Attributes:
        edges: Bounds of the bins, ascending, shape (bins + 1,).
        order: All bins in the order in which their items are shown, as long as they fit.
    """

    edges: Times
    order: Indices

    @property
    def count(self) -> int:
        """Return the number of bins."""
        return len(self.edges) - 1

    @property
    def extent(self) -> Window:
        """Return the interval of all bins."""
        return Window(int(self.edges[0]), int(self.edges[-1]), "all that is shown", "session")

    def sums(self, labels: LabelledSpans, classes: int) -> npt.NDArray[np.int64]:
        """Return the time that each class covers of each bin, in ns, shape (classes, bins)."""
        sums = np.zeros((classes, self.count), np.int64)
        for code in np.flatnonzero(np.bincount(labels.code, minlength=classes)):
            mine = labels.code == code
            spans = Spans(labels.spans.start[mine], labels.spans.end[mine])
            sums[code] = covered(spans, self.edges[:-1], self.edges[1:])
        return sums

    def inside(self, start: Times, end: Times) -> Indices:
        """Return the items that touch the grid."""
        return np.flatnonzero((start < self.edges[-1]) & (end >= self.edges[0]))

    def choose(self, start: Times, end: Times, most: int) -> tuple[Flags, Indices]:
        """Return the bins whose items are all shown, and these items; there are as many bins as fit.

        Args:
            start: Start of each item in ns, all inside the grid.
            end: End of each item in ns.
            most: Largest number of items.
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
    """Return the number of bins of the window for a page with this many GPUs."""
    return max(BINS // max(devices, 1), min(FEWEST_BINS, BINS))


def cut(  # noqa: PLR0913, PLR0917 - one argument a source of edges, and two of the order
    intervals: tuple[Window, Window],
    bins: int,
    dense: Times,
    marks: Iterable[Times],
    first: Sequence[Spans],
    then: Spans | None = None,
) -> Grid:
    """Return the grid of a timeline.

    Args:
        intervals: The whole timeline, and the window of the report in it. Bins are finer in the window. Items from the
            start of the window on are shown right after those around ``first``.
        bins: Number of bins of equal length in the window.
        dense: Times in ascending order; every n-th of them becomes an edge, at most ``bins`` of them.
        marks: Times that become edges, too, unless there are very many of them.
        first: Spans around which items are shown first, the most important spans first.
        then: Spans whose items are all shown next, the most important first.
    """
    whole, window = intervals
    wanted = [each for each in marks if len(each) <= MOST_MARKS]
    every = max(-(-len(dense) // bins), SPARSE)
    even = [_even(whole, max(bins // 2, 1)), _even(window, bins)]
    edges = np.unique(np.concatenate([*even, dense[::every], *wanted]))
    edges = times(edges[(edges >= whole.start_ns) & (edges <= whole.end_ns)])
    return Grid(edges, _order(edges, first, then, window.start_ns))


def _even(interval: Window, count: int) -> Times:
    """Return the bounds of equal parts of an interval."""
    number, length = np.arange(count + 1), interval.length_ns
    # Quotient and remainder are multiplied separately, so that no product exceeds 64 bits.
    return interval.start_ns + length // count * number + length % count * number // count


def _order(edges: Times, first: Sequence[Spans], then: Spans | None, begin_ns: int) -> Indices:
    """Return all bins in order: around the first spans, in the next ones, from a time on, then the rest."""
    count = len(edges) - 1
    bins = []
    for spans in first:
        for start, end in zip(spans.start.tolist(), spans.end.tolist(), strict=True):
            low = int(np.searchsorted(edges, start, side="right")) - 1 - AROUND
            high = int(np.searchsorted(edges, end, side="left")) + AROUND
            around = np.arange(max(low, 0), min(high, count))
            # The start and the end of a very long gap show most about it.
            bins.append(around if len(around) <= 2 * AT_END else np.concatenate([around[:AT_END], around[-AT_END:]]))
    if then is not None:
        lows = np.clip(np.searchsorted(edges, then.start, side="right") - 1, 0, count)
        highs = np.clip(np.searchsorted(edges, then.end, side="left"), 0, count)
        bins += [np.arange(*each) for each in zip(lows.tolist(), highs.tolist(), strict=True)]
    begin = min(max(int(np.searchsorted(edges, begin_ns, side="right")) - 1, 0), count)
    every = np.concatenate([*bins, np.arange(begin, count), np.arange(begin)])
    _, at = np.unique(every, return_index=True)
    order: Indices = every[np.sort(at)]
    return order
