"""One clock for the reports of several ranks: their UTC start, checked or refined by the collectives of all ranks.

The start of a report in UTC is good to microseconds among reports of one host. Clocks of different hosts differ by
milliseconds. A collective ends on all ranks at about the same time, so the median difference of its ends is the
difference of two clocks.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from nsyswrap import tables
from nsyswrap.events.operations import COMMUNICATION, Operations, streams_of
from nsyswrap.intervals import Indices, Times
from nsyswrap.ranks.collectives import kind_of
from nsyswrap.tables import Trace, array

# A collective ends on all ranks within this. Source: 1 to 43 us in captures of two H200s with one clock.
ENDS_NS = 43_000
# Clocks of one host differ by less in the median. Source: 0.3 us between the reports of two processes; twice the above.
SAME_CLOCK_NS = 2 * ENDS_NS
# Clocks of the hosts of one job differ by less. Source: ours; hosts keep theirs to milliseconds by NTP.
FARTHEST_NS = 60_000_000_000
# The share of collectives whose ends must agree within the error that is stated.
PERCENTILE = 90

Method = Literal["one report", "UTC", "collectives", "unknown"]


class Clock(NamedTuple):
    """The clock of one report.

    Attributes:
        offset_ns: What to add to its times to get those of the first report, in ns.
        error_ns: How wrong that can be; None if unknown.
        method: Where the offset comes from.
    """

    offset_ns: int
    error_ns: int | None
    method: Method


class Ends(NamedTuple):
    """The ends of the collectives of one rank in its busiest communicator, in order.

    Attributes:
        end: ns since the start of its report.
        kind: Kind of each collective.
    """

    end: Times
    kind: tuple[str, ...]


def find_ends(trace: Trace, operations: Operations) -> Ends:
    """Return the ends of the collectives in the stream that ran most of them."""
    rows = np.flatnonzero((operations.kind == COMMUNICATION) & (operations.table == 0))
    if not len(rows):
        return Ends(np.empty(0, np.int64), ())
    streams, codes = np.unique(streams_of(trace, operations, rows), return_inverse=True)
    mine: Indices = rows[codes == np.argmax(np.bincount(codes, minlength=len(streams)))]
    names = array(trace[tables.KERNELS], "name_id")[operations.row[mine]]
    kinds = {int(each): kind_of(trace.text(int(each))) for each in np.unique(names)}
    return Ends(operations.end[mine], tuple(kinds[int(each)] for each in names))


def find_clocks(epochs: Sequence[int | None], ends: Sequence[Ends]) -> tuple[Clock, ...]:
    """Return the clock of each report, that of the first one being the reference.

    Args:
        epochs: UTC time of each report's time 0, in ns; None if unknown.
        ends: The ends of the collectives of each report.
    """
    found = [Clock(0, 0, "one report")]
    for epoch, its in zip(epochs[1:], ends[1:], strict=True):
        first = epochs[0]
        start = epoch - first if epoch is not None and first is not None else None
        found.append(_clock(start, _differences(ends[0], its, start)))
    return tuple(found)


def _clock(start_ns: int | None, differences: Times) -> Clock:
    """Return the clock of a report from the difference of the starts and of the ends of collectives, in ns."""
    if not len(differences):
        return Clock(start_ns or 0, None, "unknown" if start_ns is None else "UTC")
    middle = int(np.median(differences))
    if start_ns is not None and abs(middle - start_ns) > FARTHEST_NS:
        return Clock(start_ns, None, "UTC")
    if start_ns is not None and abs(middle - start_ns) <= SAME_CLOCK_NS:
        return Clock(start_ns, max(abs(middle - start_ns), 1), "UTC")
    spread: npt.NDArray[np.int64] = np.abs(differences - middle)
    return Clock(middle, max(int(np.percentile(spread, PERCENTILE)), ENDS_NS), "collectives")


def _differences(reference: Ends, other: Ends, start_ns: int | None) -> Times:
    """Return by how much each collective ends later by the reference's clock than by the other's, in ns.

    Where one report begins or ends earlier, the start times show the first collective that both have.
    """
    if reference.kind == other.kind:
        return reference.end - other.end
    if start_ns is None or not len(reference.end) or not len(other.end):
        return np.empty(0, np.int64)
    at = np.clip(np.searchsorted(other.end + start_ns, reference.end), 1, max(len(other.end) - 1, 1))
    before = np.abs(other.end[at - 1] + start_ns - reference.end) <= np.abs(
        other.end[np.minimum(at, len(other.end) - 1)] + start_ns - reference.end
    )
    shifts, counts = np.unique(at - before - np.arange(len(at)), return_counts=True)
    shift = int(shifts[np.argmax(counts)])
    low, high = max(0, -shift), min(len(reference.end), len(other.end) - shift)
    if reference.kind[low:high] != other.kind[low + shift : high + shift]:
        return np.empty(0, np.int64)
    return reference.end[low:high] - other.end[low + shift : high + shift]
