"""Scripts and style sheets of the page lose comments and indentation and nothing else."""

import re
from importlib import resources
from pathlib import Path

import pytest

from nsyswrap.render import html_writer, page_files, report_document, timeline_view
from nsyswrap.render.page_files import static

NAMES = [
    *(*html_writer.STYLES, *html_writer.SCRIPTS, *report_document.STYLES, *report_document.SCRIPTS),
    *(*timeline_view.SCRIPTS, *timeline_view.STYLES),
]


SCRIPTS = [name for name in NAMES if name.endswith(".js")]
STYLES = [name for name in NAMES if name.endswith(".css")]


@pytest.mark.parametrize("name", SCRIPTS)
def test_only_comments_blank_lines_and_indentation_go(name: str) -> None:
    text = resources.files("nsyswrap.render").joinpath("static", name).read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines()]
    kept = [
        line
        for line in lines
        if line and not line.startswith("//") and not (line.startswith("/*") and line.endswith("*/"))
    ]
    assert [line.rstrip() for line in static(name).splitlines()] == kept


@pytest.mark.parametrize("name", STYLES)
def test_a_style_sheet_keeps_all_but_comments_and_spaces(name: str) -> None:
    """Texts in quotes keep their spaces, and so does a selector of a descendant with a colon."""
    text = resources.files("nsyswrap.render").joinpath("static", name).read_text(encoding="utf-8")
    without = re.sub(r"^[ \t]*/\*.*\*/[ \t]*$", "", text, flags=re.MULTILINE)
    assert re.sub(r"\s", "", static(name)) == re.sub(r"\s", "", without)
    assert re.findall(r'"[^"]*"', static(name)) == re.findall(r'"[^"]*"', without)
    assert re.findall(r"[\w)\]] :", static(name)) == re.findall(r"[\w)\]] :", without)
    assert len(static(name)) < 0.95 * len(without)


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_text_of_a_script_spans_lines(name: str) -> None:
    """A template literal that spans lines would lose its indentation."""
    assert all(line.count("`") % 2 == 0 for line in static(name).splitlines())


def test_pages_have_five_sizes_of_type() -> None:
    """In style sheets, drawings and on the canvas; paper has its own. 16 pixels are one rem."""
    folder = Path(page_files.__file__).parent
    sizes = set()
    for file in (*folder.glob("static/*.css"), *folder.glob("static/*.js"), *folder.glob("templates/*.j2")):
        text = file.read_text(encoding="utf-8")
        sizes |= {16 * float(size) for size in re.findall(r"font(?:-size)?: ?(?:\d+ )?([\d.]+)rem", text)}
        sizes |= {float(size) for size in re.findall(r"font-size(?:=\"|\": )(\d+)", text)}
        sizes |= {float(size) for size in re.findall(r"(\d+)px \$\{palette\.font\}", text)}
        assert not re.search(r"font(?:-size)?: ?[\d.]+em", text), file.name
    assert sorted(sizes) == [12, 14, 16, 20, 24]
