"""One table of an export as numpy arrays of the contract's types.

A large table is read in parts, by row number, so that several threads can read it at once. Each writes its own rows of
the same arrays. Rows of whole numbers are decoded from the pages of the file; SQLite reads all that is unusual.

Ids that repeat, such as threads and names, are codes while they are read, a byte or two each::

    part 1    ids 7 9 7       codes 0 1 0   of 7, 9
    part 2    ids 8 7 8       codes 0 1 0   of 8, 7
    joined                    codes 0 2 0 1 0 1   of 7, 8, 9
"""

import itertools
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from nsyswrap.base.errors import ExportError
from nsyswrap.base.rows import taken
from nsyswrap.trace import counters, queries, schema, tables
from nsyswrap.trace.connection import AGAIN, Export, connected, text_of, wrong_type
from nsyswrap.trace.schema import Source
from nsyswrap.trace.table_pages import PageColumns, UnknownFormatError, find_leaves, first_rows, fitting

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
# Value of a missing id or time.
UNKNOWN = np.int64(np.iinfo(np.int64).min)
# Large enough that opening a connection costs little, small enough that all threads end at about the same time.
PART_ROWS = 1 << 20
# A table has the code of each id below this, such as those of names.
SMALL_IDS = 1 << 16


class PartCodes:
    """The ids of one part of a table as codes, in the order in which the ids first occur."""

    def __init__(self, length: int) -> None:
        self._codes = np.empty(length, np.int32)
        self._known: dict[int, int] = {}
        # The code of each small id; -1 for none.
        self._dense = np.empty(0, np.int32)

    def write(self, first: int, ids: Array) -> None:
        """Write the ids of some rows."""
        into = self._codes[first : first + len(ids)]
        if len(ids) and ids.min() >= 0 and (most := int(ids.max())) < SMALL_IDS:
            if most >= len(self._dense):
                self._dense = np.append(self._dense, np.full(most + 1, -1, np.int32))
            into[:] = taken(self._dense, ids)
            if (new := into < 0).any():
                unique = pd.unique(ids[new])
                self._dense[unique] = self._numbers(unique)
                into[:] = taken(self._dense, ids)
            return
        codes, unique = pd.factorize(ids)
        into[:] = taken(self._numbers(unique), codes)

    def _numbers(self, unique: Array) -> npt.NDArray[np.int32]:
        return np.array([self._known.setdefault(each, len(self._known)) for each in unique.tolist()], np.int32)

    def finish(self, count: int) -> tuple[Array, Array]:
        """Return the codes of the rows that were written, in as few bytes as they need, and the id of each code."""
        ids = np.array([*self._known], np.int64)
        return self._codes[:count].astype(_codes_of(len(ids))), ids


def joined(parts: Sequence[tuple[Array, Array]]) -> "pd.Categorical[Any]":
    """Return the column of all parts, whose categories are the ids, ascending."""
    ids = np.unique(np.concatenate([np.empty(0, np.int64), *(ids for _, ids in parts)]))
    kind = _codes_of(len(ids))
    codes = [taken(np.searchsorted(ids, of_part).astype(kind), some) for some, of_part in parts]
    whole = np.concatenate([np.empty(0, kind), *codes])
    return pd.Categorical.from_codes(whole, dtype=pd.CategoricalDtype(pd.Index(ids)), validate=False)


def _codes_of(count: int) -> np.dtype[Any]:
    """Return the type that pandas has for some codes."""
    return np.dtype(np.min_scalar_type(-2 - count))


@dataclass(frozen=True, slots=True)
class TablePart:
    """Rows that are read together.

    Attributes:
        at: Index of the first row in the arrays.
        length: Number of rows at most.
        first_row: Number of the first row in the export; None where the part is the whole table.
        pages: Its leaf pages, counted from the first one of the table; empty where they are unknown.
    """

    at: int
    length: int
    first_row: int | None = None
    pages: range = range(0)


@dataclass(frozen=True, slots=True)
class TableReader:
    """Reads one table: make it with ``begin``, ``read`` each part, then ``end``.

    Attributes:
        columns: Arrays with room for all parts, by our names; only columns that the export has.
        coded: The codes of each part by the index of its first row, by the names of the columns that are held as codes.
        pages: Reads the columns from pages of the file; None where SQLite has to.
    """

    export: Export
    source: Source
    parts: tuple[TablePart, ...]
    columns: Arrays
    pages: PageColumns | None = None
    coded: Mapping[str, dict[int, PartCodes]] = field(default_factory=dict)

    @classmethod
    def begin(cls, export: Export, source: Source) -> "TableReader":
        """Allocate the arrays for a table, and cut it into parts where its rows are numbered.

        Raises:
            ExportError: The table is damaged.
        """
        found = cls.in_parts(export, source, PART_ROWS)
        last = found.parts[-1] if found.parts else TablePart(0, 0)
        every = found.empty(0)
        columns = found.empty(last.at + last.length, found.source.spec.coded)
        coded: dict[str, dict[int, PartCodes]] = {name: {} for name in every if name not in columns}
        return replace(found, columns=columns, coded=coded)

    @classmethod
    def in_parts(cls, export: Export, source: Source, part_rows: int) -> "TableReader":
        """Cut a table into parts where its rows are numbered, to read each with ``alone``.

        Raises:
            ExportError: The table is damaged.
        """
        rows = export.row_numbers(source.table)
        if not rows:
            return cls(export, source, (TablePart(0, export.row_count(source.table)),), {})
        pages = _pages(export, source, queries.present_columns(source, export.columns[source.table]))
        in_pages = _parts_of_pages(pages, rows, part_rows) if pages else ()
        if in_pages:
            return cls(export, source, in_pages, {}, pages)
        starts = range(0, len(rows), part_rows)
        parts = (TablePart(at, min(part_rows, len(rows) - at), rows.start + at) for at in starts)
        return cls(export, source, tuple(parts), {})

    def empty(self, length: int, but: Container[str] = ()) -> Arrays:
        """Return an array of a length for each column that the export has, except some columns."""
        names = queries.present_columns(self.source, self.export.columns[self.source.table])
        return {name: np.empty(length, _dtype(self.source, name)) for name in names if name not in but}

    def only(self, names: Container[str]) -> "TableReader":
        """Return a reader of the same parts that reads some columns, by our names; all where it has none of them."""
        source = self.source
        required, optional = (
            {ours: theirs for ours, theirs in columns.items() if ours in names}
            for columns in (source.required, source.optional)
        )
        less = replace(source, required=required or dict(source.required), optional=optional)
        wanted = {*less.required, *less.optional}
        pages = self.pages and replace(
            self.pages, columns={name: column for name, column in self.pages.columns.items() if name in wanted}
        )
        return replace(self, source=less, pages=pages)

    def alone(self, part: TablePart) -> Arrays:
        """Return the columns of one part, in arrays of its own.

        Raises:
            ExportError: The table is damaged, or a column holds a value of the wrong type.
        """
        own = replace(part, at=0)
        reader = replace(self, parts=(own,), columns=self.empty(part.length))
        return reader.end([reader.read(own)])

    def nothing(self) -> Arrays:
        """Return the columns of no rows."""
        return replace(self, parts=(), columns=self.empty(0)).end([])

    def read(self, part: TablePart, *, in_own_thread: bool = True) -> int:
        """Read the rows of one part into the arrays, NULL as the contract's missing value. Texts are not cleaned yet.

        Args:
            part: The rows.
            in_own_thread: Whether other threads read at the same time: this one then needs a connection of its own.

        Returns:
            The number of rows.

        Raises:
            ExportError: The table is damaged, or a column holds a value of the wrong type.
        """
        if self.pages and part.pages:
            try:
                return self._decode(self.pages, part)
            except UnknownFormatError:
                pass  # SQLite reads it, or says what is wrong.
        if not in_own_thread:
            return self._select(self.export, part)
        with connected(self.export.path, self.export.columns) as own:
            return self._select(own, part)

    def _select(self, own: Export, part: TablePart) -> int:
        """Let SQLite read a part."""
        try:
            return self._stream(own, part)
        except ExportError as error:
            raise _column_at_fault(own, self.source) or error from error

    def _decode(self, pages: PageColumns, part: TablePart) -> int:
        rows = 0
        self._begin_codes(part)
        for count, columns in pages.batches(part.pages):
            first, rows = part.at + rows, rows + count
            if rows > part.length:
                raise UnknownFormatError
            for name, values in columns.items():
                none = self.source.spec.missing.get(name)
                fits = fitting(values, _dtype(self.source, name), none if isinstance(none, int) else None)
                self._write(name, part, first, fits)
        return rows

    def _begin_codes(self, part: TablePart) -> None:
        for parts in self.coded.values():
            parts[part.at] = PartCodes(part.length)

    def _write(self, name: str, part: TablePart, first: int, values: Array) -> None:
        """Write some values of a column; ``first`` is the index of the first of them in the arrays."""
        if name in self.coded:
            self.coded[name][part.at].write(first - part.at, values)
        else:
            self.columns[name][first : first + len(values)] = values

    def _stream(self, own: Export, part: TablePart) -> int:
        rows = 0
        self._begin_codes(part)
        for batch in own.batches(self._query(own, part), self.source.table):
            first, rows = part.at + rows, rows + batch.num_rows
            if rows > part.length:
                raise ExportError(
                    f"cannot read table {self.source.table} of {own.path.name}: it has more rows than row numbers",
                    hint=AGAIN,
                )
            for name, values in zip(batch.schema.names, batch.columns, strict=True):
                self._write(name, part, first, _values(values, self.source, name, own.path))
        return rows

    def _query(self, own: Export, part: TablePart) -> str:
        present = own.columns[self.source.table]
        numbers = None if part.first_row is None else range(part.first_row, part.first_row + part.length)
        if self.source.spec is tables.RANGES:
            return queries.ranges(self.source, present, numbers)
        if self.source.spec is tables.COUNTERS:
            metrics = {metric for _, metric in counters.names(own)}
            return queries.counters(self.source, present, metrics, numbers)
        return queries.rows(self.source, present, numbers)

    def end(self, counts: Sequence[int]) -> Arrays:
        """Return the table's columns; those that ``coded`` names are categories of pandas.

        Columns that the export lacks hold the contract's missing value.
        """
        rows = 0
        for part, count in zip(self.parts, counts, strict=True):
            if part.at != rows:
                for values in self.columns.values():
                    values[rows : rows + count] = values[part.at : part.at + count]
            rows += count
        source = self.source
        by_part = [part.at for part in self.parts]
        coded: dict[str, Any] = {
            name: joined([parts[at].finish(count) for at, count in zip(by_part, counts, strict=True)])
            for name, parts in self.coded.items()
        }
        return coded | {
            name: self.columns[name][:rows]
            if name in self.columns
            else np.full(rows, _missing(source, name), _dtype(source, name))
            for name in (*source.required, *source.optional)
            if name not in coded
        }


def _pages(export: Export, source: Source, names: Mapping[str, str]) -> PageColumns | None:
    """Return a reader of the pages of a table; None where SQLite has to read it."""
    # Few samples of counters are shown, and SQLite finds them.
    if source.texts or source.spec is tables.COUNTERS:
        return None
    try:
        stored = export.rows(queries.stored_columns(source.table))
    except ExportError:
        return None
    if not stored or any(unusual for _, _, unusual in stored):
        return None
    leaves = find_leaves(export.path, stored[0][0], len(stored))
    numbers = {name: number for number, (_, name, _) in enumerate(stored)}
    missing = {name: int(_missing(source, name)) for name in names if name not in schema.NEVER_NULL}
    return PageColumns(export.path, leaves, numbers, names, missing) if leaves else None


def _parts_of_pages(pages: PageColumns, rows: range, part_rows: int) -> tuple[TablePart, ...]:
    """Return parts of whole pages; none where the row numbers of the pages and of the table disagree."""
    first = first_rows(pages.leaves, rows)
    if first is None:
        return ()
    wanted = np.arange(rows.start, rows.stop, part_rows)
    cuts = np.unique(np.append(np.searchsorted(first, wanted), len(first) - 1)).tolist()
    return tuple(
        TablePart(int(first[begin]) - rows.start, int(first[end] - first[begin]), int(first[begin]), range(begin, end))
        for begin, end in itertools.pairwise(cuts)
    )


def _column_at_fault(export: Export, source: Source) -> ExportError | None:
    """Return an error that names the column with values of the wrong type; None where there is no such column."""
    present = export.columns[source.table]
    try:
        (counts,) = export.rows(queries.foreign_values(source, present))
    except ExportError:
        return None
    names = queries.columns_of_numbers(source, present)
    return next(
        (wrong_type(export.path, source.table, n) for n, count in zip(names, counts, strict=True) if count), None
    )


@cache
def _dtype(source: Source, name: str) -> str:
    """Return the dtype of a column while it is read: object for texts, that of the numbers for codes."""
    if name in source.texts:
        return "object"
    return source.spec.coded.get(name) or source.spec.columns.get(name, "int64")


def _missing(source: Source, name: str) -> int | str:
    """Return the value that replaces NULL: the contract's, else ``UNKNOWN`` for int64 and 0 for other types."""
    return source.spec.missing.get(name, int(UNKNOWN) if _dtype(source, name) == "int64" else 0)


def cut_text(text: str) -> str:
    """Return a text of the export, cut at twice ``schema.LONGEST_TEXT`` characters.

    It is cut again when it is cleaned. So a secret that crosses the first limit is not in the result.
    """
    return text[: 2 * schema.LONGEST_TEXT]


def texts_of(export: Export) -> dict[int, str]:
    """Return all texts of an export by their ids, cut; they are not cleaned."""
    if not export.has(schema.STRINGS, "id", "value"):
        return {}
    rows = export.rows(queries.columns_of(schema.STRINGS, ("id", "value")))
    return {key: cut_text(str(text)) for key, text in rows if text is not None}


def _values(values: pa.Array, source: Source, name: str, path: Path) -> Array:
    """Return one batch of a column as a numpy array of its type."""
    column = {**source.required, **source.optional}[name]
    if name in source.texts:
        codes = values.dictionary_encode()
        labels = [cut_text(text_of(label)) for label in codes.dictionary.to_pylist()]
        texts: Array = np.array(labels, dtype=object)[codes.indices.to_numpy()]
        return texts
    if values.null_count and name in schema.NEVER_NULL:
        raise ExportError(f"{path.name}: column {column} of {source.table} lacks a value (NULL)", hint=AGAIN)
    dtype = _dtype(source, name)
    kind = pa.int64() if dtype == "bool" else pa.type_for_alias(dtype)
    none = source.spec.missing.get(name)
    try:
        if kind == pa.int32() and isinstance(none, int):
            values = pc.replace_with_mask(values.cast(pa.int64()), pc.equal(values, tables.NO_ID), pa.scalar(none))
        values = values.cast(kind)
    except pa.ArrowException as error:
        raise _does_not_fit(values, path, source.table, column) from error
    if values.null_count:
        values = pc.fill_null(values, pa.scalar(int(_missing(source, name)), kind))
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=dtype)


def _does_not_fit(values: pa.Array, path: Path, table: str, column: str) -> ExportError:
    """Return the error for values that are no whole numbers, or too large ones."""
    if not pa.types.is_integer(values.type):
        return wrong_type(path, table, column)
    limits = pc.min_max(values)
    worst = max((limits[side].as_py() for side in ("min", "max")), key=abs)
    return ExportError(f"{path.name}: column {column} of {table} holds {worst}, which is too large", hint=AGAIN)
