"""Scripts and style sheets of the page lose comments and indentation and nothing else."""

from importlib import resources

import pytest

from nsyswrap.render import html_report, timeline_view
from nsyswrap.render.page_files import static

NAMES = [*html_report.STYLES, *html_report.SCRIPTS, *timeline_view.SCRIPTS, *timeline_view.STYLES]


@pytest.mark.parametrize("name", NAMES)
def test_only_comments_blank_lines_and_indentation_go(name: str) -> None:
    text = resources.files("nsyswrap.render").joinpath("static", name).read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines()]
    kept = [
        line
        for line in lines
        if line and not line.startswith("//") and not (line.startswith("/*") and line.endswith("*/"))
    ]
    assert [line.rstrip() for line in static(name).splitlines()] == kept


@pytest.mark.parametrize("name", NAMES)
def test_no_text_of_a_script_spans_lines(name: str) -> None:
    """A template literal that spans lines would lose its indentation."""
    assert all(line.count("`") % 2 == 0 for line in static(name).splitlines())
