# ruff: noqa: INP001, S608 - a part of the benchmarks; its SQL is made of names of tables
"""Repeat the events of an export many times, by writing the pages of its tables.

SQLite inserts about a million rows a second. Here the rows of one repetition become pages once, with eight bytes for
each time and id. For each repetition these numbers move, and the pages are appended to the file. The pages above
them, which lead to the rows, are written last. Source: sqlite.org/fileformat2, 1.6 and 2.1.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

PAGE = 4096
LEAF, INTERIOR = 13, 5
LEAF_HEADER, INTERIOR_HEADER = 8, 12
# A row number takes five bytes of seven bits each, whatever its size.
ROW_BYTES = 5
# A cell of an interior page: the page below, its last row number, and the place of the cell.
CHILDREN = (PAGE - INTERIOR_HEADER) // (4 + ROW_BYTES + 2)
_SIZES = ((1, 1), (2, 2), (3, 3), (4, 4), (5, 6), (6, 8))


@dataclass(slots=True)
class Template:
    """The pages of one repetition of a table.

    Attributes:
        pages: Their bytes, one after another.
        rows: Number of rows.
        last_rows: Row number of the last row of each page, from 1.
        row_at: Where the row number of each row is.
        moving_at: Where each number is that moves.
        moving: The numbers of the first repetition.
        shift: By how much each moves from one repetition to the next.
    """

    pages: npt.NDArray[np.uint8]
    rows: int
    last_rows: Numbers
    row_at: Numbers
    moving_at: Numbers
    moving: Numbers
    shift: Numbers

    def repetition(self, number: int) -> bytes:
        """Return the pages of a repetition, from 0."""
        at = self.moving_at[:, None] + np.arange(8)
        self.pages[at] = (self.moving + number * self.shift).astype(">i8").view(np.uint8).reshape(-1, 8)
        rows = number * self.rows + 1 + np.arange(self.rows)
        self.pages[self.row_at[:, None] + np.arange(ROW_BYTES)] = _varints(rows)
        return self.pages.tobytes()


def _varints(numbers: Numbers) -> npt.NDArray[np.uint8]:
    """Return numbers of ``ROW_BYTES`` bytes, shape (n, ROW_BYTES)."""
    parts = numbers[:, None] >> np.arange(7 * (ROW_BYTES - 1), -1, -7) & 0x7F
    parts[:, :-1] |= 0x80
    return parts.astype(np.uint8)


def _varint(number: int) -> bytes:
    """Return a number in as few bytes as it needs."""
    parts = [number & 0x7F]
    while number := number >> 7:
        parts.append(number & 0x7F | 0x80)
    return bytes(reversed(parts))


def _value(value: object, *, moves: bool) -> tuple[int, bytes]:
    """Return the type and the bytes of a value."""
    if value is None:
        return 0, b""
    if isinstance(value, str):
        text = value.encode()
        return 13 + 2 * len(text), text
    if not isinstance(value, int):
        raise TypeError(f"no number and no text: {value!r}")
    if value in {0, 1} and not moves:
        return 8 + value, b""
    kind, size = (
        (6, 8) if moves else next(each for each in _SIZES if -(1 << 8 * each[1] - 1) <= value < 1 << 8 * each[1] - 1)
    )
    return kind, value.to_bytes(size, "big", signed=True)


@dataclass(slots=True)
class _Pages:
    """Pages that are filled from their ends, cell by cell."""

    done: list[bytearray] = field(default_factory=list)
    cells: list[int] = field(default_factory=list)
    free: int = 0

    def add(self, cell: bytes) -> int:
        """Add a cell, and return where it is, counted from the first page."""
        if not self.done or self.free - len(cell) < LEAF_HEADER + 2 * (self.cells[-1] + 1):
            page = bytearray(PAGE)
            page[0] = LEAF
            self.done.append(page)
            self.cells.append(0)
            self.free = PAGE
        page = self.done[-1]
        self.free -= len(cell)
        page[self.free : self.free + len(cell)] = cell
        place = LEAF_HEADER + 2 * self.cells[-1]
        page[place : place + 2] = self.free.to_bytes(2, "big")
        self.cells[-1] += 1
        page[3:5], page[5:7] = self.cells[-1].to_bytes(2, "big"), self.free.to_bytes(2, "big")
        return (len(self.done) - 1) * PAGE + self.free


def template(rows: Sequence[Sequence[object]], shifts: Sequence[int]) -> Template:
    """Return the pages of one repetition.

    Args:
        rows: The values of each row.
        shifts: By how much each column moves; 0 for one that stays.
    """
    pages = _Pages()
    row_at, moving_at, moving, shift = [], [], [], []
    for row in rows:
        values = [_value(value, moves=bool(by)) for value, by in zip(row, shifts, strict=True)]
        kinds = b"".join(_varint(kind) for kind, _ in values)
        header = bytes([len(kinds) + 1]) + kinds
        body = b"".join(stored for _, stored in values)
        length = _varint(len(header) + len(body))
        at = pages.add(length + bytes(ROW_BYTES) + header + body) + len(length)
        row_at.append(at)
        at += ROW_BYTES + len(header)
        for value, by, (_, stored) in zip(row, shifts, values, strict=True):
            if by and isinstance(value, int):
                moving_at.append(at)
                moving.append(value)
                shift.append(by)
            at += len(stored)
    return Template(
        np.frombuffer(b"".join(pages.done), np.uint8).copy(),
        len(rows),
        np.cumsum(pages.cells),
        *(np.array(each, np.int64) for each in (row_at, moving_at, moving, shift)),
    )


class Tree:
    """The pages of one table in a file: those with its rows, and later those that lead to them."""

    def __init__(self, root: int) -> None:
        self.root = root
        self.pages: list[Numbers] = []
        self.last_rows: list[Numbers] = []
        self._rows = 0

    def append(self, file: BinaryIO, part: Template, number: int) -> None:
        """Append a repetition to the end of the file."""
        first = file.seek(0, 2) // PAGE + 1
        file.write(part.repetition(number))
        self.pages.append(np.arange(first, first + len(part.last_rows)))
        self.last_rows.append(self._rows + part.last_rows)
        self._rows += part.rows

    def finish(self, file: BinaryIO) -> None:
        """Write the pages that lead to the rows, the root at its place."""
        pages, last = np.concatenate(self.pages), np.concatenate(self.last_rows)
        while len(pages) > CHILDREN:
            first = file.seek(0, 2) // PAGE + 1
            groups = list(_groups(pages, last))
            file.writelines(_interior(some, rows) for some, rows in groups)
            pages, last = np.arange(first, first + len(groups)), np.array([rows[-1] for _, rows in groups])
        file.seek((self.root - 1) * PAGE)
        file.write(_interior(pages, last))


def _groups(pages: Numbers, last: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    # Not fewer than two below a page.
    count = -(-len(pages) // CHILDREN)
    yield from zip(np.array_split(pages, count), np.array_split(last, count), strict=True)


def _interior(pages: Numbers, last: Numbers) -> bytes:
    """Return an interior page; the last page below it has no cell."""
    page, at = bytearray(PAGE), PAGE
    for number, (child, row) in enumerate(islice(zip(pages.tolist(), last, strict=True), len(pages) - 1)):
        at -= 4 + ROW_BYTES
        page[at : at + 4 + ROW_BYTES] = child.to_bytes(4, "big") + _varints(np.array([row])).tobytes()
        place = INTERIOR_HEADER + 2 * number
        page[place : place + 2] = at.to_bytes(2, "big")
    page[0], page[3:5], page[5:7] = INTERIOR, (len(pages) - 1).to_bytes(2, "big"), at.to_bytes(2, "big")
    page[8:12] = int(pages[-1]).to_bytes(4, "big")
    return bytes(page)


def repeat(export: Path, tables: Sequence[str], moved: Mapping[str, int], copies: int) -> None:
    """Write the events of an export several times, each time later; its pages must have 4,096 bytes.

    Args:
        export: The file.
        tables: The tables that are repeated; those without rows stay as they are.
        moved: Name of a column -> by how much it moves from one repetition to the next.
        copies: Number of repetitions.
    """
    parts, roots = {}, {}
    with sqlite3.connect(export) as db:
        for table in tables:
            names = [row[1] for row in db.execute(f'pragma table_info("{table}")')]
            rows = db.execute(f'select * from "{table}" order by rowid').fetchall()
            if rows:
                parts[table] = template(rows, [moved.get(name, 0) for name in names])
                db.execute(f'delete from "{table}"')
    with sqlite3.connect(export) as db:
        db.execute("vacuum")
        for table in parts:
            (roots[table],) = db.execute("select rootpage from sqlite_master where name = ?", [table]).fetchone()
    trees = {table: Tree(root) for table, root in roots.items()}
    with export.open("r+b") as file:
        for number in range(copies):
            for table, part in parts.items():
                trees[table].append(file, part, number)
        for tree in trees.values():
            tree.finish(file)
        pages = file.seek(0, 2) // PAGE
        file.seek(28)
        file.write(pages.to_bytes(4, "big"))
