"""Intervals of time in int64 nanoseconds: union, complement, overlap, labels, and the window of a report.

All intervals are half open: ``[start, end)`` holds ``end - start`` nanoseconds. ``Spans`` are sorted and disjoint.
``merge`` makes them from loose starts and ends, which may overlap and have any order::

    loose    |-----|    |---|
                |-----|     |--|
    merge    |--------| |------|
    gaps     ----------|-|------    inside a window
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from nsyswrap.base.rows import BLOCK, chosen

Times = npt.NDArray[np.int64]
# Rows of arrays, in as many bytes as whoever makes them chooses.
Indices = npt.NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, slots=True)
class Window:
    """The interval of time that a number is about.

    Attributes:
        start_ns: First nanosecond, since capture start; may be negative.
        end_ns: One past the last nanosecond.
        label: The interval in words: "steps 3 to 60".
        source: Where it comes from: measured steps that ranges name or that a pattern of the work shows, all GPU
            operations, the whole session, or the user.

    Raises:
        ValueError: The window would be empty.
    """

    start_ns: int
    end_ns: int
    label: str
    source: Literal["steps", "pattern", "operations", "session", "user"]

    def __post_init__(self) -> None:
        if self.end_ns <= self.start_ns:
            raise ValueError(f"empty window: {self.start_ns} to {self.end_ns} ns")

    @property
    def length_ns(self) -> int:
        """Length in nanoseconds, at least 1."""
        return self.end_ns - self.start_ns

    @property
    def is_of_steps(self) -> bool:
        """Whether it is made of measured steps."""
        return self.source in {"steps", "pattern"}


class Spans(NamedTuple):
    """Sorted, disjoint, non-empty spans: two int64 arrays of equal length, in ns."""

    start: Times
    end: Times


# With so many times for each edge, looking for the edges is faster; measured with 7 million times.
MANY_TIMES = 4

NOTHING = Spans(np.empty(0, np.int64), np.empty(0, np.int64))


def times(values: npt.ArrayLike) -> Times:
    """Return the values as a contiguous int64 array of nanoseconds."""
    return np.ascontiguousarray(values, dtype=np.int64)


def merge(start: npt.ArrayLike, end: npt.ArrayLike) -> Spans:
    """Return the union of loose intervals. Touching intervals become one, and empty intervals are dropped.

    Args:
        start: Starts in ns, any order, shape (n,).
        end: Ends in ns, shape (n,).
    """
    starts, ends = times(start), times(end)
    starts, ends = chosen(ends > starts, starts, ends)
    if not len(starts):
        return NOTHING
    if np.all(starts[1:] > ends[:-1]):
        # The intervals are disjoint and in order, as most calls of one thread are.
        return Spans(starts, ends)
    if np.any(starts[1:] < starts[:-1]):
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    reach = np.maximum.accumulate(ends)
    opens = np.empty(len(starts), bool)
    opens[0] = True
    np.greater(starts[1:], reach[:-1], out=opens[1:])
    first = np.flatnonzero(opens)
    return Spans(starts[first], reach[np.append(first[1:] - 1, len(starts) - 1)])


def union(*parts: Spans) -> Spans:
    """Return the union of several sets of spans."""
    if not parts:
        return NOTHING
    return merge(np.concatenate([p.start for p in parts]), np.concatenate([p.end for p in parts]))


def clip(spans: Spans, start_ns: int, end_ns: int) -> Spans:
    """Return the part of the spans inside ``[start_ns, end_ns)``."""
    first = int(np.searchsorted(spans.end, start_ns, side="right"))
    last = int(np.searchsorted(spans.start, end_ns, side="left"))
    if first >= last or start_ns >= end_ns:
        return NOTHING
    inside = Spans(spans.start[first:last], spans.end[first:last])
    if inside.start[0] >= start_ns and inside.end[-1] <= end_ns:
        return inside
    return Spans(np.maximum(inside.start, start_ns), np.minimum(inside.end, end_ns))


def gaps(spans: Spans, start_ns: int, end_ns: int) -> Spans:
    """Return the parts of ``[start_ns, end_ns)`` that the spans do not cover."""
    inside = clip(spans, start_ns, end_ns)
    starts = np.concatenate([[np.int64(start_ns)], inside.end])
    ends = np.concatenate([inside.start, [np.int64(end_ns)]])
    return Spans(*chosen(ends > starts, starts, ends))


def subtract(spans: Spans, taken: Spans) -> Spans:
    """Return the part of the spans that ``taken`` does not cover."""
    if not len(spans.start) or not len(taken.start):
        return spans
    if len(spans.start) < len(taken.start):
        # Only the taken spans that overlap the few spans matter.
        _, met, _, _ = overlay(spans, taken)
        met = met[np.append(True, met[1:] != met[:-1])] if len(met) else met
        taken = Spans(taken.start[met], taken.end[met])
    # A few spans at a time, because the intermediate arrays need much memory.
    blocks = [Spans(*(side[first : first + BLOCK] for side in spans)) for first in range(0, len(spans.start), BLOCK)]
    parts = [intersect(some, gaps(taken, int(some.start[0]), int(some.end[-1]))) for some in blocks]
    return Spans(*(np.concatenate(sides) for sides in zip(*parts, strict=True))) if len(parts) > 1 else parts[0]


def intersect(one: Spans, other: Spans) -> Spans:
    """Return the time that both sets of spans cover."""
    _, _, start, end = overlay(one, other)
    return Spans(start, end)


def total(spans: Spans) -> int:
    """Return the summed length of the spans in ns."""
    return int(np.sum(spans.end, dtype=np.int64) - np.sum(spans.start, dtype=np.int64))


def overlap(one: Spans, other: Spans) -> int:
    """Return how many ns both sets of spans cover."""
    return total(intersect(one, other))


def overlay(one: Spans, other: Spans) -> tuple[Indices, Indices, Times, Times]:
    """Return each overlap of a span of one set with a span of another.

    Returns:
        Four arrays with one row for each overlap, in order of time: index into ``one``, index into ``other``, start
        and end of the overlap in ns.
    """
    first = places(other.end, one.start)
    last = places(other.start, one.end, side="left")
    count = np.maximum(last - first, 0)
    left = np.repeat(np.arange(len(one.start)), count)
    skipped = np.cumsum(count) - count
    right = np.arange(len(left)) - np.repeat(skipped - first, count)
    start = np.maximum(one.start[left], other.start[right])
    end = np.minimum(one.end[left], other.end[right])
    return left, right, start, end


def places(edges: Times, at: Times, side: Literal["left", "right"] = "right") -> Indices:
    """Return where each time belongs among sorted edges, as ``np.searchsorted`` does.

    Args:
        edges: Sorted times in ns.
        at: Times in ns, any order.
        side: "right" to count the edges at or before each time, "left" to count those before it.
    """
    if len(at) >= MANY_TIMES * max(len(edges), 1) and np.all(at[1:] >= at[:-1]):
        # Finding the few edges among the many times is faster, and both are sorted.
        cuts = np.searchsorted(at, edges, side="left" if side == "right" else "right")
        return np.repeat(np.arange(len(edges) + 1), np.diff(cuts, prepend=0, append=len(at)))
    found: Indices = np.searchsorted(edges, at, side=side)
    return found


def covered(spans: Spans, start: Times, end: Times) -> Times:
    """Return, for each query interval, how many of its ns the spans cover.

    Args:
        spans: The spans that cover.
        start: Starts of the queries in ns, any order, shape (n,).
        end: Their ends, shape (n,); an empty or reversed query covers 0.
    """
    if not len(spans.start):
        return np.zeros(len(start), np.int64)
    whole = np.zeros(len(spans.start) + 1, np.int64)
    np.subtract(spans.end, spans.start, out=whole[1:])
    np.cumsum(whole[1:], out=whole[1:])

    def before(at: Times) -> Times:
        index = places(spans.start, at)
        beyond = np.where(index > 0, np.maximum(spans.end[np.maximum(index - 1, 0)] - at, 0), 0)
        covered_before: Times = whole[index] - beyond
        return covered_before

    length: Times = np.maximum(before(np.maximum(start, end)) - before(start), 0)
    return length


def containing(spans: Spans, at: Times) -> Indices:
    """Return, for each time, the index of the span that holds it, or -1."""
    if not len(spans.start):
        return np.full(len(at), -1, np.intp)
    index = places(spans.start, at) - 1
    inside = (index >= 0) & (at < spans.end[np.maximum(index, 0)])
    found: Indices = np.where(inside, index, -1)
    return found


class LabelledSpans(NamedTuple):
    """Spans and the label of each, an int32 code."""

    spans: Spans
    code: npt.NDArray[np.int32]


def layered(layers: list[tuple[int, Spans]]) -> LabelledSpans:
    """Return layers of spans as labelled spans: each nanosecond has the label of the first layer that covers it.

    Args:
        layers: ``(code, spans)`` in order of precedence.
    """
    taken = NOTHING
    parts: list[LabelledSpans] = []
    for code, spans in layers:
        free = subtract(spans, taken)
        parts.append(LabelledSpans(free, np.full(len(free.start), code, np.int32)))
        taken = union(taken, free)
    return in_order(*parts)


def innermost(start: npt.ArrayLike, end: npt.ArrayLike, code: npt.ArrayLike) -> LabelledSpans:
    """Return nested intervals as labelled spans: each nanosecond has the label of the innermost open interval.

    The innermost interval is the one that started last; of equal starts, the shorter one::

        a |---------------|
        b    |----| |--|
          |aa|bbbb|a|bb|aa|

    Args:
        start: Starts in ns, any order, shape (n,).
        end: Ends in ns, shape (n,).
        code: Labels, int32, shape (n,).
    """
    starts, ends, codes = times(start), times(end), np.asarray(code, np.int32)
    starts, ends, codes = chosen(ends > starts, starts, ends, codes)
    if np.any(starts[1:] < starts[:-1]):
        order = np.argsort(starts, kind="stable")
        starts, ends, codes = starts[order], ends[order], codes[order]
    if np.all(starts[1:] >= ends[:-1]):
        return LabelledSpans(Spans(starts, ends), codes)
    order = np.lexsort((-ends, starts))
    starts, ends, codes = starts[order], ends[order], codes[order]
    outer = _outlasting(ends)
    at = np.sort(np.concatenate([starts, ends]))
    at = at[np.append(at[1:] != at[:-1], True)]  # np.unique takes six times as long
    holder = np.searchsorted(starts, at, side="right") - 1
    # At each moment the innermost interval is the last that started. Where that has ended, it is the last one before it
    # that ends later, and so on.
    closed = np.flatnonzero((holder >= 0) & (ends[holder] <= at))
    while len(closed):
        holder[closed] = outer[holder[closed]]
        closed = closed[(holder[closed] >= 0) & (ends[holder[closed]] <= at[closed])]
    # Nothing is open at the last moment, so each run ends where the next one begins.
    runs = np.flatnonzero(np.append(True, holder[1:] != holder[:-1]))
    held = holder[runs[:-1]]
    inside = held >= 0
    return LabelledSpans(Spans(at[runs[:-1]][inside], at[runs[1:]][inside]), codes[held[inside]])


def _outlasting(ends: Times) -> Indices:
    """Return, for each end, the index of the nearest earlier element with a later end, or -1."""
    found: list[int] = []
    open_ends: list[tuple[int, int]] = []
    for index, end in enumerate(ends.tolist()):
        while open_ends and open_ends[-1][0] <= end:
            open_ends.pop()
        found.append(open_ends[-1][1] if open_ends else -1)
        open_ends.append((end, index))
    return np.array(found, np.intp)


def fill(over: LabelledSpans, under: LabelledSpans) -> LabelledSpans:
    """Return ``over``, filled with ``under`` where it has no label."""
    if not len(under.code):
        return over
    if not len(over.code):
        return under
    low, high = int(under.spans.start[0]), int(under.spans.end[-1])
    left, _, start, end = overlay(under.spans, gaps(over.spans, low, high))
    return in_order(over, LabelledSpans(Spans(start, end), under.code[left]))


def within(labels: LabelledSpans, start_ns: int, end_ns: int) -> LabelledSpans:
    """Return the labelled spans that overlap ``[start_ns, end_ns)``, uncut, as views."""
    first = int(np.searchsorted(labels.spans.end, start_ns, side="right"))
    last = max(int(np.searchsorted(labels.spans.start, end_ns, side="left")), first)
    return LabelledSpans(Spans(labels.spans.start[first:last], labels.spans.end[first:last]), labels.code[first:last])


def label_at(labels: LabelledSpans, at: Times, default: int) -> npt.NDArray[np.int32]:
    """Return the label at each time; ``default`` where there is none."""
    if not len(labels.code):
        return np.full(len(at), default, np.int32)
    index = containing(labels.spans, at)
    found: npt.NDArray[np.int32] = np.where(index >= 0, labels.code[index], np.int32(default))
    return found


def in_order(*parts: LabelledSpans) -> LabelledSpans:
    """Return labelled spans that do not overlap as one, in order of time."""
    if not parts:
        return LabelledSpans(NOTHING, np.empty(0, np.int32))
    start = np.concatenate([each.spans.start for each in parts])
    order = np.argsort(start, kind="stable")
    end = np.concatenate([each.spans.end for each in parts])[order]
    return LabelledSpans(Spans(start[order], end), np.concatenate([each.code for each in parts])[order])
