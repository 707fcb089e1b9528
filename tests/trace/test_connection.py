"""The connection to an export: tables, rows, queries and the checks of values."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from export_builder import ExportBuilder

from nsyswrap.base.errors import ExportError
from nsyswrap.trace import queries, schema
from nsyswrap.trace.connection import connected, opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write an export with a few kernels."""
    builder = ExportBuilder()
    for index in range(5):
        builder.kernel(index, index + 1, f"k{index}")
    return builder.write(tmp_path / "x.sqlite")


def test_tables_and_columns_are_known(path: Path) -> None:
    with opened(path) as export:
        assert export.has(schema.STRINGS, "id", "value")
        assert export.has("CUPTI_ACTIVITY_KIND_KERNEL", "start", "graphNodeId")
        assert not export.has("CUPTI_ACTIVITY_KIND_KERNEL", "stars")
        assert not export.has("NVTX_EVENTS")


def test_a_path_may_hold_bytes_that_are_no_utf8(path: Path, tmp_path: Path) -> None:
    """A path may also hold characters that are special in a URI."""
    odd = path.rename(tmp_path / os.fsdecode(b"caf\xe9 %41?mode=rw#.sqlite"))
    with opened(odd) as export:
        assert export.has(schema.STRINGS, "id")
    assert list(tmp_path.iterdir()) == [odd]


def test_an_error_names_the_table(path: Path) -> None:
    with opened(path) as export, pytest.raises(ExportError, match=r"cannot read table NOWHERE of x\.sqlite"):
        list(export.batches(queries.row_count("NOWHERE"), "NOWHERE"))


def test_texts_are_read_past_a_nul(tmp_path: Path) -> None:
    """Texts do not end at a NUL, so all variables of an environment are read and not only the first."""
    builder = ExportBuilder().environment({"A": "1", "B": "2"})
    with opened(builder.write(tmp_path / "x.sqlite")) as export:
        assert export.rows(queries.texts_with_nul()) == [("A=1\x00B=2",)]


@pytest.mark.parametrize(("value", "whole"), [(5, 5), (None, 0), (-(2**63), -(2**63))])
def test_whole_numbers_pass(path: Path, value: int | None, whole: int) -> None:
    with connected(path, {}) as export:
        assert export.whole(value, "T", "c") == whole


@pytest.mark.parametrize("value", ["5", 5.0, b"5"])
def test_anything_else_does_not(path: Path, value: object) -> None:
    wrong = pytest.raises(ExportError, match=r"x\.sqlite: column c of T holds a value that is not a whole number")
    with connected(path, {}) as export, wrong:
        export.whole(value, "T", "c")


def test_nothing_can_be_written_through_it(path: Path) -> None:
    with opened(path) as export, export.connection.cursor() as cursor, pytest.raises(Exception, match="readonly"):
        cursor.execute("delete from StringIds")


def test_a_connection_ends_with_its_block(path: Path) -> None:
    with connected(path, {}) as export:
        pass
    with pytest.raises(ExportError, match="INVALID_STATE"):
        list(export.batches(queries.row_count("StringIds")))
    with pytest.raises(ExportError, match="closed"):
        export.rows(queries.row_count("StringIds"))


def test_only_the_wanted_texts_are_read(path: Path) -> None:
    """The table also holds the environment of the machine."""
    with opened(path) as export:
        assert sorted(export.rows(queries.strings([1, 3, 99]))) == [(1, "k0"), (3, "k2")]


def test_values_of_the_wrong_type_are_counted_by_column(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("update CUPTI_ACTIVITY_KIND_KERNEL set correlationId = 'x' where start < 2")
    source = next(each for each in schema.SOURCES if each.table == "CUPTI_ACTIVITY_KIND_KERNEL")
    with opened(path) as export:
        present = export.columns[source.table]
        (counts,) = export.rows(queries.foreign_values(source, present))
    found = dict(zip(queries.columns_of_numbers(source, present), counts, strict=True))
    assert {name for name, count in found.items() if count} == {"correlationId"}
    assert found["correlationId"] == 2


@pytest.mark.parametrize("source", schema.SOURCES, ids=lambda source: source.table)
def test_a_source_fills_its_contract(source: schema.Source) -> None:
    """Each column of a table of the trace comes from a column of the export or from a text that it refers to."""
    ours = {*source.required, *source.optional}
    leads_to = {"text_id": "text", "domain_id": "domain", "name_id": "name"}
    leads_to |= {"type_id": "device_id", "metric_id": "counter", "end": "open"}
    filled = ours | {leads_to[name] for name in ours & leads_to.keys()}
    assert set(source.spec.columns) <= filled


def test_columns_that_are_never_null_are_columns() -> None:
    ours = {name for source in schema.SOURCES for name in source.required}
    assert ours >= schema.NEVER_NULL
