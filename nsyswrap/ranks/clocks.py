"""One clock for the reports of several ranks: their UTC start, checked or refined by the collectives of all ranks.

The start of a report in UTC is good to microseconds among reports of one host. Clocks of different hosts differ by
milliseconds, and drift: one runs faster than the other. A collective ends on all ranks at about the same time, so the
differences of its ends are the difference of two clocks, and a line through them is the drift::

    difference    .  '                   slope: the drift
    of the ends  '                       distance of the points from the line: the error
                 +-------- time

No collective ends on one rank before it has begun on all. A line that breaks this is wrong by as much.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from nsyswrap.base.intervals import Indices, Times
from nsyswrap.base.rows import taken
from nsyswrap.events.operations import COMMUNICATION, Operations
from nsyswrap.hardware.kernel_names.collectives import kind_of
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace, coded

# A collective ends on all ranks within this. Source: 1 to 43 us in captures of two H200s with one clock.
ENDS_NS = 43_000
# Clocks of one host differ by less in the median. Source: 0.3 us between the reports of two processes; twice the above.
SAME_CLOCK_NS = 2 * ENDS_NS
# Clocks of the hosts of one job differ by less. Source: ours; hosts keep theirs to milliseconds by NTP.
FARTHEST_NS = 60_000_000_000
# The share of collectives whose ends must agree within the error that is stated.
PERCENTILE = 90
# Two clocks drift by no more than this. Source: oscillators of computers are specified to 100 millionths or
# less, and NTP corrects by 500 at most (RFC 5905, appendix A, MAXFREQ).
MOST_DRIFT = 700e-6
# A slope counts as drift where it is this many times its standard error. Source: the usual limit of three.
STANDARD_ERRORS = 3
# Points farther from a line than this many times the median distance do not count. Source: ours; ends of collectives
# have few but far outliers.
OUTLYING = 5
# Fewer ends than this say nothing of a drift. Source: ours.
FEW = 8
# Where the reports do not hold the same collectives, this many places are tried at most. Source: ours; each costs as
# much as a comparison of all ends.
MOST_PLACES = 400
# The right place of one report's collectives in another's must fit this many times better than the next best. Ours.
BETTER = 2.0

Method = Literal["one report", "UTC", "collectives", "unknown"]


class Clock(NamedTuple):
    """The clock of one report.

    Attributes:
        offset_ns: What to add to its times to get those of the first report, in ns; with a drift, at ``origin_ns``.
        error_ns: How wrong that can be; None if unknown.
        method: Where the offset comes from.
        drift: How much faster the first clock runs than this one, as a share; 0 where no drift was found.
        origin_ns: Time of this clock at which the offset holds.
    """

    offset_ns: int
    error_ns: int | None
    method: Method
    drift: float = 0.0
    origin_ns: int = 0

    def to_first(self, times: Times) -> Times:
        """Return times of this report, in ns, by the clock of the first report."""
        if not self.drift:
            return times + np.int64(self.offset_ns)
        drifted = np.rint((times - self.origin_ns) * self.drift).astype(np.int64)
        moved: Times = times + np.int64(self.offset_ns) + drifted
        return moved

    def from_first(self, times: Times) -> Times:
        """Return times of the first report, in ns, by the clock of this one."""
        since = times - np.int64(self.offset_ns + self.origin_ns)
        moved: Times = (
            self.origin_ns + np.rint(since / (1 + self.drift)).astype(np.int64)
            if self.drift
            else times - np.int64(self.offset_ns)
        )
        return moved


class Ends(NamedTuple):
    """The collectives of one rank in its busiest communicator, in order.

    Attributes:
        end: End of each, in ns since the start of its report.
        kind: Kind of each collective.
        start: Start of each; empty where it is not known.
    """

    end: Times
    kind: tuple[str, ...]
    start: Times = np.empty(0, np.int64)


def find_ends(trace: Trace, operations: Operations) -> Ends:
    """Return the ends of the collectives in the stream that ran most of them."""
    rows = np.flatnonzero((operations.kind == COMMUNICATION) & (operations.table == 0))
    if not len(rows):
        return Ends(np.empty(0, np.int64), ())
    streams, codes = np.unique(taken(operations.stream, rows), return_inverse=True)
    mine: Indices = rows[codes == np.argmax(np.bincount(codes, minlength=len(streams)))]
    names = coded(trace[tables.KERNELS], "name_id")[operations.row[mine]]
    kinds = {int(each): kind_of(trace.text(int(each))) for each in np.unique(names)}
    kind = tuple(kinds[int(each)] for each in names.tolist())
    return Ends(operations.end[mine], kind, operations.start[mine])


def find_clocks(epochs: Sequence[int | None], ends: Sequence[Ends]) -> tuple[Clock, ...]:
    """Return the clock of each report, that of the first one being the reference.

    Args:
        epochs: UTC time of each report's time 0, in ns; None if unknown.
        ends: The collectives of each report.
    """
    clocks = [Clock(0, 0, "one report")]
    for epoch, its in zip(epochs[1:], ends[1:], strict=True):
        first = epochs[0]
        start = epoch - first if epoch is not None and first is not None else None
        clocks.append(_clock(start, *_pairs(ends[0], its, start)))
    return tuple(clocks)


def _clock(start_ns: int | None, reference: Ends, other: Ends) -> Clock:
    """Return the clock of a report from the difference of the starts, in ns, and from common collectives."""
    differences = reference.end - other.end
    if not len(differences):
        return Clock(start_ns or 0, None, "unknown" if start_ns is None else "UTC")
    middle = int(np.median(differences))
    if start_ns is not None and abs(middle - start_ns) > FARTHEST_NS:
        return Clock(start_ns, None, "UTC")
    drift = _drift(other.end, differences)
    if start_ns is not None and abs(middle - start_ns) <= SAME_CLOCK_NS and not drift:
        noise = int(np.percentile(np.abs(differences - middle), PERCENTILE))
        return Clock(start_ns, max(abs(middle - start_ns) + noise, 1), "UTC")
    origin = int(np.median(other.end)) if drift else 0
    slope = np.rint((other.end - origin) * drift).astype(np.int64)
    level = int(np.median(differences - slope))
    spread = np.abs(differences - slope - level)
    error = max(int(np.percentile(spread, PERCENTILE)), ENDS_NS, _reversed_ns(reference, other, level + slope))
    return Clock(level, error, "collectives", drift, origin)


def _drift(at: Times, differences: Times) -> float:
    """Return the slope of a line through the differences of two clocks; 0 where none is certain."""
    if len(at) < FEW or at[-1] <= at[0]:
        return 0.0
    kept = np.ones(len(at), bool)
    slope = error = 0.0
    for _ in range(2):
        x = (at[kept] - at[kept].mean()).astype(float)
        y = (differences[kept] - differences[kept].mean()).astype(float)
        squares = float((x * x).sum())
        if not squares or kept.sum() < FEW:
            return 0.0
        slope = float((x * y).sum()) / squares
        error = float(np.sqrt(((y - slope * x) ** 2).sum() / (len(x) - 2) / squares))
        rest = differences - slope * (at - at[0])
        distance = np.abs(rest - np.median(rest))
        kept = distance <= OUTLYING * max(float(np.median(distance)), 1.0)
    span = float(at[-1] - at[0])
    certain = abs(slope) > STANDARD_ERRORS * error and abs(slope) * span > ENDS_NS
    return slope if certain and abs(slope) <= MOST_DRIFT else 0.0


def _reversed_ns(reference: Ends, other: Ends, offsets: Times) -> int:
    """Return the longest time by which a collective ends on one rank before it begins on the other, in ns.

    ``offsets`` is what is added to each time of the other.
    """
    if not len(reference.start) or not len(other.start):
        return 0
    before = np.maximum(reference.start - (other.end + offsets), other.start + offsets - reference.end)
    return max(int(before.max()), 0)


def _pairs(reference: Ends, other: Ends, start_ns: int | None) -> tuple[Ends, Ends]:
    """Return the collectives that both reports hold, in order; none where that is not certain.

    Where one report begins or ends earlier, the collectives of one lie at a later place in the other. At the right
    place the ends differ by the same time throughout, since steps do not all take equally long.
    """
    if reference.kind == other.kind:
        return reference, other
    least = min(len(reference.end), len(other.end)) // 2 + 1
    tried = ((_spread(reference, other, place, least), place) for place in _places(reference, other, start_ns))
    fits = sorted((spread, place) for spread, place in tried if spread is not None)
    # Places that fit about as well as the best one, as in jobs whose steps are equally long.
    fits = [each for each in fits if each[0] <= BETTER * max(fits[0][0], ENDS_NS / BETTER)]
    if len(fits) > 1:
        # Only the starts in UTC of one host can tell between them.
        fits = [each for each in fits if _agrees(*_common(reference, other, each[1]), start_ns)]
    nothing = Ends(np.empty(0, np.int64), ())
    return _common(reference, other, fits[0][1]) if fits else (nothing, nothing)


def _agrees(reference: Ends, other: Ends, start_ns: int | None) -> bool:
    """Return whether the ends differ as the starts in UTC do, as on one host."""
    return start_ns is not None and abs(int(np.median(reference.end - other.end)) - start_ns) <= SAME_CLOCK_NS


def _places(reference: Ends, other: Ends, start_ns: int | None) -> list[int]:
    """Return the places to try, as shifts of the other's collectives, those nearest to the starts in UTC first."""
    shifts = np.arange(-len(reference.end) + 1, len(other.end))
    if start_ns is None or not len(reference.end) or not len(other.end):
        return shifts[:MOST_PLACES].tolist() if len(shifts) <= MOST_PLACES else []
    middle = int(np.searchsorted(other.end + start_ns, reference.end[len(reference.end) // 2]))
    likely = middle - len(reference.end) // 2
    nearest: list[int] = shifts[np.argsort(np.abs(shifts - likely), kind="stable")][:MOST_PLACES].tolist()
    return nearest


def _common(reference: Ends, other: Ends, shift: int) -> tuple[Ends, Ends]:
    """Return the collectives of two reports that are the same if the other's begin some places later."""
    low, high = max(0, -shift), min(len(reference.end), len(other.end) - shift)
    there = slice(low + shift, high + shift)
    return (
        Ends(reference.end[low:high], reference.kind[low:high], reference.start[low:high]),
        Ends(other.end[there], other.kind[there], other.start[there]),
    )


def _spread(reference: Ends, other: Ends, shift: int, least: int) -> float | None:
    """Return how far the ends lie from a common difference, in ns; None where too few are common or kinds differ."""
    one, two = _common(reference, other, shift)
    if len(one.end) < least or one.kind != two.kind:
        return None
    differences = one.end - two.end
    # The drift of two clocks is not part of the spread.
    rest = differences - np.rint((two.end - two.end[0]) * _drift(two.end, differences)).astype(np.int64)
    return float(np.percentile(np.abs(rest - np.median(rest)), PERCENTILE))
