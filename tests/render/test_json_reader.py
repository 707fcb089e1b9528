"""A report.json read back: the same report, or a clear error."""

import contextlib
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import hand_made
import numpy as np
import paired_reports as pairs
import pandas as pd
import pytest
from hand_made import section_of, with_tables
from hypothesis import given, settings
from hypothesis import strategies as st
from real_captures import RealReport, every_capture, some

from nsyswrap.base.errors import ExportError
from nsyswrap.base.interval import Interval
from nsyswrap.base.intervals import Window
from nsyswrap.compare.reports import compare_reports
from nsyswrap.model import (
    Capture,
    Fact,
    Finding,
    Gpu,
    Plan,
    PlannedChange,
    Report,
    Section,
    Session,
    Severity,
    StepTimes,
)
from nsyswrap.render import json_report, render
from nsyswrap.render.json_reader import parse_report, read_report
from nsyswrap.render.section_heads import columns_of, known_columns
from nsyswrap.runs.from_report import run_from_report
from nsyswrap.sections.spec import Kind

# The reports in the repository, which docs/ci.md and docs/compare.md invite to compare.
COMMITTED = sorted((Path(__file__).parents[2] / "reports").glob("*/*/report.json"))
REPORTS = [
    hand_made.full_report(),
    hand_made.two_gpu_report(),
    hand_made.no_gpu_report(),
    hand_made.empty_report(),
    hand_made.hostile_report(),
    pairs.report(pairs.lengths(4.0)),
]
Edit = tuple[tuple[str | int, ...], Any]


def written(report: Report) -> dict[str, Any]:
    """Return the content of report.json for a report."""
    found: dict[str, Any] = json.loads(json_report.render(report))
    return found


@cache
def full_text() -> str:
    """Return the report.json of the full report."""
    return json_report.render(hand_made.full_report())


def edited(*edits: Edit) -> str:
    """Return the text of a whole report.json in which the values at some paths are replaced."""
    tree = json.loads(full_text())
    for place, value in edits:
        at: Any = tree
        for key in place[:-1]:
            at = at[key]
        at[place[-1]] = value
    return json.dumps(tree)


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
WHOLE = st.integers(-(1 << 62), 1 << 62)
WINDOWS = st.builds(
    lambda start, length, label: Window(start, start + length, label, "steps"),
    *(st.integers(-(10**12), 10**12), st.integers(1, 10**12), NAMES),
)
INTERVALS = st.tuples(WHOLE, WHOLE, WHOLE).map(sorted).map(lambda values: Interval(*values))
FINDINGS = st.builds(
    Finding,
    saving=st.none() | INTERVALS,
    rule=NAMES,
    severity=st.sampled_from(list(Severity)),
    headline=NAMES,
    lost_ns=WHOLE,
    advice=NAMES,
    evidence=st.lists(NAMES, max_size=2).map(tuple),
    device_id=st.none() | st.integers(0, 7),
    window=WINDOWS,
    saving_method=st.none() | st.sampled_from(["simulated", "estimated"]),
)
NUMBERS = WHOLE | st.floats(allow_nan=False, allow_infinity=False)
FACTS = st.builds(Fact, NAMES, st.none() | NUMBERS, st.just("ns")) | st.builds(
    Fact, NAMES, st.none() | NAMES, st.just("text")
)
UNIQUE_FACTS = st.lists(FACTS, max_size=3, unique_by=lambda fact: fact.label)
FLOATS = st.lists(st.floats(allow_infinity=False), min_size=3, max_size=3)
COLUMN = st.one_of(
    st.lists(WHOLE, min_size=3, max_size=3),
    st.lists(st.none() | WHOLE, min_size=3, max_size=3).map(lambda values: pd.array(values, dtype="Int64")),
    FLOATS.map(lambda values: pd.Series(values, dtype="float64").to_numpy()),
    st.lists(st.none() | NAMES, min_size=3, max_size=3),
    st.lists(st.booleans(), min_size=3, max_size=3),
)
TABLES = st.dictionaries(NAMES, st.dictionaries(NAMES, COLUMN, min_size=1, max_size=3).map(pd.DataFrame), max_size=2)


@st.composite
def sections(draw: st.DrawFn) -> tuple[Section, ...]:
    """Draw sections with unknown keys, which may have any table."""
    keys = draw(st.lists(NAMES.map(lambda name: f"odd {name}"), unique=True, max_size=3))
    return tuple(
        Section(
            key, draw(NAMES), draw(WINDOWS), tuple(draw(UNIQUE_FACTS)),
            draw(TABLES), tuple(draw(st.lists(FINDINGS, max_size=2))), tuple(draw(st.lists(NAMES, max_size=2))),
        )
        for key in keys
    )  # fmt: skip


RANDOM_REPORTS = st.builds(
    Report,
    capture=st.builds(Capture, NAMES, st.integers(0, 1 << 40)),
    session=st.builds(Session, nsys_version=NAMES, duration_ns=WHOLE, command=st.lists(NAMES, max_size=2).map(tuple)),
    gpus=st.lists(st.builds(Gpu, st.integers(0, 7), NAMES, st.none() | st.just((9, 0))), max_size=2).map(tuple),
    window=WINDOWS,
    verdict=NAMES,
    sections=sections(),
    findings=st.lists(FINDINGS, max_size=3).map(tuple),
    notes=st.lists(NAMES, max_size=2).map(tuple),
    verdict_rule=st.none() | NAMES,
    step=st.builds(
        StepTimes,
        st.none() | st.integers(1, 99),
        st.none() | st.integers(0, 1 << 40),
        st.none() | INTERVALS,
        st.none() | st.sampled_from(["second_run", "simulated"]),
        st.none() | st.integers(0, 1 << 40),
    ),
    plan=st.builds(
        Plan,
        st.none() | WHOLE,
        changes=st.lists(st.builds(PlannedChange, NAMES, INTERVALS), max_size=2).map(tuple),
        notes=st.lists(NAMES, max_size=2).map(tuple),
    ),
)


# The fields of a GPU in report.json.
GPU_FIELDS = ("device_id", "name", "compute_capability", "sm_count", "memory_bytes", "rank")


def assert_read_back(report: Report) -> None:
    """Check that a report stays the same when written and read, except for what report.json does not hold."""
    text = json_report.render(report)
    found = parse_report(text, "report.json")
    assert json_report.render(found) == text
    session = replace(report.session, secrets=())
    gpus = tuple(Gpu(**{name: getattr(gpu, name) for name in GPU_FIELDS}) for gpu in report.gpus)
    expected = replace(report, session=session, gpus=gpus, timeline=None, sections=())
    assert replace(found, sections=()) == expected
    for before, after in zip(report.sections, found.sections, strict=True):
        assert replace(after, tables={}, facts=()) == replace(before, tables={}, facts=(), notes=after.notes)
        assert list(after.tables) == [str(name) for name in before.tables]


@given(RANDOM_REPORTS)
def test_any_report_is_read_back_as_it_was(report: Report) -> None:
    """Missing savings, steps and values are read back as missing, whole numbers as whole numbers."""
    assert_read_back(report)


@pytest.mark.parametrize("report", REPORTS)
def test_each_hand_made_report_is_read_back_as_it_was(report: Report) -> None:
    assert_read_back(report)


@every_capture
def test_the_report_of_a_real_capture_is_read_back_as_it_was(name: str, real_report: RealReport) -> None:
    assert_read_back(real_report(name))


@pytest.mark.parametrize("path", some(COMMITTED), ids=lambda path: path.parent.name)
def test_each_committed_report_is_read_and_can_be_compared(path: Path) -> None:
    """The gallery's reports were once converted by hand: their medians had become fractions, and none could be read."""
    found = read_report(path)
    assert compare_reports([found], [found], ("base", "new")).verdict


def test_numbers_of_numpy_are_written_as_numbers() -> None:
    plan = Plan(np.int64(7), changes=(PlannedChange("idle/launch", Interval(*np.array([3, 4, 4]))),))  # type: ignore[arg-type]
    found = parse_report(json_report.render(replace(hand_made.full_report(), plan=plan)), "x")
    assert found.plan == plan


def test_numbers_keep_their_kinds() -> None:
    """Whole numbers are read as int64, shares as floats, texts as texts, and values that were not measured as NaN."""
    found = parse_report(json_report.render(hand_made.full_report()), "x")
    devices = found.section("ledger").tables["devices"]  # type: ignore[union-attr]
    assert set(map(str, devices.dtypes)) == {"int64"}
    steps = found.section("steps").tables["steps"]  # type: ignore[union-attr]
    assert str(steps["warm_up"].dtype) == "bool"


@pytest.mark.parametrize("cut", [0, 1, 100, 5_000, -1, -3])
def test_a_file_that_was_cut_short_is_an_error(cut: int) -> None:
    text = full_text()
    with pytest.raises(ExportError, match=r"report\.json is cut short or not JSON") as caught:
        parse_report(text.rstrip()[:cut], "report.json")
    assert "nsyswrap analyze CAPTURE --format json" in caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        "3",
        '"text"',
        "null",
        '{"schema": 3}',
        '{"schema": "other/1"}',
        '{"schema": "nsyswrap.comparison/1"}',
    ],
)
def test_json_of_another_program_is_an_error(text: str) -> None:
    with pytest.raises(ExportError, match="x is not a report of nsyswrap"):
        parse_report(text, "x")


@pytest.mark.parametrize("version", ["1", "2"])
def test_an_older_version_is_refused_in_one_sentence(version: str) -> None:
    with pytest.raises(ExportError) as caught:
        parse_report(json.dumps({"schema": f"nsyswrap.report/{version}"}), "old.json")
    assert caught.value.message == (
        f"old.json is a report of version '{version}', and this nsyswrap reads version 3: analyze the capture again"
    )
    assert caught.value.hint == "nsyswrap analyze CAPTURE --format json -o report.json"


@pytest.mark.parametrize("version", ["4", "", "2.5", "two", "²"])
def test_another_version_may_need_a_newer_program(version: str) -> None:
    with pytest.raises(ExportError, match="update nsyswrap, or analyze the capture again"):
        parse_report(json.dumps({"schema": f"nsyswrap.report/{version}"}), "x")


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ((("verdict",), 3), "verdict is not a text"),
        ((("window",), None), "window is not an object"),
        ((("window", "end_ns"), 0), "window: empty window: "),
        ((("window", "source"), "moon"), 'window.source is "moon"'),
        ((("window", "start_ns"), True), "window.start_ns is not a whole number"),
        ((("window", "start_ns"), 1 << 70), "start_ns is not a 64-bit number"),
        ((("gpus", 0, "name"), None), "name is not a text"),
        ((("gpus", 0, "compute_capability"), "nine"), "compute_capability is 'nine'"),
        ((("gpus",), [3]), "gpus[0] is not an object"),
        ((("session", "command"), [1]), "session.command[0] is not a text"),
        ((("session", "nsys_version"), 2025), "nsys_version is not a text"),
        ((("findings", 0, "severity"), "fatal"), 'findings[0].severity is "fatal"'),
        ((("findings", 0, "lost_ns"), "much"), "findings[0].lost_ns is not a whole number"),
        ((("sections", "ledger"), []), "sections.ledger is not an object"),
        ((("sections", "ledger", "tables", "devices"), {}), "sections.ledger.tables.devices is not a list of rows"),
        ((("sections", "ledger", "tables", "devices", 0, "idle_ns"), "x"), "column idle_ns of sections.ledger.tables."),
        ((("sections", "ledger", "tables", "devices", 0, "idle_ns"), [1]), "holds [1] in row 1, and must hold whole"),
        ((("sections", "ledger", "tables", "devices", 0, "idle_ns"), 1 << 64), "tables.devices is not a 64-bit number"),
        ((("sections", "idle", "tables", "attribution", 0), {"cause": "x"}), "rows of sections.idle.tables."),
        ((("sections", "idle", "tables", "attribution", 0, "cause"), 3), "attribution holds 3 in row 1, and must hold"),
        ((("findings", 0, "saving_method"), "guessed"), 'saving_method is "guessed"'),
        ((("findings", 0, "saving"), 3), "saving is not an object"),
        ((("findings", 0, "saving", "low_ns"), "x"), "low_ns is not a whole number"),
        ((("step",), 3), "step is not an object"),
        ((("step", "count"), "x"), "count is not a whole number"),
        ((("findings", 0, "saving", "low_ns"), 1 << 62), "saving: not in order: 4611686018427387904, 300500000, 601"),
        ((("plan", 0, "step", "high_ns"), 0), "plan[0].step: not in order: 78000000, 94500000, 0"),
        ((("plan", 0, "step"), None), "plan[0].step is not an object"),
        ((("plan", 0, "source"), "guessed"), 'plan[0].source is "guessed"'),
        ((("step", "alone_source"), "moon"), 'step.alone_source is "moon"'),
        ((("verdict_rule",), 3), "verdict_rule is not a text"),
        ((("sections", "kernels", "tables", "summary"), [{"name": "x"}]), "tables.summary has no column count"),
        ((("sections", "idle", "facts"), {"x": {"value": 1, "unit": "moons"}}), 'facts.x.unit is "moons"'),
        ((("sections", "idle", "facts"), {"x": 1}), "sections.idle.facts.x is not an object"),
        ((("sections", "idle", "facts"), {"x": {"value": "much", "unit": "ns"}}), 'its value is "much" and its unit'),
        ((("sections", "ledger", "tables", "devices", 0, "device_id"), None), "column device_id of sections.ledger"),
        ((("sections", "ledger", "tables", "devices", 0, "device_id"), 0.5), "holds 0.5 in row 1, and must hold whole"),
        ((("sections", "steps", "tables", "steps", 1, "warm_up"), 1), "holds 1 in row 2, and must hold true or false"),
    ],
)  # fmt: skip
def test_a_damaged_field_is_named(edit: Edit, words: str) -> None:
    with pytest.raises(ExportError, match=r"report\.json is damaged: ") as caught:
        parse_report(edited(edit), "report.json")
    assert words in caught.value.message


@pytest.mark.parametrize(
    "key", ["capture", "session", "gpus", "window", "step", "verdict", "verdict_rule", "sections", "findings", "notes"]
)
def test_a_missing_field_is_named(key: str) -> None:
    tree = json.loads(full_text())
    del tree[key]
    with pytest.raises(ExportError, match=f"damaged: {key} is missing"):
        parse_report(json.dumps(tree), "x")


@pytest.mark.parametrize("text", ['{"schema": NaN}', '{"schema": Infinity}', "[" * 100_000])
def test_json_that_only_python_accepts_is_refused(text: str) -> None:
    with pytest.raises(ExportError, match="not JSON"):
        parse_report(text, "x")


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """It is missing, a folder, or not a text."""
    with pytest.raises(ExportError, match=r"cannot read .*No such file"):
        read_report(tmp_path / "none.json")
    with pytest.raises(ExportError, match="cannot read"):
        read_report(tmp_path)
    binary = tmp_path / "report.json"
    binary.write_bytes(b"\xff\xfe\x00SQLite")
    with pytest.raises(ExportError, match="is not text"):
        read_report(binary)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def emptied(report: Report, key: str, table: str) -> Report:
    """Return a report one of whose tables has no rows."""
    return with_tables(report, key, **{table: section_of(report, key).tables[table].iloc[:0]})


@every_capture
def test_each_table_of_a_real_capture_has_the_columns_that_the_reader_knows(name: str, real_report: RealReport) -> None:
    """It keeps them, and what they hold, where it has no rows. A new column is added to ``section_heads``."""
    for section in real_report(name).sections:
        alone = hand_made.report_with(replace(section, findings=()))
        for table, frame in section.tables.items():
            columns = list(map(str, frame.columns))
            assert columns_of(section.key, table), f"{section.key}.{table} is not known"
            others = [one for one in columns if one not in known_columns(section.key, table)]
            assert section.key == "counters" or not others
            found = parse_report(json_report.render(emptied(alone, section.key, table)), "x").sections[0].tables[table]
            assert found.empty
            assert list(found.columns) == [one for one in columns if one in columns_of(section.key, table)]
            for column, kind in columns_of(section.key, table).items():
                assert isinstance(found[column].dtype, np.dtype)
                assert found[column].dtype.kind in KINDS_OF[kind]


KINDS_OF = {Kind.TEXT: "O", Kind.WHOLE: "i", Kind.NUMBER: "f", Kind.FLAG: "b"}
FULL_TABLES = [(each.key, table) for each in hand_made.full_report().sections for table in each.tables]


@pytest.mark.parametrize(("key", "table"), some(FULL_TABLES))
def test_a_report_with_an_empty_table_shows_the_same_as_before(key: str, table: str) -> None:
    """A GPU that is never idle has no gaps, and a loop without slow steps no outliers. There is a page, too."""
    whole = hand_made.full_report()
    report = emptied(replace(whole, session=replace(whole.session, secrets=())), key, table)
    found = parse_report(json_report.render(report), "x")
    assert render("text", found) == render("text", report)
    assert render("html", found)


REAL = (Path(__file__).parents[2] / "reports" / "gallery" / "pipeline-cpu" / "report.json").read_text(encoding="utf-8")
REMOVED = "removed"


def places(tree: object, place: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    keys: list[Any] = (
        list(tree) if isinstance(tree, dict) else list(range(min(len(tree), 2))) if isinstance(tree, list) else []
    )
    inner = [each for key in keys for each in places(tree[key], (*place, key))]  # type: ignore[index]
    return [place, *inner] if place else inner


LIKE = {int: WHOLE | st.sampled_from([0, -1, 1 << 62, -(1 << 63)]), float: NUMBERS, str: st.text(max_size=5)}


@st.composite
def changes(draw: st.DrawFn) -> list[Edit]:
    """Draw new values for some places of a real report: mostly of the same type, since others are refused at once."""
    tree, found = json.loads(REAL), []
    for place in draw(st.lists(st.sampled_from(places(tree)), min_size=1, max_size=3)):
        at = tree
        for key in place:
            at = at[key]
        kinds: tuple[st.SearchStrategy[Any], ...] = (LIKE.get(type(at), st.just([])), st.none(), st.just(REMOVED), JSON)
        found.append((place, draw(kinds[draw(st.sampled_from([0, 0, 0, 0, 1, 2, 3]))])))
    return found


@pytest.mark.slow
@settings(deadline=None)
@given(changes())
def test_a_real_report_that_was_changed_by_hand_is_read_or_refused_in_one_line(changes: list[Edit]) -> None:
    """Whatever was changed in it: it is shown, compared and added to the history, or the field is named."""
    tree = json.loads(REAL)
    with contextlib.suppress(LookupError, TypeError):  # a place may be gone by an earlier change
        for place, value in changes:
            at: Any = tree
            for key in place[:-1]:
                at = at[key]
            if value == REMOVED:
                del at[place[-1]]
            else:
                at[place[-1]] = value
    try:
        found = parse_report(json.dumps(tree), "report.json")
    except ExportError as error:
        refusal = error.message
    else:
        assert render("text", found)
        assert render("html", found)
        assert run_from_report(found).content
        assert compare_reports([found], [parse_report(REAL, "x")], ("a", "b")).verdict
        return
    assert refusal.startswith("report.json is ")
    assert "\n" not in refusal
