"""Count, total, mean, median, minimum, maximum and standard deviation of durations by group."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

COLUMNS = ("count", "total_ns", "mean_ns", "median_ns", "min_ns", "max_ns", "stddev_ns", "share")
_WHOLE = frozenset({"total_ns", "min_ns", "max_ns"})


def summarize(codes: npt.NDArray[np.integer[Any]], duration: npt.NDArray[np.int64], groups: int) -> pd.DataFrame:
    """Return the statistics of each group as a table of one row for each, as ``statistics`` does."""
    return pd.DataFrame(statistics(codes, duration, groups))


def statistics(
    codes: npt.NDArray[np.integer[Any]], duration: npt.NDArray[np.int64], groups: int
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
    count = np.bincount(codes, minlength=groups).astype(np.int64)
    ends = np.cumsum(count)
    # numpy sorts integers of one or two bytes by counting, which is faster.
    ordered = duration[np.argsort(codes.astype(np.min_scalar_type(groups)), kind="stable")]
    numbers = {name: np.zeros(groups, np.int64 if name in _WHOLE else np.float64) for name in COLUMNS[1:-1]}
    # Where each event has a name of its own, as in "step 17", there are as many groups as events.
    single = np.flatnonzero(count == 1)
    for name in ("total_ns", "mean_ns", "median_ns", "min_ns", "max_ns"):
        numbers[name][single] = ordered[ends[single] - 1]
    for group in np.flatnonzero(count > 1).tolist():
        mine = ordered[ends[group] - count[group] : ends[group]]
        for name, value in zip(numbers, _statistics(mine), strict=True):
            numbers[name][group] = value
    total = numbers["total_ns"]
    whole = int(total.sum())
    return {"count": count, **numbers, "share": total / whole if whole else np.zeros(groups)}


def _statistics(values: npt.NDArray[np.int64]) -> tuple[float, ...]:
    """Return total, mean, median, minimum, maximum and standard deviation of at least two values."""
    total = values.sum()
    return total, total / len(values), np.median(values), values.min(), values.max(), values.std(ddof=1)


def by_name(names: Sequence[str], codes: npt.NDArray[np.integer[Any]], duration: npt.NDArray[np.int64]) -> pd.DataFrame:
    """Return the statistics by name, largest total first; groups of equal name become one.

    Args:
        names: Name of each code.
        codes: Index into ``names`` of each duration, shape (n,).
        duration: In ns, shape (n,).
    """
    merged, unique = pd.factorize(np.array(list(names), dtype=object))
    if len(unique) < len(merged):
        codes = merged[codes]
    found = summarize(codes, duration, len(unique))
    found.insert(0, "name", unique)
    found = found[found["count"] > 0]
    return found.sort_values(["total_ns", "name"], ascending=[False, True], ignore_index=True)
