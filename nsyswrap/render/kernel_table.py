"""The kernels of a page in one table: time, operator, module, use of tensor cores and why not, share of the peak."""

from dataclasses import replace
from typing import Any

import numpy as np

from nsyswrap.base import units
from nsyswrap.model import Report, Section
from nsyswrap.render import summary_model

# Tables of the section on tensor cores whose rows are columns here.
_IN_IT = frozenset({"kernels", "not_used"})
# What comes first; the other statistics follow.
_FIRST = ("name", "total_ns", "share", "operator", "module", "verdict", "precision", "reason", "peak_share")


def in_one_table(report: Report, section: Section) -> Section:
    """Return the section on kernels with what else the report knows of each, and that on tensor cores without it.

    Any other section is unchanged. A kernel that several operators launch has the one with most of its time, and how
    many more there are. It is the same with modules and with the reasons why tensor cores are not used.
    """
    kernels = report.section("kernels")
    summary = None if kernels is None else kernels.tables.get("summary")
    if summary is None or section.key not in {"kernels", "tensor_cores"}:
        return section
    if section.key == "tensor_cores":
        return replace(section, tables={name: table for name, table in section.tables.items() if name not in _IN_IT})
    tensor = report.section("tensor_cores")
    known: dict[str, dict[str, Any]] = {
        "operator": _most(report.section("operators"), "kernels", "operator"),
        "module": _most(report.section("operators"), "kernels", "module"),
        **{
            column: {str(row["name"]): str(row[column]) for row in summary_model.rows(tensor, "kernels")}
            for column in ("verdict", "precision")
        },
        "reason": _most(tensor, "not_used", "reason"),
        "peak_share": _peak_shares(report.section("operators")),
    }
    names = list(map(str, summary["name"]))
    table = summary.assign(
        **{
            column: [values.get(name, np.nan if column == "peak_share" else "") for name in names]
            for column, values in known.items()
            if values
        }
    )
    first = [column for column in _FIRST if column in table]
    rest = [column for column in table if column not in first]
    return replace(section, tables={**section.tables, "summary": table[[*first, *rest]]})


def _most(section: Section | None, table: str, column: str) -> dict[str, str]:
    """Return the text of a column with most of the time of each kernel, by the name of the kernel."""
    times: dict[str, dict[str, int]] = {}
    for row in summary_model.rows(section, table):
        mine, text = times.setdefault(str(row["name"]), {}), str(row[column])
        if text:
            mine[text] = mine.get(text, 0) + int(row["total_ns"])
    return {name: _named(mine) for name, mine in times.items()}


def _named(times: dict[str, int]) -> str:
    """Return the name with most time, and how many more there are; empty for none."""
    if not times:
        return ""
    first = min(times, key=lambda name: (-times[name], name))
    return first if len(times) == 1 else f"{first} and {units.count(len(times) - 1)} more"


def _peak_shares(section: Section | None) -> dict[str, float]:
    """Return the time that each kernel needs at least as a share of its time, where that is known."""
    sums: dict[str, list[float]] = {}
    for row in summary_model.rows(section, "kernels"):
        share, ns = row["peak_share"], int(row["total_ns"])
        if share is not None:
            mine = sums.setdefault(str(row["name"]), [0.0, 0.0])
            mine[0], mine[1] = mine[0] + share * ns, mine[1] + ns
    return {name: needed / ns for name, (needed, ns) in sums.items() if ns}
