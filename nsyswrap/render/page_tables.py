"""Tables as the page prints them: text for the reader, raw values for the script that sorts and copies."""

from typing import NamedTuple

import pandas as pd

from nsyswrap.render import glossary, rows, vocabulary
from nsyswrap.render.distinct_names import shorten_all
from nsyswrap.render.escape import visible

MOST_ROWS = 100
# Kernel names repeat under each range and would be the largest part of a page.
_MOST_ROWS_OF = {("ranges", "kernels"): 40, ("many", "captures"): 2000, ("many", "failed"): 1000, ("many", "day"): 400}
_NAME_WIDTH = 52
_MOST_BARRED, _LEAST_BARRED = 3, 2
_PROSE = frozenset({"text"})


class Head(NamedTuple):
    """The heading of a column.

    Attributes:
        name: Its name in report.json.
        label: Its text on the page.
        unit: Unit of all its cells; empty where each cell has its own or none.
        is_text: Whether it holds texts, which are aligned left.
        term: Anchor of the glossary term that explains it; empty where there is none.
    """

    name: str
    label: str
    unit: str
    is_text: bool
    term: str


class Span(NamedTuple):
    """An interval of the timeline, ns since capture start."""

    start_ns: int
    end_ns: int

    @property
    def anchor(self) -> str:
        """Return the anchor of a link to it, without the #."""
        return f"t={self.start_ns}-{self.end_ns}"


class Cell(NamedTuple):
    """One cell.

    Attributes:
        text: Its text on the page.
        whole: The whole name where the text is cut.
        raw: The value in report.json; empty for texts and for missing values.
        bar: Width of its bar in per cent; empty for none.
        fill: Key of the bar's colour.
        is_text: Whether it is a text.
        span: The interval that its row is about; None where there is none.
        prose: Whether it is a sentence, which may take several lines, and not a name.
    """

    text: str
    whole: str = ""
    raw: str = ""
    bar: str = ""
    fill: str = "compute"
    is_text: bool = False
    span: Span | None = None
    prose: bool = False


class TableView(NamedTuple):
    """A table as it is printed; ``cut`` says which rows are left out."""

    name: str
    caption: str
    heads: tuple[Head, ...]
    rows: tuple[tuple[Cell, ...], ...]
    cut: str


def table_view(table: pd.DataFrame, caption: str, name: str, section: str = "") -> TableView:
    """Return a table cut to at most ``MOST_ROWS`` rows, with one unit for each column.

    Args:
        table: Any table of a section.
        caption: Its heading.
        name: Its name in the section.
        section: Key of the section.
    """
    shown = rows.show(table, _MOST_ROWS_OF.get((section, name), MOST_ROWS), aligned=True)
    heads = tuple(
        Head(
            visible(one.name), visible(one.label), one.unit, one.kind == "text", glossary.term_anchor(one.label)
        )
        for one in shown.columns
    )  # fmt: skip
    spans = _spans(table.head(shown.row_count))
    bars = _bars(shown, table)
    columns = [_cells(one, bars.get(one.name), spans) for one in shown.columns]
    return TableView(visible(name), visible(caption), heads, tuple(zip(*columns, strict=True)), shown.cut)


def _spans(table: pd.DataFrame) -> list[Span]:
    """Return the interval of each row that is shown; empty where rows have no start and end."""
    if not {"start_ns", "end_ns"} <= set(table.columns):
        return []
    return [Span(int(start), int(end)) for start, end in zip(table["start_ns"], table["end_ns"], strict=True)]


class _Bar(NamedTuple):
    fill: str
    most: float


def _bars(shown: rows.Shown, table: pd.DataFrame) -> dict[str, _Bar]:
    """Return colour and full value of the bars, by column.

    A full bar is 100 %. Without shares, the column that measures the time of a row has bars, on which all rows together
    are a full bar. A table with many shares or with a single row has none.
    """
    if shown.row_count < _LEAST_BARRED:
        return {}
    columns = {one.name: one for one in shown.columns}
    shares = [one.name for one in shown.columns if one.kind == "share"]
    weights = [name for name in vocabulary.WEIGHTS if name in columns and columns[name].kind == "ns"][:1]
    if len(shares) > _MOST_BARRED:
        return {}
    most = {name: max([1.0, *(value for value in columns[name].raw if value)]) for name in shares}
    most = most or {name: float(table[name].sum()) or 1.0 for name in weights}
    return {name: _Bar("idle" if name.startswith("idle") else "compute", full) for name, full in most.items()}


def _cells(column: rows.Column, bar: _Bar | None, spans: list[Span]) -> list[Cell]:
    if column.name in _PROSE:
        return [Cell(text, is_text=True, prose=True) for text in column.cells]
    if column.kind == "text":
        brief = shorten_all(column.cells, _NAME_WIDTH)
        whole = zip(brief, column.cells, strict=True)
        return [Cell(short, "" if short == text else text, is_text=True) for short, text in whole]
    raws = ["" if value is None else str(value) for value in column.raw]
    if column.name == "start_ns" and spans:
        trio = zip(column.cells, raws, spans, strict=True)
        return [Cell(text, raw=raw, span=span if span.end_ns > span.start_ns else None) for text, raw, span in trio]
    if bar is None:
        return [Cell(text, raw=raw) for text, raw in zip(column.cells, raws, strict=True)]
    widths = (f"{100 * max(value or 0.0, 0.0) / bar.most:.1f}" for value in column.raw)
    return [
        Cell(text, raw=raw, bar=width, fill=bar.fill)
        for text, raw, width in zip(column.cells, raws, widths, strict=True)
    ]
