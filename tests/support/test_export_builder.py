"""The exports that tests build have the layout of real exports."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from export_builder import ExportBuilder
from export_layouts import ENUMS, FIRST_RELEASE, LAYOUTS, columns_of

Captures = Callable[[str], Path]


def columns_in(path: Path) -> dict[str, list[str]]:
    """Return the columns of each table of a file."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as database:
        names = [name for (name,) in database.execute("select name from sqlite_master where type = 'table'")]
        return {name: [row[1] for row in database.execute(f'pragma table_info("{name}")')] for name in names}


@pytest.mark.parametrize(
    ("name", "release"), [("cnn_amp", 2025), ("cuda_graph_graph_trace", 2025), ("cnn_fp32_nsys2023", 2023)]
)
def test_a_layout_is_that_of_a_real_export(captures: Captures, name: str, release: int) -> None:
    """Every table that both have has the same columns in the same order."""
    real = columns_in(captures(name))
    shared = [table for table in real if table in LAYOUTS]
    assert len(shared) > 10
    assert {table: list(columns_of(table, release)) for table in shared} == {table: real[table] for table in shared}


def test_the_labels_are_those_of_a_real_export(captures: Captures) -> None:
    with closing(sqlite3.connect(f"file:{captures('cnn_amp')}?mode=ro&immutable=1", uri=True)) as database:
        for table, labels in ENUMS.items():
            real = {key: (name, label) for key, name, label in database.execute(f"select * from {table}")}  # noqa: S608
            assert labels.items() <= real.items()


def test_a_column_that_does_not_exist_is_refused() -> None:
    with pytest.raises(KeyError, match="KERNEL of nsys 2025 has no column devcie"):
        ExportBuilder().kernel(0, 1, devcie=3)


@pytest.mark.parametrize(("table", "first"), FIRST_RELEASE.items())
def test_an_old_release_lacks_the_tables_of_a_new_one(table: str, first: int) -> None:
    with pytest.raises(KeyError, match=f"nsys {2022 if first == 2023 else 2023} writes no {table}"):
        ExportBuilder(2022 if first == 2023 else 2023).row(table)
