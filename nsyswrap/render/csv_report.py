"""The tables of a report as CSV (RFC 4180), in full, for spreadsheets and data frames.

``tables`` returns one CSV text for each table. ``render`` returns one text for all: blocks divided by an empty line,
each with its own header line; every line begins with the section and the table it belongs to::

    section,table,device_id,window_ns,...
    ledger,devices,0,185400000,...
                                            (empty line)
    section,table,device_id,cause,...
    idle,attribution,0,data_wait,...

The facts of a section are its table ``facts``. The findings are the table ``findings`` of ``report``; its own column
``section`` is the section that holds a finding. An apostrophe
goes before a text cell that a spreadsheet would run as a formula.
"""

from typing import Any

import numpy as np
import pandas as pd

from nsyswrap.base.interval import NAMES
from nsyswrap.model import Report, Section
from nsyswrap.render.escape import visible
from nsyswrap.render.json_report import sections_of

_FORMULA_STARTS = ("=", "+", "-", "@")


def render(report: Report) -> str:
    """Return all tables of the report as blocks of CSV."""
    blocks = []
    for (section, name), frame in _frames(report).items():
        block = frame.copy(deep=False)
        block.insert(0, "section", section, allow_duplicates=True)
        block.insert(1, "table", name, allow_duplicates=True)
        blocks.append(_csv(block))
    return "\r\n".join(blocks)


def tables(report: Report) -> dict[str, str]:
    """Return each table of the report as CSV, by ``section.table``."""
    return {f"{section}.{name}": _csv(frame) for (section, name), frame in _frames(report).items()}


def safe(value: object) -> object:
    """Return a cell's value; in a text, hidden characters are shown and a formula is disarmed."""
    if not isinstance(value, str):
        return value
    shown = visible(value)
    return f"'{shown}" if shown.startswith(_FORMULA_STARTS) else shown


def _frames(report: Report) -> dict[tuple[str, str], pd.DataFrame]:
    """Return the tables that are written, by section and name, in the order of the report."""
    found: dict[tuple[str, str], pd.DataFrame] = {}
    if report.findings:
        found["report", "findings"] = _findings(report)
    for section in report.sections:
        if section.facts:
            found[section.key, "facts"] = _facts(section)
        for name, table in section.tables.items():
            found[section.key, str(name)] = table
    return found


def _findings(report: Report) -> pd.DataFrame:
    columns: dict[str, Any] = {
        name: [getattr(one, name) for one in report.findings] for name in ("rule", "severity", "headline", "lost_ns")
    }
    for name in NAMES:
        columns[f"saving_{name}_ns"] = [getattr(one.saving, name, None) for one in report.findings]
    for name in ("saving_method", "advice"):
        columns[name] = [getattr(one, name) for one in report.findings]
    columns["severity"] = [one.severity.value for one in report.findings]
    columns["device_id"] = pd.Series([one.device_id for one in report.findings], dtype="Int64")
    ranks: dict[int | None, int | None] = {gpu.device_id: gpu.rank for gpu in report.gpus}
    columns["rank"] = pd.array([ranks.get(one.device_id) for one in report.findings], dtype="Int64")
    section_of = sections_of(report)
    columns["section"] = [section_of.get(one) for one in report.findings]
    columns["evidence"] = [" | ".join(one.evidence) for one in report.findings]
    columns["window"] = [one.window.label for one in report.findings]
    return pd.DataFrame(columns)


def _facts(section: Section) -> pd.DataFrame:
    values = pd.Series([fact.value for fact in section.facts], dtype="object")
    return pd.DataFrame(
        {"label": [fact.label for fact in section.facts], "value": values, "unit": [f.unit for f in section.facts]}
    )


def _csv(frame: pd.DataFrame) -> str:
    shown = pd.DataFrame({at: _safe_column(frame.iloc[:, at]) for at in range(frame.shape[1])})
    shown.columns = pd.Index([str(safe(str(name))) for name in frame.columns], dtype="object")
    return str(shown.to_csv(index=False, lineterminator="\r\n"))


def _safe_column(column: "pd.Series[Any]") -> Any:  # noqa: ANN401 (pandas has no public type for its arrays)
    """Return a column with safe texts; each distinct text is processed once."""
    if column.dtype.kind in "iufb":
        return column.array
    codes, distinct = pd.factorize(column)
    cells = np.array([*(safe(value) for value in distinct.tolist()), None], dtype="object")
    return cells[codes]  # a missing cell has code -1, which selects the None at the end
