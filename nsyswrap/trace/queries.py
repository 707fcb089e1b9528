"""The queries over an export: one function for each, which returns a SQLAlchemy ``Select``.

No query limits or sorts its rows. Totals need all rows, and rows are sorted in memory. Queries
that are the same for each export are made once.
"""

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Integer,
    LargeBinary,
    SelectBase,
    cast,
    column,
    func,
    literal_column,
    select,
    table,
    text,
)

from nsyswrap.trace import schema
from nsyswrap.trace.schema import Source

# The row number that SQLite gives each row of a table.
ROW = literal_column("rowid", Integer)
# To make a query and its text takes longer than to run it on a small table. So many are kept for the next export.
KEPT = 256
# Queries for more texts than this are not kept: it is improbable that they come again.
FEW_IDS = 64


@lru_cache(maxsize=KEPT)
def present_columns(source: Source, present: frozenset[str]) -> dict[str, str]:
    """Return the columns that are read from one table: our name to the export's column or expression."""
    wanted = {**source.required, **source.optional}
    stored = {ours: schema.stored_as(names, present) for ours, names in wanted.items()}
    return {ours: theirs for ours, theirs in stored.items() if theirs is not None}


@lru_cache(maxsize=KEPT)
def rows(source: Source, present: frozenset[str], numbers: range | None = None) -> SelectBase:
    """Return the columns that are read from one table, under our names."""
    columns = [_stored(source, *pair) for pair in present_columns(source, present).items()]
    found = select(*columns).select_from(table(source.table))
    return found if numbers is None else found.where(ROW.between(numbers[0], numbers[-1]))


def _stored(source: Source, ours: str, theirs: str) -> ColumnElement[Any]:
    """Return a column; a text as its bytes.

    The driver takes a column's type from its first rows, and reads a text column that begins with NULLs as numbers.
    """
    if ours in source.texts:
        return func.coalesce(_bytes(column(theirs)), literal_column("x''")).label(ours)
    return _number(theirs).label(ours)


def _bytes(stored: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return a column of texts as their bytes, up to the length at which texts are cut."""
    stored = cast(stored, LargeBinary)
    # SQLite's substr makes NULL of an empty blob.
    return func.coalesce(func.substr(stored, 1, schema.MOST_BYTES_OF_TEXT), stored)


def _number(stored: str) -> ColumnElement[Any]:
    """Return a column of numbers, or the product or sum of several."""
    return column(stored) if stored.isidentifier() else literal_column(stored)


def foreign_values(source: Source, present: frozenset[str]) -> SelectBase:
    """Return, for each column of numbers in the order of ``rows``, how many of its values are not numbers."""
    wanted = present_columns(source, present)
    names = [theirs for ours, theirs in wanted.items() if ours not in source.texts]
    counts = [func.sum(func.typeof(_number(name)).not_in(("integer", "null"))).label(name) for name in names]
    return select(*counts).select_from(table(source.table))


@lru_cache(maxsize=KEPT)
def ranges(source: Source, present: frozenset[str], numbers: range | None = None) -> SelectBase:
    """Return the NVTX ranges: events with a length, of one thread or across threads."""
    found = rows(source, present, numbers).subquery()
    return select(found).where(found.c.kind.in_(schema.RANGE_KINDS))


def counters(
    source: Source, present: frozenset[str], metrics: Iterable[int], numbers: range | None = None
) -> SelectBase:
    """Return only the samples of these metrics: nsys takes about twenty, and few are shown."""
    found = rows(source, present, numbers).subquery()
    return select(found).where(found.c.metric_id.in_(sorted(metrics)))


@cache
def payloads() -> SelectBase:
    """Return time, thread and payload of each NVTX mark that has a payload as JSON."""
    payload = cast(column("jsonText"), LargeBinary).label("payload")
    return (
        select(column("start"), column("globalTid"), payload)
        .select_from(table(schema.NVTX))
        .where(column("eventType") == schema.MARK_KIND, column("jsonText").is_not(None))
    )


@cache
def range_payloads() -> SelectBase:
    """Return start, end, thread, domain, text, text id and payload of each NVTX range that has a payload as JSON."""
    payload = cast(column("jsonText"), LargeBinary).label("payload")
    names = ("start", "end", "globalTid", "domainId", "text", "textId")
    return (
        select(*(column(name) for name in names), payload)
        .select_from(table(schema.NVTX))
        .where(column("eventType").in_(schema.RANGE_KINDS), column("jsonText").is_not(None))
    )


@cache
def domains() -> SelectBase:
    """Return the NVTX domains: thread that created it, number, and its name or the string id of its name."""
    return (
        select(column("globalTid"), column("domainId"), column("text"), column("textId"))
        .select_from(table(schema.NVTX))
        .where(column("eventType") == schema.DOMAIN_KIND)
    )


@cache
def row_count(name: str) -> SelectBase:
    """Return how many rows a table has."""
    return select(func.count()).select_from(table(name))


@cache
def row_numbers(name: str) -> SelectBase:
    """Return the lowest and highest row number of a table. SQLite finds them without reading the rows."""
    ends = (select(end(ROW)).select_from(table(name)).scalar_subquery() for end in (func.min, func.max))
    return select(*ends)


@cache
def pairs(name: str, key: str, value: str) -> SelectBase:
    """Return two columns of a small table, such as ids and their labels."""
    return select(column(key), column(value)).select_from(table(name))


def strings(ids: Iterable[int]) -> SelectBase:
    """Return only the texts of these string ids: the table also holds the environment of the machine."""
    wanted = tuple(ids)
    return (_strings if len(wanted) <= FEW_IDS else _strings.__wrapped__)(wanted)


@lru_cache(maxsize=KEPT)
def _strings(ids: tuple[int, ...]) -> SelectBase:
    found = pairs(schema.STRINGS, "id", "value").subquery()
    return select(found.c.id, _bytes(found.c.value)).where(found.c.id.in_(ids))


@cache
def texts_with_nul() -> SelectBase:
    """Return the texts that hold a NUL: nsys stores the environment of each process as such a text."""
    return select(column("value")).select_from(table(schema.STRINGS)).where(text("instr(cast(value as blob), x'00')"))


@cache
def columns_of(name: str, wanted: tuple[str, ...]) -> SelectBase:
    """Return the named columns of a small table."""
    return select(*(column(each) for each in wanted)).select_from(table(name))


@cache
def table_columns() -> SelectBase:
    """Return the name of each table of the file and of each of its columns."""
    names: tuple[ColumnElement[str], ...] = (
        literal_column("m.name").label("table_name"),
        literal_column("p.name").label("column_name"),
    )
    source = text("sqlite_master m, pragma_table_info(m.name) p")
    return select(*names).select_from(source).where(text("m.type = 'table'"))


@cache
def stored_columns(name: str) -> SelectBase:
    """Return a row for each column of a table in stored order: first page, name, and what makes it unusual.

    The last is not 0 where a row does not store the column as one of its own values: a key, or a computed column.
    """
    found: tuple[ColumnElement[Any], ...] = (
        literal_column("m.rootpage"),
        literal_column("p.name"),
        literal_column("p.pk + p.hidden"),
    )
    source = text("sqlite_master m, pragma_table_xinfo(m.name) p")
    return select(*found).select_from(source).where(text("m.type = 'table'"), literal_column("m.name") == name)
