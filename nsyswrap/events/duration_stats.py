"""Count, total, mean, median, minimum, maximum and standard deviation of durations by group."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

COLUMNS = ("count", "total_ns", "mean_ns", "median_ns", "min_ns", "max_ns", "stddev_ns", "share")


def summarize(codes: npt.NDArray[np.integer[Any]], duration: npt.NDArray[np.int64], groups: int) -> pd.DataFrame:
    """Return the statistics of each group.

    Args:
        codes: Group of each duration, 0 to ``groups`` - 1, shape (n,).
        duration: In ns, shape (n,).
        groups: Number of groups; those without a duration get zeros.

    Returns:
        One row for each group, in order, with ``COLUMNS``. The median of an even number of values is the mean of the
        two middle ones. The standard deviation is that of a sample (n - 1), and 0 for one value. ``share`` is the
        share of the total of all groups. Source: the statistics of nsys's own reports, so that both can be compared.
    """
    # numpy sorts integers of one or two bytes by counting, which is faster.
    small = codes.astype(np.min_scalar_type(groups))
    order = np.argsort(small, kind="stable")
    ordered = duration[order]
    count = np.bincount(codes, minlength=groups).astype(np.int64)
    ends = np.cumsum(count)
    total = np.zeros(groups, np.int64)
    rest = np.zeros((groups, 4))
    least, most = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    for group in np.flatnonzero(count):
        mine = ordered[ends[group] - count[group] : ends[group]]
        total[group], least[group], most[group] = mine.sum(), mine.min(), mine.max()
        spread = float(mine.std(ddof=1)) if len(mine) > 1 else 0.0
        rest[group] = total[group] / len(mine), float(np.median(mine)), spread, 0.0
    whole = int(total.sum())
    return pd.DataFrame(
        {
            "count": count,
            "total_ns": total,
            "mean_ns": rest[:, 0],
            "median_ns": rest[:, 1],
            "min_ns": least,
            "max_ns": most,
            "stddev_ns": rest[:, 2],
            "share": total / whole if whole else np.zeros(groups),
        }
    )


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
