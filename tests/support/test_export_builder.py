"""The exports that tests build have the layout of real exports."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from export_builder import MAIN, PID, PROCESS, ExportBuilder, global_id, thread
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


def test_ids_hold_machine_process_and_thread() -> None:
    """Source: a real export, in which process 4097 of the machine 1 is 281474993487872."""
    assert global_id(1) == 281474993487872
    assert global_id(1, 1) == 281474993487873
    assert thread(PID) == MAIN
    assert MAIN & ~0xFFFFFF == PROCESS


def test_an_operation_and_its_call_share_an_id() -> None:
    builder = ExportBuilder().kernel(20, 30, launched=(1, 2)).copy(40, 50, launched=(5, 6), thread=thread(9))
    kernel, copy = (builder.rows[f"CUPTI_ACTIVITY_KIND_{kind}"][0]["correlationId"] for kind in ("KERNEL", "MEMCPY"))
    calls = builder.rows["CUPTI_ACTIVITY_KIND_RUNTIME"]
    assert [call["correlationId"] for call in calls] == [kernel, copy]
    assert [call["globalTid"] for call in calls] == [MAIN, thread(9)]


def test_a_launch_of_another_process_comes_from_its_main_thread() -> None:
    builder = ExportBuilder().kernel(20, 30, launched=(1, 2), process=global_id(77))
    assert builder.rows["CUPTI_ACTIVITY_KIND_RUNTIME"][0]["globalTid"] == global_id(77, 77)


def test_a_short_word_is_the_same_as_the_real_column() -> None:
    builder = ExportBuilder().kernel(0, 1, device=3).kernel(0, 1, deviceId=4)
    assert [row["deviceId"] for row in builder.rows["CUPTI_ACTIVITY_KIND_KERNEL"]] == [3, 4]


def test_a_column_that_does_not_exist_is_refused() -> None:
    with pytest.raises(KeyError, match="KERNEL of nsys 2025 has no column devcie"):
        ExportBuilder().kernel(0, 1, devcie=3)


@pytest.mark.parametrize(("table", "first"), FIRST_RELEASE.items())
def test_an_old_release_lacks_the_tables_of_a_new_one(table: str, first: int) -> None:
    with pytest.raises(KeyError, match=f"nsys {2022 if first == 2023 else 2023} writes no {table}"):
        ExportBuilder(2022 if first == 2023 else 2023).row(table)


def test_the_file_holds_what_was_built(tmp_path: Path) -> None:
    path = ExportBuilder().fill(5, 9, stream=13).write(tmp_path / "x.sqlite")
    with closing(sqlite3.connect(path)) as database:
        row = database.execute("select start, end, streamId, memKind from CUPTI_ACTIVITY_KIND_MEMSET").fetchone()
    assert row == (5, 9, 13, 2)


def test_the_same_builder_writes_the_same_bytes(tmp_path: Path) -> None:
    builder = ExportBuilder().kernel(1, 2).kernel(3, 4).kernel(5, 6).shuffled(1)
    assert builder.write(tmp_path / "a").read_bytes() == builder.write(tmp_path / "b").read_bytes()
