"""A report.json read back: the same report, and a clear error where it is none."""

import contextlib
import json
from pathlib import Path
from typing import Any

import hand_made
import paired_reports as pairs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.compare import compare_reports
from nsyswrap.errors import ExportError
from nsyswrap.model import Report
from nsyswrap.render import json_report
from nsyswrap.render.json_reader import parse_report, read_report

SAMPLES = sorted((Path(__file__).parents[2] / "reports" / "samples").glob("*/report.json"))
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
    """Return what report.json holds of a report."""
    found: dict[str, Any] = json.loads(json_report.render(report))
    return found


def edited(*edits: Edit) -> str:
    """Return the text of a whole report.json with values replaced by their places."""
    tree = written(hand_made.full_report())
    for place, value in edits:
        at: Any = tree
        for key in place[:-1]:
            at = at[key]
        at[place[-1]] = value
    return json.dumps(tree)


@pytest.mark.parametrize("report", REPORTS)
def test_what_is_read_back_is_written_the_same(report: Report) -> None:
    """Byte for byte: nothing of report.json is lost on the way."""
    text = json_report.render(report)
    assert json_report.render(parse_report(text, "report.json")) == text


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.parent.name)
def test_a_real_report_is_read_back(path: Path) -> None:
    assert json_report.render(read_report(path)) == path.read_text(encoding="utf-8")


def test_numbers_keep_their_kinds() -> None:
    """Whole numbers are int64, shares floats, texts texts, and what was not measured NaN."""
    found = parse_report(json_report.render(hand_made.full_report()), "x")
    devices = found.section("ledger").tables["devices"]  # type: ignore[union-attr]
    assert set(map(str, devices.dtypes)) == {"int64"}
    steps = found.section("steps").tables["steps"]  # type: ignore[union-attr]
    assert str(steps["warm_up"].dtype) == "bool"


@pytest.mark.parametrize("cut", [0, 1, 100, 5_000, -1, -3])
def test_a_file_that_was_cut_short_is_said(cut: int) -> None:
    text = json_report.render(hand_made.full_report())
    with pytest.raises(ExportError, match=r"report\.json is cut short or no JSON") as caught:
        parse_report(text.rstrip()[:cut], "report.json")
    assert "nsyswrap analyze CAPTURE --format json" in caught.value.hint


@pytest.mark.parametrize(
    "text", ["[]", "{}", "3", '"text"', "null", '{"schema": 3}', '{"schema": "other/1"}', '{"a": 1}']
)
def test_json_of_another_program_is_said(text: str) -> None:
    with pytest.raises(ExportError, match="x is no report of nsyswrap"):
        parse_report(text, "x")


@pytest.mark.parametrize("version", ["2", "0", "", "1.5", "two"])
def test_another_version_is_said(version: str) -> None:
    with pytest.raises(ExportError, match="a report of version") as caught:
        parse_report(json.dumps({"schema": f"nsyswrap.report/{version}"}), "x")
    assert "reads version 1" in caught.value.hint


def test_a_comparison_is_no_report() -> None:
    with pytest.raises(ExportError, match="no report of nsyswrap"):
        parse_report('{"schema": "nsyswrap.comparison/1"}', "x")


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ((("verdict",), 3), "verdict is no str"),
        ((("window",), None), "window is no dict"),
        ((("window", "end_ns"), 0), "window is none"),
        ((("window", "source"), "moon"), "window is none"),
        ((("window", "start_ns"), True), "start_ns is no int"),
        ((("window", "start_ns"), 1 << 70), "start_ns is no 64-bit number"),
        ((("gpus", 0, "name"), None), "name is no str"),
        ((("gpus", 0, "compute_capability"), "nine"), "compute_capability is 'nine'"),
        ((("gpus",), [3]), "gpus holds something else than objects"),
        ((("session", "command"), [1]), "command holds something else than texts"),
        ((("session", "nsys_version"), 2025), "nsys_version is no str"),
        ((("findings", 0, "severity"), "fatal"), "severity is 'fatal'"),
        ((("findings", 0, "lost_ns"), "much"), "lost_ns is no int"),
        ((("sections", "ledger"), []), "section ledger: is no object"),
        ((("sections", "ledger", "tables", "devices"), {}), "section ledger: table devices is no list of rows"),
        ((("sections", "ledger", "tables", "devices", 0, "idle_ns"), "x"), "devices holds something else than numbers"),
        ((("sections", "ledger", "tables", "devices", 0, "idle_ns"), [1]), "devices.idle_ns is nested"),
        ((("sections", "ledger", "tables", "devices", 0, "idle_ns"), 1 << 64), "devices.idle_ns is no 64-bit number"),
        ((("sections", "idle", "tables", "causes", 0), {"cause": "x"}), "rows of table causes have different columns"),
        ((("sections", "idle", "tables", "causes", 0, "cause"), 3), "table causes holds both texts and numbers"),
        ((("sections", "kernels", "tables", "summary"), [{"name": "x"}]), "table summary has no column count"),
        ((("sections", "idle", "facts"), {"x": {"value": 1, "unit": "moons"}}), "fact x has no unit"),
        ((("sections", "idle", "facts"), {"x": 1}), "fact x has no unit"),
    ],
)  # fmt: skip
def test_a_damaged_field_is_named(edit: Edit, words: str) -> None:
    with pytest.raises(ExportError, match=r"report\.json is damaged: ") as caught:
        parse_report(edited(edit), "report.json")
    assert words in caught.value.message


@pytest.mark.parametrize("key", ["capture", "session", "gpus", "window", "verdict", "sections", "findings", "notes"])
def test_a_missing_field_is_named(key: str) -> None:
    tree = written(hand_made.full_report())
    del tree[key]
    with pytest.raises(ExportError, match=f"damaged: {key} is missing"):
        parse_report(json.dumps(tree), "x")


@pytest.mark.parametrize("text", ['{"schema": NaN}', '{"schema": Infinity}', "[" * 100_000])
def test_what_only_python_takes_for_json_is_none(text: str) -> None:
    with pytest.raises(ExportError, match="no JSON"):
        parse_report(text, "x")


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    """Missing, a folder, and no text at all."""
    with pytest.raises(ExportError, match=r"cannot read .*No such file"):
        read_report(tmp_path / "none.json")
    with pytest.raises(ExportError, match="cannot read"):
        read_report(tmp_path)
    binary = tmp_path / "report.json"
    binary.write_bytes(b"\xff\xfe\x00SQLite")
    with pytest.raises(ExportError, match="is no text"):
        read_report(binary)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
PLACES = st.sampled_from(
    [
        *(("capture",), ("session",), ("gpus",), ("window",), ("sections",), ("findings",), ("notes",), ("gpus", 0)),
        *(("sections", "steps"), ("sections", "steps", "tables"), ("sections", "steps", "tables", "steps")),
        *(("sections", "steps", "tables", "steps", 0), ("sections", "idle", "facts"), ("findings", 0)),
        *(("session", "traces"), ("window", "label"), ("capture", "bytes"), ("findings", 0, "device_id")),
    ]
)


@given(PLACES, JSON)
def test_whatever_stands_in_a_field_is_read_or_refused(place: tuple[str | int, ...], value: object) -> None:
    """Never another exception than ours; and what is read can be compared."""
    text = edited((place, value))
    with contextlib.suppress(ExportError):
        found = parse_report(text, "x")
        assert compare_reports([found], [found], ("a", "b")).verdict
