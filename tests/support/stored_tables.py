"""Tables in files of SQLite as their pages hold them, and exports that statements change."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from export_builder import ExportBuilder

from nsyswrap.trace.table_pages import Leaves, find_leaves

PAGE_BYTES = 512
ROWS = 3000


def leaves_of(path: Path, rows: list[tuple[object, ...]], first_row: int = 1) -> Leaves | None:
    """Write a table into a file with small pages, and return its leaf pages."""
    names = [f"c{number}" for number in range(len(rows[0]))]
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"pragma page_size = {PAGE_BYTES}")
        db.execute(f"create table t ({', '.join(names)})")
        marks = ", ".join("?" * len(names))
        numbered = ((first_row + number, *row) for number, row in enumerate(rows))
        db.executemany(f"insert into t (rowid, {', '.join(names)}) values (?, {marks})", numbered)  # noqa: S608 - our names
        db.commit()
        ((root,),) = db.execute("select rootpage from sqlite_master")
    return find_leaves(path, root, len(names))


def changed_export(builder: ExportBuilder, folder: Path, statements: Iterable[str]) -> Path:
    """Write an export of ``ROWS`` system calls and as many kernels, and run statements on it."""
    for index in range(ROWS):
        builder.os_call("poll", index, 2 * index)
        builder.kernel(index, 2 * index)
    path = builder.write(folder / "calls.sqlite")
    with closing(sqlite3.connect(path)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()
    return path
