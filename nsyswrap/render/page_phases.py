"""The table of phases: GPU busy and idle time of each phase, and why the GPUs were idle in it."""

from nsyswrap.base import units
from nsyswrap.model import Report
from nsyswrap.render import charts, summary_model
from nsyswrap.render.document import Column, Table, times
from nsyswrap.render.escape import elide, visible
from nsyswrap.render.page_tables import TableView, document_table
from nsyswrap.render.vocabulary import rule_name

_MOST_RULES = 2
_NAME_WIDTH = 40
_COLUMNS = frozenset({"phase", "host_ns", "gpu_ns", "idle_ns", "count", "kernel_count"})


def phases(report: Report) -> TableView | None:
    """Return the phases in the order of the section; None where there are none or their table lacks a column.

    The bars of all phases together fill a cell.
    """
    rows = [row for row in summary_model.rows(report.section("phases"), "phases") if row.keys() >= _COLUMNS]
    if not rows:
        return None
    whole, reasons = int(sum(row["gpu_ns"] + row["idle_ns"] for row in rows)) or 1, _reasons(report)
    keys = [str(row["phase"]) for row in rows]
    bars = []
    for row in rows:
        busy, idle = int(row["gpu_ns"]), int(row["idle_ns"])
        colours = (("compute", "#0054A9"), ("idle", "url(#idle)"))
        bars.append(charts.cell_bar((*colours, ("", "")), (busy, idle, whole - busy - idle)))
    host, gpu, idle_time = ([int(row[name]) for row in rows] for name in ("host_ns", "gpu_ns", "idle_ns"))
    counts, kernels = ([int(row[name]) for row in rows] for name in ("count", "kernel_count"))
    columns = (
        Column("phase", "phase", "text", [
            elide(f"{key} (inferred)" if row.get("inferred") else key, _NAME_WIDTH)
            for key, row in zip(keys, rows, strict=True)
        ]),
        Column("", "busy, idle", "picture", bars),
        Column("count", "count", "count", counts),
        times("host_ns", "CPU time", host),
        times("gpu_ns", "GPU busy", gpu),
        times("idle_ns", "idle", idle_time),
        Column("kernel_count", "kernels", "count", kernels),
        Column("reasons", "why idle", "text", [_why(reasons.get(key, [])) for key in keys]),
    )  # fmt: skip
    attributes = tuple({"data-phase": visible(key)} for key in keys)
    table = Table("phases", "GPU time by phase", columns, most={"html": len(rows)}, row_attributes=attributes)
    return document_table(table, with_terms=True)


def _why(reasons: list[tuple[str, int]]) -> str:
    """Return the largest rules of a phase with their times, and how many more there are."""
    shown = [f"{visible(rule_name(rule))} {units.duration(ns)}" for rule, ns in reasons[:_MOST_RULES]]
    more = [f"{len(reasons) - _MOST_RULES} more"] if len(reasons) > _MOST_RULES else []
    return ", ".join(shown + more)


def _reasons(report: Report) -> dict[str, list[tuple[str, int]]]:
    """Return the rules that the idle time of each phase belongs to, with their ns over all GPUs, largest first."""
    found: dict[str, dict[str, int]] = {}
    for one in summary_model.idle_by_phase(report):
        mine = found.setdefault(one.phase, {})
        mine[one.rule] = mine.get(one.rule, 0) + one.ns
    return {phase: sorted(mine.items(), key=lambda pair: (-pair[1], pair[0])) for phase, mine in found.items()}
