"""Kernel time by use of tensor cores: in total, by phase and by kernel family, with bounds."""

from collections.abc import Iterable
from typing import NamedTuple

from nsyswrap.base import units
from nsyswrap.model import Report
from nsyswrap.render import charts, summary_model
from nsyswrap.render.document import Column, Table, times
from nsyswrap.render.escape import elide
from nsyswrap.render.page_tables import TableView, document_table
from nsyswrap.rules.work_names import TENSOR_USES, operation_name

_MOST_ROWS = 100
_NAME_WIDTH = 40


class TensorPart(NamedTuple):
    """A part of kernel time: its fact, the verdict of its kernels, key and fill of its colour, label."""

    fact: str
    verdict: str
    key: str
    label: str
    fill: str


PARTS = (
    TensorPart("tensor_ns", "tensor", "tensor", TENSOR_USES["tensor"], "#0054A9"),
    TensorPart("unknown_ns", "unknown", "unknown", TENSOR_USES["unknown"], "url(#unsure)"),
    TensorPart("simt_eligible_ns", "simt_eligible", "eligible", TENSOR_USES["simt_eligible"], "#0398CE"),
    TensorPart("not_eligible_ns", "not_eligible", "other", TENSOR_USES["not_eligible"], "#929292"),
)
_REST = TensorPart("", "", "rest", "without tensor cores", "#929292")


def tensor_tables(report: Report) -> tuple[TableView, ...]:
    """Return kernel time by phase and by kernel family, largest first; empty where it was not analysed."""
    tables = (_table("phase", "By phase", _by_phase(report)), _table("family", "By kernel family", _by_family(report)))
    return tuple(document_table(one, with_terms=True) for one in tables if one.row_count)


Parts = list[tuple[TensorPart, int]]


def _by_phase(report: Report) -> Iterable[tuple[str, Parts]]:
    """Yield each phase: its kernel time that uses tensor cores, that is unknown, and that does not use them."""
    for row in summary_model.rows(report.section("tensor_cores"), "phases"):
        tensor, unknown = int(row["tensor_ns"] or 0), int(row["unknown_ns"] or 0)
        rest = int(row["kernel_ns"] or 0) - tensor - unknown
        yield str(row["phase"]), [(PARTS[0], tensor), (PARTS[1], unknown), (_REST, rest)]


def _by_family(report: Report) -> Iterable[tuple[str, Parts]]:
    """Yield each kind of operation, according to the kernel names."""
    found: dict[str, dict[str, int]] = {}
    for row in summary_model.rows(report.section("tensor_cores"), "kernels"):
        family = found.setdefault(str(row["op"] or "") or "unknown", {})
        family[row["verdict"]] = family.get(row["verdict"], 0) + int(row["total_ns"])
    for name, by_verdict in found.items():
        yield operation_name(name), [(part, by_verdict.get(part.verdict, 0)) for part in PARTS]


def _table(head: str, title: str, rows: Iterable[tuple[str, Parts]]) -> Table:
    """Return rows of kernel time, costliest first; the bars of all rows together fill a cell."""
    ranked = sorted(
        ((name, parts, sum(ns for _, ns in parts)) for name, parts in rows), key=lambda row: (-row[2], row[0])
    )
    ranked = [row for row in ranked if row[2] > 0]
    every, left_out = sum(whole for *_, whole in ranked), max(len(ranked) - _MOST_ROWS, 0)
    ranked = ranked[:_MOST_ROWS]
    bars = []
    for _, parts, whole in ranked:
        titles = [f"{part.label}: {units.duration(ns)}" for part, ns in parts]
        fills = [(part.key, part.fill) for part, _ in parts]
        bars.append(charts.cell_bar([*fills, ("", "")], [*(ns for _, ns in parts), every - whole], [*titles, ""]))
    tensor, unknown = ([parts[at][1] for _, parts, _ in ranked] for at in (0, 1))
    lows = [parts[0][1] / whole for _, parts, whole in ranked]
    bands = [
        units.share_band(low, low + parts[1][1] / whole) for low, (_, parts, whole) in zip(lows, ranked, strict=True)
    ]
    columns = (
        Column(head, head, "text", [elide(name, _NAME_WIDTH) for name, *_ in ranked]),
        Column("", "colours as above", "picture", bars),
        times("kernel_ns", "kernel time", [whole for *_, whole in ranked]),
        times("tensor_ns", "on tensor cores", tensor),
        times("unknown_ns", "unknown", unknown),
        Column("share_low", "tensor-core share", "number", lows, bands),
    )
    cut = f"{left_out} smaller rows are left out." if left_out else ""
    return Table(f"tensor_cores-{head}", title, columns, most={"html": _MOST_ROWS}, cut=cut)
