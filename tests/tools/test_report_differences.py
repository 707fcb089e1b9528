"""The tool that shows what a change does to the reports of all captures."""

import json
from pathlib import Path

import pytest
import report_differences as tool

CAPTURE = "gallery/decoding"


def reports(folder: Path, lost: int, text: str) -> Path:
    """Write the reports of one capture by hand."""
    place = folder / CAPTURE
    place.mkdir(parents=True)
    (place / "report.json").write_text(json.dumps({"findings": [{"lost_ns": 1}, {"lost_ns": lost}]}))
    (place / "report.txt").write_text(text)
    return folder


def test_equal_reports_have_no_difference(tmp_path: Path) -> None:
    assert tool.compare(reports(tmp_path / "a", 2, "x"), reports(tmp_path / "b", 2, "x")) == 0


def test_a_difference_names_its_place_its_capture_and_both_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows have no numbers, so that a finding that moves all rows of a table is one place."""
    assert tool.compare(reports(tmp_path / "a", 2, "x\ny"), reports(tmp_path / "b", 3, "x\nz")) == 1
    assert capsys.readouterr().out.splitlines() == [
        "/findings[]/lost_ns: 1 in 1 captures",
        f"    {CAPTURE}: 2 -> 3",
        "report.txt: 2 in 1 captures",
        f"    {CAPTURE}: -y",
        f"    {CAPTURE}: +z",
    ]


def test_a_capture_of_one_side_only_differs(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    assert tool.compare(reports(tmp_path / "a", 2, "x"), tmp_path / "b") == 1
