"""NVTX ranges: their time on the host, what they launched on the GPU, and which kernels."""

import numpy as np
import pandas as pd

from nsyswrap import tables
from nsyswrap.analyses.base import Analysis, Study
from nsyswrap.analyses.range_levels import enclosing
from nsyswrap.analyses.statistics import by_name, summarize
from nsyswrap.analyses.summaries import clipped
from nsyswrap.intervals import Indices, Times, Window
from nsyswrap.model import Section
from nsyswrap.tables import array


def run(study: Study, window: Window) -> Section:
    """Return ranges by name: host time, projection on the GPU, and kernels.

    A range's projection is what calls inside it, on its own thread, put on the GPU: ``envelope_ns`` from the first
    operation's start to the last one's end, ``busy_ns`` the union of its operations. ``kernels`` counts a kernel in
    every range around its launch. Both follow nsys's own reports; ranges are taken whole where they touch the window.
    """
    ranges = study.trace[tables.RANGES]
    rows, duration = clipped(ranges, window)
    names = _names(ranges)
    codes, unique = pd.factorize(names[rows])
    call_ops, op_ranges = _pairs(study, window)
    return Section(
        key="ranges",
        title="NVTX ranges",
        window=window,
        tables={
            "summary": by_name([str(name) for name in unique], codes, duration),
            "projection": _projection(study, names, call_ops, op_ranges),
            "kernels": _kernels(study, names, call_ops, op_ranges),
        },
    )


def _names(ranges: pd.DataFrame) -> pd.Index:
    """Return the name of each range: "domain:text", or the text alone in the default domain."""
    codes = ranges["text"].cat.codes.to_numpy().astype(np.int64)
    domains = ranges["domain"].cat.codes.to_numpy().astype(np.int64)
    pairs, unique = pd.factorize(domains * (1 << 32) + codes)
    text, domain = ranges["text"].cat.categories, ranges["domain"].cat.categories
    labels = []
    for pair in unique:
        of_domain = str(domain[int(pair) >> 32])
        labels.append(f"{of_domain}:{text[int(pair) & 0xFFFFFFFF]}" if of_domain else str(text[int(pair) & 0xFFFFFFFF]))
    return pd.Index(np.array(labels, dtype=object)[pairs] if len(pairs) else [], dtype=object)


def _pairs(study: Study, window: Window) -> tuple[Indices, Indices]:
    """Return each operation with each range, touching the window, around its launch: two arrays of indices."""
    operations, trace = study.operations, study.trace
    launched = np.flatnonzero(operations.call >= 0)
    call = operations.call[launched]
    calls, ranges = trace[tables.CALLS], trace[tables.RANGES]
    thread, start, end = (array(calls, name)[call] for name in ("thread", "start", "end"))
    found_operations, found_ranges = [np.empty(0, np.intp)], [np.empty(0, np.intp)]
    for which, rows in enclosing(trace, thread, start, end):
        touching = (array(ranges, "start")[rows] < window.end_ns) & (array(ranges, "end")[rows] > window.start_ns)
        found_operations.append(launched[which[touching]])
        found_ranges.append(rows[touching])
    return np.concatenate(found_operations), np.concatenate(found_ranges)


def _projection(study: Study, names: pd.Index, which: Indices, rows: Indices) -> pd.DataFrame:
    """Return the projection of each range, added up by name."""
    operations = study.operations
    columns = ["name", "count", "range_ns", "envelope_ns", "busy_ns", "operation_count"]
    if not len(rows):
        return pd.DataFrame(
            {column: pd.Series([], dtype="object" if column == "name" else "int64") for column in columns}
        )
    order = np.lexsort((operations.start[which], rows))
    which, rows = which[order], rows[order]
    first = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]]))
    start, end = operations.start[which], operations.end[which]
    lowest, highest = start[first], np.maximum.reduceat(end, first)
    count = np.diff(np.append(first, len(rows)))
    of_range = rows[first]
    ranges = study.trace[tables.RANGES]
    frame = pd.DataFrame(
        {
            "name": names[of_range],
            "range_ns": array(ranges, "end")[of_range] - array(ranges, "start")[of_range],
            "envelope_ns": highest - lowest,
            "busy_ns": _union_by_group(start, end, first, count),
            "operation_count": count,
        }
    )
    merged = frame.groupby("name", as_index=False, sort=False).agg(
        count=("range_ns", "size"),
        range_ns=("range_ns", "sum"),
        envelope_ns=("envelope_ns", "sum"),
        busy_ns=("busy_ns", "sum"),
        operation_count=("operation_count", "sum"),
    )
    return merged.sort_values(["envelope_ns", "name"], ascending=[False, True], ignore_index=True)


def _union_by_group(start: Times, end: Times, first: Indices, count: Indices) -> Times:
    """Return the length of the union of each group of intervals; groups lie one behind another, sorted by start."""
    group = np.repeat(np.arange(len(first)), count)
    base = int(start.min())
    # Groups are set apart by more than any of them lasts, so that a running maximum cannot cross a border.
    shift = group * (int(end.max()) - base + 1) - base
    low, high = start + shift, end + shift
    reach = np.maximum.accumulate(high)
    before = np.concatenate([[low[0]], reach[:-1]])
    fresh = np.maximum(high - np.maximum(low, before), 0)
    return np.add.reduceat(fresh, first)


def _kernels(study: Study, names: pd.Index, which: Indices, rows: Indices) -> pd.DataFrame:
    """Return kernels by enclosing range and kernel name; statistics as everywhere."""
    operations, trace = study.operations, study.trace
    is_kernel = operations.table[which] == 0
    which, rows = which[is_kernel], rows[is_kernel]
    ids = array(trace[tables.KERNELS], "name_id")[operations.row[which]]
    range_codes, range_names = pd.factorize(names)
    kernel_codes, kernel_ids = pd.factorize(ids)
    width = max(len(kernel_ids), 1)
    codes, unique = pd.factorize(range_codes[rows] * np.int64(width) + kernel_codes)
    found = summarize(codes, operations.end[which] - operations.start[which], len(unique))
    found.insert(0, "range", range_names.take(unique // width).astype(str))
    found.insert(1, "name", [trace.text(int(kernel_ids[each])) for each in unique % width])
    return found.sort_values(["total_ns", "range", "name"], ascending=[False, True, True], ignore_index=True)


ANALYSIS = Analysis("ranges", "NVTX ranges", (tables.RANGES,), run)
