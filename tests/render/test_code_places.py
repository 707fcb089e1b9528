"""Lines of Python on a page."""

import pytest

from nsyswrap.render.html_writer import with_places

EDITOR = "vscode://file/home/me/{file}:{line}"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("train.py:40", "train.py:40"),
        ("most samples: model/attention.py:7 in forward, 3 of 9", "model/attention.py:7"),
        ("~/site-packages/a-b/c.py:1", "~/site-packages/a-b/c.py:1"),
    ],
)
def test_a_click_copies_a_line(text: str, place: str) -> None:
    shown = with_places(text)
    assert shown.striptags() == text
    assert f'<button type="button" class="place">{place}</button>' in shown


@pytest.mark.parametrize("text", ["train.py", "12:40", "aten::mm", ".py:4", ""])
def test_other_texts_have_no_button(text: str) -> None:
    assert with_places(text, EDITOR) == text


def test_a_link_opens_a_line_where_an_editor_is_set() -> None:
    """Names of files are written as addresses need them."""
    shown = with_places("in a+b.py:3, c.py:4", EDITOR)
    assert 'href="vscode://file/home/me/a%2Bb.py:3"' in shown
    assert 'href="vscode://file/home/me/c.py:4"' in shown
