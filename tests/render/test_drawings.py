"""Differences as bars about the middle."""

from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.render.drawings import difference_bar


def bar(difference: float, most: float) -> tuple[float, float, str]:
    """Return the left edge and the width of a bar, in per cent, and its class."""
    attributes = difference_bar(difference, most).shapes[1].attributes
    return float(attributes["x"].rstrip("%")), float(attributes["width"].rstrip("%")), attributes["class"]


def test_bars_stand_about_the_middle() -> None:
    assert [bar(one, 2.0) for one in (-2.0, 1.0, 0.0)] == [(0, 50, "less"), (50, 25, "more-time"), (50, 0, "more-time")]


@given(st.floats(-1e9, 1e9), st.floats(1, 1e9))
def test_bars_stay_in_their_cell(difference: float, most: float) -> None:
    left, width, look = bar(difference, most)
    assert -0.01 <= left <= left + width <= 100.01
    assert (look == "less") == (difference < 0)
