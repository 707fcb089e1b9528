"""The contracts of a trace's tables, and the ids of processes and threads."""

import numpy as np
import pandas as pd
import pytest
from export_builder import global_id
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.model import Capture, Session
from nsyswrap.trace import tables
from nsyswrap.trace.tables import SPECS, TableSpec, Trace


def trace(**strings: str) -> Trace:
    """Make a trace of empty tables."""
    return Trace(
        capture=Capture("x.sqlite", 1),
        session=Session(),
        gpus=(),
        frames={spec.name: spec.empty() for spec in SPECS},
        strings={int(key.strip("_")): text for key, text in strings.items()},
        copy_kinds={},
        memory_kinds={},
        absent=frozenset(),
        event_counts={},
    )


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_an_empty_table_keeps_its_contract(spec: TableSpec) -> None:
    empty = spec.empty()
    assert len(empty) == 0
    assert {name: str(dtype) for name, dtype in empty.dtypes.items()} == dict(spec.columns)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_missing_values_belong_to_columns(spec: TableSpec) -> None:
    """The missing value of a text column is a text, and that of a column of numbers a number."""
    for name, value in spec.missing.items():
        assert isinstance(value, str) == (spec.columns[name] == "category" and name not in spec.coded)


def test_ids_that_repeat_are_codes() -> None:
    """Whether a table holds them so or as numbers, as a table made for a test may."""
    ids = [7, 9, 7, 3]
    for values in (pd.Categorical(ids), pd.Categorical(ids, categories=[1, 3, 7, 9]), np.array(ids, np.int64)):
        found = tables.coded(pd.DataFrame({"thread": values}), "thread")
        assert found[:].tolist() == ids
        assert found[np.array([3, 0])].tolist() == [3, 7]
        assert found.equal(7).tolist() == [True, False, True, False]
        assert found.equal(7, slice(1, 3)).tolist() == [False, True]
        assert found.equal(8).tolist() == [False] * 4
        assert found.among(found.ids > 5).tolist() == [True, True, True, False]


def test_a_text_is_found_by_its_id() -> None:
    assert trace(_17="gemm").text(17) == "gemm"


@given(st.integers(0, 0xFFFFFF), st.integers(0, 0xFFFFFF))
def test_an_id_gives_back_its_process_and_thread(pid: int, tid: int) -> None:
    """Process and thread have 24 bits each, and the machine is above. Source: nsys's documentation of globalTid."""
    both = global_id(pid, tid)
    assert (tables.pid(both), tables.tid(both)) == (pid, tid)
    assert tables.process_of(np.array([both])).tolist() == [global_id(pid)]


def test_ids_of_nsys_itself_are_negative() -> None:
    """Diagnostics come from process 0 of machine 0xFE, so ids may be negative and masks must keep working."""
    itself = -144115188075855872
    assert tables.process_of(np.array([itself])).tolist() == [itself]
    assert tables.pid(itself) == tables.tid(itself) == 0


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), max_size=30), st.sampled_from([np.int8, np.int64]))
def test_rows_of_one_group_are_alike_and_no_others(rows: list[tuple[int, int]], dtype: type[np.signedinteger]) -> None:
    columns = [np.array([row[place] for row in rows], dtype) for place in (0, 1)]
    codes, first = tables.groups(columns)
    assert [rows[first[code]] for code in codes] == rows
    assert len(first) == len(set(rows))


def test_groups_of_many_columns_do_not_overflow() -> None:
    """Keys of all columns at once would need 80 bits."""
    rows = np.arange(1000) % 500
    codes, first = tables.groups([rows[::-1], *[rows] * 8])
    assert codes.tolist() == rows.tolist()
    assert first.tolist() == list(range(500))


def test_a_column_of_one_shared_value_tells_no_rows_apart() -> None:
    value = np.array([3, 1, 3, 1, 2])
    shared = np.broadcast_to(np.int64(7), 5)
    for columns in ([shared, value], [value, shared], [shared, value, shared]):
        codes, first = tables.groups(columns)
        assert (codes.tolist(), first.tolist()) == ([0, 1, 0, 1, 2], [0, 1, 4])
    codes, first = tables.groups([shared])
    assert (codes.tolist(), first.tolist()) == ([0] * 5, [0])


@pytest.mark.parametrize(
    ("values", "wanted"), [([], False), ([1], True), ([1, 2, 1], False), ([1, 1], True), ([1, 2], False)]
)
def test_one_value_in_all_rows(values: list[int], *, wanted: bool) -> None:
    assert tables.is_constant(np.array(values, np.int64)) is wanted
    assert tables.is_constant(np.array(values, object)) is wanted
    assert tables.is_constant(np.broadcast_to(np.int64(3), len(values))) is (len(values) > 0)


@given(st.lists(st.sampled_from([7, 8, 9, 11]), max_size=40), st.integers(1, 7))
def test_the_place_of_an_id_is_from_its_first_to_its_last_row(ids: list[int], block: int) -> None:
    """Ids that do not occur have no place, however many rows are looked at at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "BLOCK", block)
        found = tables.coded(
            pd.DataFrame({"thread": pd.Categorical(ids, categories=[7, 8, 9, 10, 11])}), "thread"
        ).places()
    assert found == {each: slice(ids.index(each), len(ids) - ids[::-1].index(each)) for each in set(ids)}
