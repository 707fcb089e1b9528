"""Count, total, mean, median, minimum, maximum and standard deviation of durations by group."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.row_sums import largest_first, text_column
from nsyswrap.trace.tables import blocks

COLUMNS = ("count", "total_ns", "mean_ns", "median_ns", "min_ns", "max_ns", "stddev_ns", "share")
_WHOLE = frozenset({"total_ns", "min_ns", "max_ns"})
# Durations below this many ns, 4.3 s, need four bytes.
SHORT_NS = 1 << 32


def statistics(
    codes: npt.NDArray[np.integer[Any]], duration: npt.NDArray[np.integer[Any]], groups: int
) -> dict[str, npt.NDArray[Any]]:
    """Return the statistics of each group.

    Args:
        codes: Group of each duration, 0 to ``groups`` - 1, shape (n,).
        duration: In ns, shape (n,).
        groups: Number of groups; those without a duration get zeros.

    Returns:
        ``COLUMNS``, with a value for each group, in order. The median of an even number of values is the mean of the
        two middle ones. The standard deviation is that of a sample (n - 1), and 0 for one value. ``share`` is the
        share of the total of all groups. Source: the statistics of nsys's own reports, so that both can be compared.
    """
    count = np.zeros(groups, np.int64)
    for some in blocks(len(codes)):
        count += np.bincount(codes[some], minlength=groups)
    ends = np.cumsum(count)
    ordered = _by_group(codes, duration, ends - count)
    numbers = {name: np.zeros(groups, np.int64 if name in _WHOLE else np.float64) for name in COLUMNS[1:-1]}
    # Where each event has a name of its own, as in "step 17", there are as many groups as events.
    single = np.flatnonzero(count == 1)
    for name in ("total_ns", "mean_ns", "median_ns", "min_ns", "max_ns"):
        numbers[name][single] = ordered[ends[single] - 1]
    for group in np.flatnonzero(count > 1).tolist():
        mine = ordered[ends[group] - count[group] : ends[group]]
        total, ends_of_mine = mine.sum(), (mine.min(), mine.max())
        deviation = mine.std(ddof=1)
        # In place, since the order of durations does not matter any more.
        mine.partition(len(mine) // 2)
        median = (
            mine[len(mine) // 2]
            if len(mine) % 2
            else (int(mine[: len(mine) // 2].max()) + int(mine[len(mine) // 2])) / 2
        )
        values = (total, total / len(mine), median, *ends_of_mine, deviation)
        for name, value in zip(numbers, values, strict=True):
            numbers[name][group] = value
    whole = int(numbers["total_ns"].sum())
    return {"count": count, **numbers, "share": numbers["total_ns"] / whole if whole else np.zeros(groups)}


def _by_group(
    codes: npt.NDArray[np.integer[Any]], duration: npt.NDArray[np.integer[Any]], first: npt.NDArray[np.int64]
) -> npt.NDArray[np.integer[Any]]:
    """Return the durations group after group, in the given order inside each; ``first`` is where each group begins."""
    short = len(duration) > 0 and duration.min() >= 0 and duration.max() < SHORT_NS
    grouped_durations: npt.NDArray[np.integer[Any]] = np.empty(len(duration), np.uint32 if short else np.int64)
    # numpy sorts integers of one or two bytes by counting, which is faster. Few rows at a time need little memory.
    kind, place = np.min_scalar_type(max(len(first) - 1, 0)), first.copy()
    for some in blocks(len(duration)):
        order = np.argsort(codes[some].astype(kind), kind="stable")
        group = codes[some][order]
        opens = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
        size = np.diff(opens, append=len(group))
        grouped_durations[np.arange(len(group)) + np.repeat(place[group[opens]] - opens, size)] = duration[some][order]
        place[group[opens]] += size
    return grouped_durations


def by_name(
    names: Sequence[str], codes: npt.NDArray[np.integer[Any]], duration: npt.NDArray[np.integer[Any]]
) -> pd.DataFrame:
    """Return the statistics by name, largest total first; groups of equal name become one.

    Args:
        names: Name of each code.
        codes: Index into ``names`` of each duration, shape (n,).
        duration: In ns, shape (n,).
    """
    merged, unique = pd.factorize(np.array(list(names), dtype=object))
    if len(unique) < len(merged):
        codes = merged[codes]
    numbers_by_name = statistics(codes, duration, len(unique))
    order = largest_first(numbers_by_name["total_ns"], unique.tolist())
    numbers = {name: values[order] for name, values in numbers_by_name.items()}
    table = pd.DataFrame({"name": text_column(unique[order].tolist()), **numbers})
    return table if numbers_by_name["count"].all() else table[table["count"] > 0].reset_index(drop=True)
