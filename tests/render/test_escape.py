"""Names from the profiled program: no character is invisible, no name fills a page, and no name is run."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.render.escape import elide, escape_in_json, shorten, unbroken, visible

anything = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain name", "plain name"),
        ("Größe 大きさ µs", "Größe 大きさ µs"),
        ("a\nb", "a[U+000A]b"),
        ("\x1b[31m", "[U+001B][31m"),
        ("\u202etxt.exe", "[U+202E]txt.exe"),
        ("\u2066a\u2069", "[U+2066]a[U+2069]"),
        ("zero\u200bwidth", "zero[U+200B]width"),
        ("\udce9", "[U+DCE9]"),
        ("\U000e0041", "[U+E0041]"),
        ("no\u00a0break", "no\u00a0break"),
    ],
)
def test_hidden_characters_are_shown_by_number(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(anything)
def test_a_visible_text_has_no_control_character(text: str) -> None:
    assert all(one.isprintable() or one.isspace() for one in visible(text))
    assert not set(visible(text)) & {"\n", "\r", "\t", "\x1b"}


@given(anything, st.integers(5, 50))
def test_an_elided_text_fits(text: str, width: int) -> None:
    assert len(elide(text, width)) <= width


@given(anything, st.integers(5, 50))
def test_a_shortened_name_fits(text: str, width: int) -> None:
    assert len(shorten(text, width)) <= width


def test_a_long_name_loses_what_says_least() -> None:
    """Return type, unnamed namespaces and arguments are removed before any part of the function's own name."""
    name = "void at::native::<unnamed>::softmax<float, float, 4>(T1 *, const T2 *, (int)4, at::Args<float>)"
    assert shorten(name, 50) == "at::native::softmax<float, float, 4>"


def test_parentheses_inside_template_arguments_are_no_argument_list() -> None:
    name = "void multi_tensor_apply_kernel<at::native::TensorListMetadata<(int)2>, std::divides<float>>(T1, T2)"
    assert shorten(name, 90) == "multi_tensor_apply_kernel<at::native::TensorListMetadata<(int)2>, std::divides<float>>"


def test_a_name_of_parentheses_alone_stays_a_name() -> None:
    assert shorten(f"{'(' * 40}{')' * 40}", 20)


def test_no_line_breaks_between_a_number_and_its_unit() -> None:
    """Other spaces stay as they are, also those after numbers."""
    assert unbroken("57.3 % in 58 steps, 2.42 to 2.89 ms") == "57.3\u00a0% in 58 steps, 2.42 to 2.89\u00a0ms"


def test_json_shows_invisible_characters_as_escapes_and_means_the_same() -> None:
    value = {"name": "a\u202eb\u200b\x7f\udce9 Größe"}
    document = escape_in_json(json.dumps(value, ensure_ascii=False))
    assert "\u202e" not in document
    assert "\\u202e" in document
    assert "Größe" in document
    assert json.loads(document) == value


@given(anything)
def test_escaping_json_never_changes_a_value(text: str) -> None:
    assert json.loads(escape_in_json(json.dumps([text], ensure_ascii=False))) == [text]
