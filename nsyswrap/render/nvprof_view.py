"""The two tables that nvprof printed when a program ended: GPU activities and API calls.

Each table adds up to 100 % and is sorted by time; operations that overlap count in full. The tables do not show how
long the GPU was idle; the report does.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from nsyswrap.base import units
from nsyswrap.model import Report
from nsyswrap.render import summary_model
from nsyswrap.render.escape import ELISION, visible

# Readers of this table look for the few names that make up most of the time.
MOST_SHARE = 0.90

_HEAD = ("Type", "Time(%)", "Time", "Calls", "Avg", "Min", "Max", "Name")
_WIDTHS = (16, 8, 10, 9, 10, 10, 10)
_PLACES = {"Host": "H", "Device": "D", "Array": "A", "Peer": "P"}
_UNIFIED = "Unified "


class NameRow(NamedTuple):
    """One name of a table: how often it ran, and its summed, shortest and longest time in ns."""

    name: str
    calls: int
    total_ns: int
    min_ns: int
    max_ns: int


def render(report: Report, *, width: int | None = None) -> str:
    """Return the two tables as text.

    Args:
        report: The report.
        width: Largest line width in columns; None for full names.
    """
    tables = {"GPU activities": gpu_activities(report), "API calls": api_calls(report)}
    lines = [f"{report.capture.name}: {report.window.label}", _line(_HEAD)]
    for kind, rows in tables.items():
        lines += _table(kind, rows)
    lines += ["", *(_most(kind, rows) for kind, rows in tables.items() if rows), *_graphs(report)]
    shown = [_cut(visible(line), width) for line in lines]
    return "\n".join(shown) + "\n"


def gpu_activities(report: Report) -> tuple[NameRow, ...]:
    """Return kernels by demangled name, copies by direction and memsets, largest first."""
    kernels = [_row(row, str(row["name"])) for row in summary_model.rows(report.section("kernels"), "summary")]
    moved = (_row(row, activity(str(row["kind"]))) for row in summary_model.rows(report.section("copies"), "summary"))
    return _largest_first([*kernels, *_merged(moved)])


def api_calls(report: Report) -> tuple[NameRow, ...]:
    """Return CUDA calls by name, runtime and driver, all threads, largest first."""
    return _largest_first(
        _row(row, str(row["name"])) for row in summary_model.rows(report.section("host_calls"), "summary")
    )


def activity(kind: str) -> str:
    """Return nvprof's name for a kind of copy, or for a memset: ``[CUDA memcpy HtoD]``."""
    if kind == "Memset":
        return "[CUDA memset]"
    source, to, target = kind.removeprefix(_UNIFIED).partition("-to-")
    known = to and source in _PLACES and target in _PLACES
    direction = f"{_PLACES[source]}to{_PLACES[target]}" if known else kind
    return f"[CUDA {'Unified Memory ' if known and kind.startswith(_UNIFIED) else ''}memcpy {direction}]"


def leading(rows: tuple[NameRow, ...]) -> int:
    """Return how many of the first rows make up 90 % of the time."""
    whole, taken = sum(row.total_ns for row in rows), 0
    for count, row in enumerate(rows, 1):
        taken += row.total_ns
        if taken >= MOST_SHARE * whole:
            return count
    return 0


def _row(row: summary_model.Row, name: str) -> NameRow:
    return NameRow(name, *(int(row[column]) for column in ("count", "total_ns", "min_ns", "max_ns")))


def _merged(rows: Iterable[NameRow]) -> list[NameRow]:
    """Return one row for each name, so that copies of one direction are one row, whatever their memory."""
    found: dict[str, NameRow] = {}
    for row in rows:
        one = found.get(row.name, row._replace(calls=0, total_ns=0))
        least, most = min(one.min_ns, row.min_ns), max(one.max_ns, row.max_ns)
        found[row.name] = NameRow(row.name, one.calls + row.calls, one.total_ns + row.total_ns, least, most)
    return list(found.values())


def _largest_first(rows: Iterable[NameRow]) -> tuple[NameRow, ...]:
    return tuple(sorted(rows, key=lambda row: (-row.total_ns, row.name)))


def _table(kind: str, rows: tuple[NameRow, ...]) -> list[str]:
    if not rows:
        return [_line((f"{kind}:", "none"))]
    whole = sum(row.total_ns for row in rows)
    lines = []
    for at, row in enumerate(rows):
        times = (row.total_ns / row.calls, row.min_ns, row.max_ns)
        cells = (units.classic_share(row.total_ns / whole if whole else 0), units.classic_duration(row.total_ns))
        label = f"{kind}:" if at == 0 else ""
        lines.append(_line((label, *cells, str(row.calls), *map(units.classic_duration, times), row.name)))
    return lines


def _line(cells: tuple[str, ...]) -> str:
    """Return cells aligned right; the last column, the name, follows after two blanks."""
    numbers = "".join(cell.rjust(width) for cell, width in zip(cells, _WIDTHS, strict=False))
    return "  ".join([numbers, *cells[len(_WIDTHS) :]])


def _most(kind: str, rows: tuple[NameRow, ...]) -> str:
    count, whole = leading(rows), sum(row.total_ns for row in rows)
    share = units.share_of(sum(row.total_ns for row in rows[:count]), whole)
    what = "its only name makes" if len(rows) == 1 else f"the first {count} of {len(rows)} names make"
    return f"{kind}: {what} up {share} of {units.duration(whole)}"


def _graphs(report: Report) -> Iterator[str]:
    """Yield notes about graphs without kernels: nvprof saw the kernels inside a graph, this capture does not."""
    for row in summary_model.rows(report.section("cuda_graphs"), "launches"):
        if row["shown"] == "whole":
            count, time = row["operation_count"], units.duration(row["gpu_ns"])
            graphs, were, are = units.counted(count, "CUDA graph"), *(("was", "is") if count == 1 else ("were", "are"))
            yield f"Note: {graphs}, {time} on the GPU, {were} traced as a whole and {are} not in these tables."


def _cut(line: str, width: int | None) -> str:
    return line if width is None or len(line) <= width else line[: width - 1] + ELISION
