"""The glossary of the documentation is written from the terms of the reports."""

from pathlib import Path

import glossary_page as tool
import pytest


def test_each_group_is_a_table() -> None:
    text = tool.page([("Time", [("step", "One iteration."), ("window", "An interval.")]), ("More", [])])
    assert "\n## Time\n\n| term | meaning |\n|---|---|\n| step | One iteration. |\n| window | An interval. |\n" in text
    assert text.index("## Time") < text.index("## More")


def test_a_page_that_differs_is_reported_and_written_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "glossary.md"
    page.write_text("old")
    assert tool.main(["--check"], page) == 1
    assert "run `make docs`" in capsys.readouterr().err
    assert page.read_text() == "old"
    assert tool.main([], page) == 0
    assert tool.main(["--check"], page) == 0
