"""The operator of PyTorch beside each kernel of a table, where the capture shows operators."""

from dataclasses import replace

from nsyswrap.base import units
from nsyswrap.model import Report, Section
from nsyswrap.render import summary_model


def with_operators(report: Report, section: Section) -> Section:
    """Return the section on kernels with a column ``operator``; unchanged where none is known.

    A kernel that several operators launch has the one with most of its time, and how many more there are.

    Args:
        report: The report.
        section: One of its sections, which need not be that on kernels.
    """
    summary = section.tables.get("summary")
    if section.key != "kernels" or summary is None:
        return section
    found = summary_model.rows(report.section("operators"), "kernels")
    if not found:
        return section
    times: dict[str, dict[str, int]] = {}
    for row in found:
        mine = times.setdefault(str(row["name"]), {})
        mine[str(row["operator"])] = mine.get(str(row["operator"]), 0) + int(row["total_ns"])
    table = summary.copy()
    words = [_words(times.get(str(name), {})) for name in table["name"]]
    table.insert(int(table.columns.get_loc("name")) + 1, "operator", words)  # type: ignore[arg-type]
    return replace(section, tables={**section.tables, "summary": table})


def _words(times: dict[str, int]) -> str:
    """Return the operator with most time; nothing for a kernel without one."""
    if not times:
        return ""
    first = min(times, key=lambda name: (-times[name], name))
    return first if len(times) == 1 else f"{first} and {units.count(len(times) - 1)} more"
