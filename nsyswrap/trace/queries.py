# ruff: noqa: S608 - all names in the queries are those of ``schema``, and all values are numbers
"""The queries over an export: one function for each, which returns its SQL.

No query limits or sorts its rows. Totals need all rows, and rows are sorted in memory.
"""

from collections.abc import Iterable

from nsyswrap.trace import schema
from nsyswrap.trace.schema import Source


def present_columns(source: Source, present: frozenset[str]) -> dict[str, str]:
    """Return the columns that are read from one table: our name to the export's column or expression."""
    wanted = {**source.required, **source.optional}
    stored = {ours: schema.stored_as(names, present) for ours, names in wanted.items()}
    return {ours: theirs for ours, theirs in stored.items() if theirs is not None}


def rows(source: Source, present: frozenset[str], numbers: range | None = None) -> str:
    """Return the columns that are read from one table, under our names.

    A text is read as its bytes: the driver takes a column's type from its first rows, and reads a text column that
    begins with NULLs as numbers.
    """
    stored = {
        ours: f"coalesce({_bytes(theirs)}, x'')" if ours in source.texts else _number(theirs)
        for ours, theirs in present_columns(source, present).items()
    }
    columns = ", ".join(f'{theirs} as "{ours}"' for ours, theirs in stored.items())
    some = "" if numbers is None else f" where rowid between {numbers[0]} and {numbers[-1]}"
    return f"select {columns} from {source.table}{some}"


def _bytes(stored: str) -> str:
    """Return a column of texts as their bytes, up to the length at which texts are cut."""
    stored = f'cast("{stored}" as blob)'
    # SQLite's substr makes NULL of an empty blob.
    return f"coalesce(substr({stored}, 1, {schema.MOST_BYTES_OF_TEXT}), {stored})"


def _number(stored: str) -> str:
    """Return a column of numbers, or the product or sum of several."""
    return f'"{stored}"' if stored.isidentifier() else stored


def columns_of_numbers(source: Source, present: frozenset[str]) -> list[str]:
    """Return the columns of numbers that are read from one table, as the export names them."""
    return [theirs for ours, theirs in present_columns(source, present).items() if ours not in source.texts]


def foreign_values(source: Source, present: frozenset[str]) -> str:
    """Return how many values of each of ``columns_of_numbers`` are not numbers."""
    counts = (
        f"sum(typeof({_number(name)}) not in ('integer', 'null'))" for name in columns_of_numbers(source, present)
    )
    return f"select {', '.join(counts)} from {source.table}"


def ranges(source: Source, present: frozenset[str], numbers: range | None = None) -> str:
    """Return the NVTX ranges: events with a length, of one thread or across threads."""
    return f"select * from ({rows(source, present, numbers)}) where kind in {_listed(schema.RANGE_KINDS)}"


def counters(source: Source, present: frozenset[str], metrics: Iterable[int], numbers: range | None = None) -> str:
    """Return only the samples of these metrics: nsys takes about twenty, and few are shown."""
    return f"select * from ({rows(source, present, numbers)}) where metric_id in {_listed(sorted(metrics))}"


def _listed(numbers: Iterable[int]) -> str:
    return f"({', '.join(map(str, numbers))})"


def payloads() -> str:
    """Return time, thread and payload of each NVTX mark that has a payload as JSON."""
    return (
        f"select start, globalTid, cast(jsonText as blob) from {schema.NVTX} "
        f"where eventType = {schema.MARK_KIND} and jsonText is not null"
    )


def range_payloads() -> str:
    """Return start, end, thread, domain, text, text id and payload of each NVTX range that has a payload as JSON."""
    return (
        f'select start, "end", globalTid, domainId, text, textId, cast(jsonText as blob) from {schema.NVTX} '
        f"where eventType in {_listed(schema.RANGE_KINDS)} and jsonText is not null"
    )


def domains() -> str:
    """Return the NVTX domains: thread that created it, number, and its name or the string id of its name."""
    columns = columns_of(schema.NVTX, ("globalTid", "domainId", "text", "textId"))
    return f"{columns} where eventType = {schema.DOMAIN_KIND}"


def row_count(name: str) -> str:
    """Return how many rows a table has."""
    return f"select count(*) from {name}"


def row_numbers(name: str) -> str:
    """Return the lowest and highest row number of a table. SQLite finds them without reading the rows."""
    return f'select (select min(rowid) from "{name}"), (select max(rowid) from "{name}")'


def strings(ids: Iterable[int]) -> str:
    """Return only the texts of these string ids: the table also holds the environment of the machine."""
    return f"select id, {_bytes('value')} from {schema.STRINGS} where id in {_listed(ids)}"


def texts_with_nul() -> str:
    """Return the texts that hold a NUL: nsys stores the environment of each process as such a text."""
    return f"select value from {schema.STRINGS} where instr(cast(value as blob), x'00')"


def columns_of(name: str, wanted: Iterable[str]) -> str:
    """Return the named columns of a small table, such as ids and their labels."""
    return f"select {', '.join(map(_number, wanted))} from {name}"


def table_columns() -> str:
    """Return the name of each table of the file and of each of its columns."""
    return "select m.name, p.name from sqlite_master m, pragma_table_info(m.name) p where m.type = 'table'"


def stored_columns(name: str) -> str:
    """Return a row for each column of a table in stored order: first page, name, and what makes it unusual.

    The last is not 0 where a row does not store the column as one of its own values: a key, or a computed column.
    """
    return (
        "select m.rootpage, p.name, p.pk + p.hidden from sqlite_master m, pragma_table_xinfo(m.name) p "
        f"where m.type = 'table' and m.name = '{name}'"
    )
