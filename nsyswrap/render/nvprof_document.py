"""The two tables that nvprof printed when a program ended: GPU activities and API calls.

Each table adds up to 100 % and is sorted by time; operations that overlap count in full. The tables do not show how
long the GPU was idle; the report does.
"""

from collections.abc import Iterator
from itertools import accumulate

import pandas as pd

from nsyswrap.base import units
from nsyswrap.model import Report
from nsyswrap.render import summary_model
from nsyswrap.render.document import Column, Document, DocumentSection, Lines, Table

# Readers of this table look for the few names that make up most of the time.
MOST_SHARE = 0.90
_PLACES = {"Host": "H", "Device": "D", "Array": "A", "Peer": "P"}
_UNIFIED = "Unified "
_OF_NAME = {"count": "sum", "total_ns": "sum", "min_ns": "min", "max_ns": "max"}


def document(report: Report) -> Document:
    """Return the two tables of a report as a document."""
    tables = {"GPU activities": gpu_activities(report), "API calls": api_calls(report)}
    return Document(
        command="analyze --view nvprof",
        title=report.capture.name,
        about=(("window", report.window.label),),
        verdict=" ".join(f"{kind}: {_most(rows)}." for kind, rows in tables.items()),
        lead=(Lines(tuple(_graphs(report)), "notes"),),
        sections=tuple(DocumentSection(kind, kind, "", (_table(kind, rows),)) for kind, rows in tables.items()),
    )


def gpu_activities(report: Report) -> pd.DataFrame:
    """Return kernels by demangled name, copies by direction and memsets, largest first.

    Copies of one direction are one row, whatever their memory. The columns are ``name``, ``count``, ``total_ns``,
    ``min_ns`` and ``max_ns``.
    """
    kernels, copies = report.rows("kernels", "summary"), report.rows("copies", "summary")
    moved = None if copies is None else copies.assign(name=copies["kind"].astype(str).map(activity))
    return _by_name(kernels, moved)


def api_calls(report: Report) -> pd.DataFrame:
    """Return CUDA calls by name, runtime and driver, all threads, with the columns of ``gpu_activities``."""
    return _by_name(report.rows("host_calls", "summary"))


def _by_name(*tables: pd.DataFrame | None) -> pd.DataFrame:
    none = pd.DataFrame(columns=["name", *_OF_NAME])
    known = [table[["name", *_OF_NAME]] for table in tables if table is not None and len(table)]
    sums = pd.concat(known or [none]).groupby("name", sort=True, observed=True).agg(_OF_NAME).reset_index()
    return sums.sort_values("total_ns", ascending=False, kind="stable")


def activity(kind: str) -> str:
    """Return nvprof's name for a kind of copy, or for a memset: ``[CUDA memcpy HtoD]``."""
    if kind == "Memset":
        return "[CUDA memset]"
    source, to, target = kind.removeprefix(_UNIFIED).partition("-to-")
    known = to and source in _PLACES and target in _PLACES
    direction = f"{_PLACES[source]}to{_PLACES[target]}" if known else kind
    return f"[CUDA {'Unified Memory ' if known and kind.startswith(_UNIFIED) else ''}memcpy {direction}]"


def leading(total_ns: list[int]) -> int:
    """Return how many of the first times make up 90 % of all."""
    return sum(taken < MOST_SHARE * sum(total_ns) for taken in accumulate(total_ns[:-1])) + bool(total_ns)


def _most(rows: pd.DataFrame) -> str:
    times = rows["total_ns"].tolist()
    count, whole = leading(times), sum(times)
    what = "the only name makes" if len(times) == 1 else f"the first {count} of {len(times)} names make"
    return f"{what} up {units.share_of(sum(times[:count]), whole)} of {units.duration(whole)}" if times else "none"


def _table(kind: str, rows: pd.DataFrame) -> Table:
    total, count = rows["total_ns"].tolist(), rows["count"].tolist()
    whole = sum(total) or 1
    times = {"time": total, "avg": [ns / number for ns, number in zip(total, count, strict=True)]}
    times |= {"min": rows["min_ns"].tolist(), "max": rows["max_ns"].tolist()}
    columns = [Column(name, name, "ns", values) for name, values in times.items()]
    return Table(
        kind,
        kind,
        (
            Column("share", "time", "share", [ns / whole for ns in total]),
            columns[0],
            Column("count", "calls", "count", count),
            *columns[1:],
            Column("name", "name", "text", rows["name"].astype(str).tolist()),
        ),
        most={"text": len(total)},
    )


def _graphs(report: Report) -> Iterator[str]:
    """Yield notes about graphs without kernels: nvprof saw the kernels inside a graph, this capture does not."""
    for row in summary_model.rows(report.section("cuda_graphs"), "launches"):
        if row["shown"] == "whole":
            count, time = row["operation_count"], units.duration(row["gpu_ns"])
            graphs, were, are = units.counted(count, "CUDA graph"), *(("was", "is") if count == 1 else ("were", "are"))
            yield f"{graphs}, {time} on the GPU, {were} traced as a whole and {are} not in these tables."
