"""Tables as the page prints them: text for the reader, raw values for the script that sorts and copies."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from nsyswrap.render import glossary, rows, vocabulary
from nsyswrap.render.distinct_names import shorten_all
from nsyswrap.render.document import Table
from nsyswrap.render.drawings import Picture
from nsyswrap.render.escape import visible

if TYPE_CHECKING:
    import pandas as pd

MOST_ROWS = 100
# Kernel names repeat under each range and would be the largest part of a page.
_MOST_ROWS_OF = {("ranges", "kernels"): 40}
_NAME_WIDTH = 52
_MOST_BARRED, _LEAST_BARRED = 3, 2


class ColumnHead(NamedTuple):
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


class TableCell(NamedTuple):
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
        href: Where it leads; empty for nowhere.
        tag: A word behind it; empty for none.
        picture: A drawing in its place; None for none.
    """

    text: str
    whole: str = ""
    raw: str = ""
    bar: str = ""
    fill: str = "compute"
    is_text: bool = False
    span: Span | None = None
    prose: bool = False
    href: str = ""
    tag: str = ""
    picture: Picture | None = None


class TableView(NamedTuple):
    """A table as it is printed.

    Attributes:
        name: Its name.
        caption: Its heading.
        heads: Its columns.
        rows: Its cells.
        cut: Which rows are left out.
        row_attributes: Attributes of each row; empty for none.
        attributes: Attributes of the table.
        has_row_heads: Whether the first cell of a row is its heading.
    """

    name: str
    caption: str
    heads: tuple[ColumnHead, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    cut: str
    row_attributes: Sequence[Mapping[str, str]] = ()
    attributes: Mapping[str, str] = MappingProxyType({})
    has_row_heads: bool = False


def table_view(table: "pd.DataFrame", caption: str, name: str, section: str = "") -> TableView:
    """Return a table cut to at most ``MOST_ROWS`` rows, with one unit for each column.

    Args:
        table: Any table of a section.
        caption: Its heading.
        name: Its name in the section.
        section: Key of the section.
    """
    shown = rows.show(table, _MOST_ROWS_OF.get((section, name), MOST_ROWS), aligned=True)
    spans = _spans(table.head(shown.row_count))
    bars = _bars(shown.columns, shown.row_count, lambda weight: float(table[weight].sum()))
    columns = [_cells(one, bars.get(one.name), spans) for one in shown.columns]
    heads = tuple(map(_head, shown.columns))
    return TableView(visible(name), visible(caption), heads, tuple(zip(*columns, strict=True)), shown.cut)


def _head(column: rows.ShownColumn) -> ColumnHead:
    term = glossary.term_anchor(column.label)
    return ColumnHead(visible(column.name), visible(column.label), column.unit, column.kind == "text", term)


def document_table(table: Table, *, with_terms: bool = False) -> TableView:
    """Return a table of a document as it is printed.

    Args:
        table: The table.
        with_terms: Whether the page has a glossary, which explains headings.
    """
    at, shown, whole = table.shown("html"), table.columns_of("html"), {one.name: one for one in table.columns}
    bars = _bars(shown, len(at), lambda weight: float(sum(value or 0 for value in whole[weight].raw)))
    written, heads, columns = iter(shown), [], []
    for own in table.columns:
        if own.unit == "picture":
            heads.append(ColumnHead("", own.label, "", is_text=True, term=""))
            columns.append([TableCell("", picture=own.raw[row]) for row in at])
            continue
        column = next(written)
        head = _head(column)
        heads.append(head if with_terms else head._replace(term=""))
        cells = _cells(column, bars.get(column.name) if column.name else None, [])
        if own.links or own.tags:
            more = [(own.links[row] if own.links else "", own.tags[row] if own.tags else "") for row in at]
            cells = [cell._replace(href=href, tag=tag) for cell, (href, tag) in zip(cells, more, strict=True)]
        columns.append(cells)
    return TableView(
        table.name,
        table.caption,
        tuple(heads),
        tuple(zip(*columns, strict=True)),
        table.cut_in("html"),
        [table.row_attributes[row] for row in at] if table.row_attributes else (),
        table.attributes,
        has_row_heads=heads[0].is_text,
    )


def _spans(table: "pd.DataFrame") -> list[Span]:
    """Return the interval of each row that is shown; empty where rows have no start and end."""
    if not {"start_ns", "end_ns"} <= set(table.columns):
        return []
    return [Span(int(start), int(end)) for start, end in zip(table["start_ns"], table["end_ns"], strict=True)]


class _Bar(NamedTuple):
    fill: str
    most: float


def _bars(shown: Sequence[rows.ShownColumn], row_count: int, whole: Callable[[str], float]) -> dict[str, _Bar]:
    """Return colour and full value of the bars, by column.

    A full bar is 100 %. Without shares, the column that measures the time of a row has bars, on which all rows together
    are a full bar. A table with many shares or with a single row has none.

    Args:
        shown: The columns.
        row_count: Number of rows that are shown.
        whole: Function from the name of a column to the sum of all its rows.
    """
    if row_count < _LEAST_BARRED:
        return {}
    columns = {one.name: one for one in shown}
    shares = [one.name for one in shown if one.kind == "share"]
    weights = [name for name in vocabulary.WEIGHTS if name in columns and columns[name].kind == "ns"][:1]
    if len(shares) > _MOST_BARRED:
        return {}
    most = {name: max([1.0, *(value for value in columns[name].raw if value)]) for name in shares}
    most = most or {name: whole(name) or 1.0 for name in weights}
    return {name: _Bar("idle" if name.startswith("idle") else "compute", full) for name, full in most.items()}


def _cells(column: rows.ShownColumn, bar: _Bar | None, spans: list[Span]) -> list[TableCell]:
    if rows.is_prose(column.name):
        return [TableCell(text, is_text=True, prose=True) for text in column.cells]
    if column.kind == "text":
        brief = shorten_all(column.cells, _NAME_WIDTH)
        whole = zip(brief, column.cells, strict=True)
        return [TableCell(short, "" if short == text else text, is_text=True) for short, text in whole]
    raws = ["" if value is None else str(value).removesuffix(".0") for value in column.raw]
    if column.name == "start_ns" and spans:
        trio = zip(column.cells, raws, spans, strict=True)
        return [
            TableCell(text, raw=raw, span=span if span.end_ns > span.start_ns else None) for text, raw, span in trio
        ]
    if bar is None:
        return [TableCell(text, raw=raw) for text, raw in zip(column.cells, raws, strict=True)]
    widths = (f"{100 * max(value or 0.0, 0.0) / bar.most:.1f}" for value in column.raw)
    return [
        TableCell(text, raw=raw, bar=width, fill=bar.fill)
        for text, raw, width in zip(column.cells, raws, widths, strict=True)
    ]
