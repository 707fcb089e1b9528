"""Code and pages are written in plain words: tests/data/words.toml lists those that are not used."""

import re
from pathlib import Path

import pytest
from word_rules import Exemption, Hit, files, hits, parts, word_list

WORDS, EXEMPTIONS = word_list()


@pytest.fixture(scope="module")
def found() -> list[Hit]:
    """Return every listed word in the project, allowed or not."""
    return [hit for path in files() for hit in hits(path, WORDS)]


def test_listed_words_are_not_used(found: list[Hit]) -> None:
    """Each line of the message is one use of a listed word, with the word to write instead."""
    wrong = [str(hit) for hit in found if not any(each.covers(hit) for each in EXEMPTIONS)]
    assert not wrong, f"{len(wrong)} uses\n" + "\n".join(wrong)


def test_each_exemption_is_needed(found: list[Hit]) -> None:
    """An exemption that matches no use of a word must be removed from the list."""
    unused = [f"{each.path}: {each.line.pattern}" for each in EXEMPTIONS if not any(each.covers(hit) for hit in found)]
    assert unused == []


def test_there_are_files_to_check() -> None:
    """The files include Python, pages, templates and scripts of the page, but no code of others."""
    checked = files()
    assert {path.suffix for path in checked} >= {".py", ".md", ".j2", ".js", ".css", ".sh"}
    assert Path("README.md") in checked
    assert not [path for path in checked if "vendor" in path.parts]


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("a.py", '"""Return the dearest row."""\n', 1),
        ("a.py", "x = 1\n# It is behind one\n# another.\n", 2),
        ("a.py", "def f():\n    return f'steady {x} steps'\n", 2),
        ("a.py", "steady_steps = 3\n", 1),
        ("a.py", "class C:\n    '''What the\n    table is\n    told.'''\n", 4),
        ("page.md", "A stretch of\ntime.\n", 1),
        ("page.js", "const a = 1; // the dearest\n// first\n", 1),
        ("page.html.j2", "<p>It stands\nin the way.</p>\n", 1),
    ],
)
def test_a_listed_word_is_found(tmp_path: Path, name: str, text: str, line: int) -> None:
    """It is found in comments, texts, names and pages, and over a line break."""
    (tmp_path / name).write_text(text)
    assert [hit.number for hit in hits(Path(name), WORDS, tmp_path)] == [line]


def test_prose_and_names_keep_their_lines() -> None:
    """Prose contains no code, names contain no underscores, and both are as long as the code."""
    code = "def a_b():\n    '''Say it.'''\n    return 'x y'  # why\n"
    prose, names = parts(code)
    assert len(prose) == len(names) == len(code)
    assert [line.split() for line in prose.splitlines()] == [[], ["Say", "it."], ["x", "y", "why"]]
    assert [line.split() for line in names.splitlines()] == [["def", "a", "b"], [], ["return"]]


def test_an_exemption_covers_its_file_and_line_only() -> None:
    exemption = word_list_with("tests/*.py", "allowed here")
    hit = Hit(Path("tests/test_a.py"), 1, "a steady word, allowed here", "steady", "measured")
    assert exemption.covers(hit)
    assert not exemption.covers(Hit(Path("docs/a.md"), 1, hit.line, "steady", "measured"))
    assert not exemption.covers(Hit(hit.path, 1, "another steady line", "steady", "measured"))


def word_list_with(path: str, line: str) -> Exemption:
    """Return an exemption for a glob and a pattern of lines."""
    return Exemption(path, re.compile(line), "a test")
