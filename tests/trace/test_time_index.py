"""Where the rows of a table are: each part knows its times and ids, and impossible rows do not count."""

from pathlib import Path

import numpy as np
import pytest
from export_builder import ExportBuilder

from nsyswrap.trace import row_choice
from nsyswrap.trace.connection import opened
from nsyswrap.trace.load import sources_of
from nsyswrap.trace.row_choice import TableIndex, index_of


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read ten rows at a time."""
    monkeypatch.setattr(row_choice, "PART_ROWS", 10)


def indexed(builder: ExportBuilder, path: Path, name: str) -> tuple[TableIndex, list[list[int]]]:
    """Return the index of a table, and the starts of the rows of each part."""
    with opened(builder.write(path)) as export:
        source = next(each for each in sources_of(export) if each.spec.name == name)
        found = index_of(export, source, lambda _rows: None)
        parts = [columns["start"].tolist() for columns in found.read(np.ones(len(found.rows), bool))]
    return found, parts


def test_a_part_knows_its_times_and_ids(tmp_path: Path) -> None:
    builder = ExportBuilder()
    for at in range(0, 3_000, 100):
        builder.kernel(at + 50, at + 90, launched=(at, at + 5))
    found, parts = indexed(builder, tmp_path / "x.sqlite", "kernels")
    assert [min(part) for part in parts] == found.first_ns.tolist()
    assert [max(part) for part in parts] == found.last_ns.tolist()
    assert [max(part) + 40 for part in parts] == found.end_ns.tolist()
    assert found.rows.tolist() == [len(part) for part in parts]
    assert int(found.rows.sum()) == 30
    at = parts.index(next(part for part in parts if 1_050 in part))
    assert np.flatnonzero(found.touching(1_060, 1_061)).tolist() == [at]
    assert found.with_ids(int(found.low_id[at]), int(found.low_id[at]))[at]
    assert found.rows_before(np.array([-1, 10**9])).tolist() == [0, 30]


def test_rows_without_times_do_not_count(tmp_path: Path) -> None:
    """CUPTI writes start 0 and end 0 where it has no times: such a row would make a part begin with the capture."""
    builder = ExportBuilder()
    for at in range(10):
        builder.kernel(1_000 + at, 1_005 + at, launched=(at, at + 1))
    builder.kernel(0, 0, launched=(20, 21))
    found, _ = indexed(builder, tmp_path / "x.sqlite", "kernels")
    known = found.first_ns <= found.last_ns
    assert found.first_ns[known].tolist() == [1_000]
    assert int(found.rows.sum()) == 11


def test_tables_without_times_have_rows_only(tmp_path: Path) -> None:
    builder = ExportBuilder().thread_name(5, "a").thread_name(6, "b").kernel(0, 1)
    with opened(builder.write(tmp_path / "x.sqlite")) as export:
        source = next(each for each in sources_of(export) if each.spec.name == "threads")
        found = index_of(export, source, lambda _rows: None)
    assert found.rows.tolist() == [2]
    assert not found.touching(-(10**15), 10**15).any()
