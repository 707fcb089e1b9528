"""Tables as a page prints them: text for the reader, raw values for the script that sorts and copies."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from nsyswrap.render import glossary, rows, vocabulary
from nsyswrap.render.distinct_names import shorten_all
from nsyswrap.render.document import Column, Form, Span, Table
from nsyswrap.render.drawings import Picture
from nsyswrap.render.escape import visible

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


class TableCell(NamedTuple):
    """One cell.

    Attributes:
        whole: The whole name where the text is cut.
        raw: The value in report.json; empty for texts and for missing values.
        bar: Width of its bar in per cent; empty for none.
        fill: Key of the bar's colour.
        prose: Whether it is a sentence, which may take several lines, and not a name.
        span: The interval that its row is about; None where there is none.
        href: Where it leads; empty for nowhere.
        tag: A word behind it; empty for none.
        more: Lines that a click opens.
        shade: How dark its ground is, from 0 to 5.
        picture: A drawing in its place; None for none.
    """

    text: str
    whole: str = ""
    raw: str = ""
    bar: str = ""
    fill: str = "compute"
    is_text: bool = False
    prose: bool = False
    span: Span | None = None
    href: str = ""
    tag: str = ""
    more: Sequence[str] = ()
    shade: int = 0
    picture: Picture | None = None


class TableView(NamedTuple):
    """A table as it is printed: its columns, its cells, which rows are left out, and the attributes of each row.

    The attribute ``data-depth`` of a row says how many rows it is part of.
    """

    heads: tuple[ColumnHead, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    cut: str
    row_attributes: Sequence[Mapping[str, str]]
    has_row_heads: bool


def table_view(table: Table, form: Form = "html", *, has_terms: bool = True) -> TableView:
    """Return a table of a document as a page prints it."""
    at, shown, depths = table.shown(form), table.columns_of(form), table.depths
    bars, written, heads, columns = _bars(table, shown, len(at)), iter(shown), [], []
    for own in table.columns:
        if own.unit == "picture":
            heads.append(ColumnHead("", own.label, "", is_text=True, term=""))
            columns.append([TableCell("", picture=own.raw[row]) for row in at])
        elif form in own.forms:
            one = next(written)
            label = visible(one.label)
            term = glossary.term_anchor(label.partition(",")[0]) if has_terms else ""
            heads.append(ColumnHead(visible(one.name), label, one.unit, one.kind == "text", term))
            cells = zip(_cells(one, bars.get(one.name) if one.name else None), at, strict=True)
            columns.append([cell._replace(**dict(_beside(own, row))) for cell, row in cells])
    return TableView(
        tuple(heads),
        tuple(zip(*columns, strict=True)),
        table.cut_in(form),
        [_attributes(table, row, depths[row]) for row in at] if table.row_attributes or table.parents else (),
        table.has_row_heads and heads[0].is_text,
    )


def _beside(column: Column, row: int) -> Iterator[tuple[str, Any]]:
    """Yield what a cell has beside its text."""
    if column.links:
        yield "href", column.links[row]
    if column.tags:
        yield "tag", column.tags[row]
    if column.more:
        yield "more", column.more[row]
    if column.shades:
        yield "shade", column.shades[row]
    # An interval of no length has no place.
    if column.spans and column.spans[row].end_ns > column.spans[row].start_ns:
        yield "span", column.spans[row]


def _attributes(table: Table, row: int, depth: int) -> dict[str, str]:
    """Return the attributes of a row, which is inside of so many others."""
    given = table.row_attributes[row] if table.row_attributes else {}
    own = {"data-depth": str(depth)} if table.parents else {}
    return {**{name: visible(value) for name, value in given.items()}, **own}


class _Bar(NamedTuple):
    fill: str
    most: float


def _bars(table: Table, shown: Sequence[rows.ShownColumn], row_count: int) -> dict[str, _Bar]:
    """Return colour and full value of the bars, by column.

    A full bar is 100 %. Without shares, the column that measures the time of a row has bars, on which all rows together
    are a full bar. A table with many shares or with a single row has none.
    """
    if row_count < _LEAST_BARRED:
        return {}
    columns, whole = {one.name: one for one in shown}, {one.name: one.raw for one in table.columns}
    shares = [one.name for one in shown if one.kind == "share"]
    weights = [name for name in vocabulary.WEIGHTS if name in columns and columns[name].kind == "ns"][:1]
    if len(shares) > _MOST_BARRED:
        return {}
    most = {name: max([1.0, *(value for value in columns[name].raw if value)]) for name in shares}
    most = most or {name: float(sum(value or 0 for value in whole[name])) or 1.0 for name in weights}
    return {name: _Bar("idle" if name.startswith("idle") else "compute", full) for name, full in most.items()}


def _cells(column: rows.ShownColumn, bar: _Bar | None) -> list[TableCell]:
    if rows.is_prose(column.name):
        return [TableCell(text, is_text=True, prose=True) for text in column.cells]
    if column.kind == "text":
        brief = shorten_all(column.cells, _NAME_WIDTH)
        whole = zip(brief, column.cells, strict=True)
        return [TableCell(short, "" if short == text else text, is_text=True) for short, text in whole]
    raws = ["" if value is None else str(value).removesuffix(".0") for value in column.raw]
    if bar is None:
        return [TableCell(text, raw=raw) for text, raw in zip(column.cells, raws, strict=True)]
    widths = (f"{100 * max(value or 0.0, 0.0) / bar.most:.1f}" for value in column.raw)
    return [
        TableCell(text, raw=raw, bar=width, fill=bar.fill)
        for text, raw, width in zip(column.cells, raws, widths, strict=True)
    ]
