"""A report as bytes and back: everything that is shown stays the same, and bytes that are no report are refused."""

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hand_made import no_gpu_report
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal
from real_captures import CAPTURE_NAMES, RealContext, RealReport

from nsyswrap.model import Fact, Report, Section
from nsyswrap.render import RENDERERS, render
from nsyswrap.report import report_of
from nsyswrap.report_cache.encoding import CannotKeepError, decode, encode

WITHOUT_GPU = no_gpu_report()
_SECTION = Section("one", "One", WITHOUT_GPU.window, tables={"first": pd.DataFrame({"a_ns": np.arange(3)})})
EMPTY = replace(WITHOUT_GPU, sections=(_SECTION,))


def again(report: Report, *, with_timeline: bool = True) -> Report:
    """Return a report that was encoded and decoded."""
    return decode(memoryview(encode(report)), with_timeline=with_timeline)


def with_table(report: Report, table: pd.DataFrame) -> Report:
    """Return a report whose first section has one more table."""
    first, *rest = report.sections
    return replace(report, sections=(replace(first, tables={**first.tables, "added": table}), *rest))


@pytest.fixture(scope="module")
def small(real_context: RealContext) -> Report:
    """Return a real report with a timeline."""
    return report_of(real_context("mnist_counters_python"), with_timeline=True)


@pytest.mark.parametrize("name", CAPTURE_NAMES)
def test_every_real_report_stays_the_same(name: str, real_report: RealReport) -> None:
    """All tables with their types, and the JSON and text of all else."""
    report = real_report(name)
    found = again(report)
    assert [section.key for section in found.sections] == [section.key for section in report.sections]
    for mine, theirs in zip(found.sections, report.sections, strict=True):
        assert mine.tables.keys() == theirs.tables.keys()
        for table, frame in theirs.tables.items():
            assert_frame_equal(mine.tables[table], frame)
    for form in ("json", "text"):
        assert render(form, found) == render(form, report)


@pytest.mark.parametrize("form", RENDERERS)
def test_every_form_has_the_same_bytes(form: str, small: Report) -> None:
    """Also the page, with its timeline."""
    assert render(form, again(small)) == render(form, small)


def test_a_report_without_its_timeline_is_the_report_of_analyze(small: Report) -> None:
    assert again(small, with_timeline=False).timeline is None
    assert render("json", again(small, with_timeline=False)) == render("json", replace(small, timeline=None))


TEXTS = st.lists(st.none() | st.text(max_size=5), max_size=5)
COLUMNS = st.one_of(
    st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=5).map(lambda values: np.array(values, np.int64)),
    st.lists(st.floats(), max_size=5).map(lambda values: np.array(values, np.float64)),
    st.lists(st.booleans(), max_size=5).map(lambda values: np.array(values, bool)),
    TEXTS.map(lambda values: pd.Series(values, dtype="str")),
    TEXTS.map(lambda values: pd.Series(values, dtype=object)),
    TEXTS.map(pd.Categorical),
    st.lists(st.none() | st.integers(-9, 9), max_size=5).map(lambda values: pd.array(values, dtype="Int64")),
)


@pytest.mark.slow
@given(COLUMNS)
def test_a_column_of_any_type_stays_the_same(column: object) -> None:
    """Also empty ones, missing values, NaN, infinities, surrogates, and categories of no row."""
    table = pd.DataFrame({"each": column})
    report = with_table(EMPTY, table)
    assert_frame_equal(again(report).sections[0].tables["added"], table, check_exact=True)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.1, -3, "a\ud800", True, None, np.int64(4)])
def test_a_fact_stays_the_same(value: object) -> None:
    section = replace(EMPTY.sections[0], facts=(Fact("one", value, "count"),))  # type: ignore[arg-type]
    found = again(replace(EMPTY, sections=(section,))).sections[0].facts[0].value
    assert repr(found) == repr(value.item() if isinstance(value, np.generic) else value)


def test_what_a_report_never_holds_is_refused() -> None:
    """An object of another type is neither kept nor made into text."""
    with pytest.raises(CannotKeepError, match="Path"):
        encode(with_table(EMPTY, pd.DataFrame({"each": pd.Series([Path("x")], dtype=object)})))
    with pytest.raises(CannotKeepError, match="datetime64"):
        encode(replace(EMPTY, timeline=np.zeros(1, "datetime64[ns]")))  # type: ignore[arg-type]


def written(head: object, data: bytes = b"") -> memoryview:
    """Return bytes with this JSON in front."""
    text = json.dumps(head).encode()
    return memoryview(len(text).to_bytes(8, "little") + text + data)


@pytest.mark.parametrize(
    "head",
    [
        None,
        {"arrays": [], "report": {"$": "Report"}},
        {"arrays": [], "report": {"$": "system", "value": "true"}},
        {"arrays": [], "report": {"$": "Fact", "label": "a", "value": 1, "unit": "ns"}},
        {"arrays": [], "report": {"$": "Severity", "value": "fatal"}},
        {"arrays": [["O", [1], 8]], "report": {"$": "array", "at": 0}},
        {"arrays": [["<i8", [1 << 40], 0]], "report": {"$": "array", "at": 0}},
        {"arrays": [["<i8", [-1], 0]], "report": {"$": "array", "at": 0}},
        {"arrays": [["<i8", [1], 99]], "report": {"$": "array", "at": 0}},
        {"arrays": [], "report": {"$": "array", "at": 0}},
        {"arrays": [], "report": {"$": "frame", "rows": 2, "columns": [["a", {"dtype": "object", "values": ["x"]}]]}},
        {"arrays": [], "report": {"$": "mapping", "value": {"a": {"__reduce__": []}}}},
    ],
)
def test_bytes_that_are_no_report_are_refused(head: object) -> None:
    """Other types, objects in place of numbers, sizes that no memory has, and missing parts."""
    with pytest.raises(CannotKeepError):
        decode(written(head), with_timeline=True)


@given(st.data())
def test_damaged_bytes_end_in_a_report_or_a_refusal(data: st.DataObject) -> None:
    """Nothing else is raised, whatever byte is changed and wherever the file is cut."""
    bytes_ = bytearray(encode(EMPTY))
    place = data.draw(st.integers(0, len(bytes_) - 1))
    bytes_[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(bytes_)))
    with suppress(CannotKeepError):
        decode(memoryview(bytes(bytes_[:cut])), with_timeline=True)
