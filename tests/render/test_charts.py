"""Charts: bars without gaps or overlaps, and busy time that is never too high."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.render import charts


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=8).filter(any))
def test_the_segments_of_a_bar_join_and_fill_it(parts: list[int]) -> None:
    """Each segment starts at the end of the one before, and the last ends at exactly 100."""
    at = Decimal(0)
    for segment in charts.bar(parts):
        assert Decimal(segment.x) == at
        assert Decimal(segment.width) >= 0
        at += Decimal(segment.width)
    assert at == 100


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=8).filter(any))
def test_a_segment_is_as_wide_as_its_share(parts: list[int]) -> None:
    for part, segment in zip(parts, charts.bar(parts), strict=True):
        assert abs(float(segment.width) - 100 * part / sum(parts)) < 0.001


def test_a_bar_of_nothing_has_no_width() -> None:
    assert [segment.width for segment in charts.bar([0, 0])] == ["0", "0"]


def test_busy_time_is_drawn_as_high_as_it_is() -> None:
    assert charts.busy_area([0, 10], [10, 20], [0.25, 1.0]) == "M0.0 100V75.0H500.0V0.0H1000.0V100Z"


def test_many_bins_are_merged_by_their_busy_time() -> None:
    """A short gap between full bins lowers its column instead of vanishing."""
    busy = [1.0] * 1_000
    busy[500] = 0.0
    path = charts.busy_area(range(1_000), range(1, 1_001), busy)
    assert path.count("V") <= 402
    assert "V33.3" in path


def test_no_bins_draw_nothing() -> None:
    assert charts.busy_area([], [], []) == ""


def test_a_part_of_a_bar_says_what_it_has_room_for() -> None:
    """The shortest text may be too long, too; on a phone there is a third of the room."""
    row = charts.LegendRow("idle", "idle", "", "", "", "82.6 %", "0", "80")
    assert row.inside == ("idle 82.6 %", 96, "all")
    assert row._replace(width="15").inside == ("idle 82.6 %", 96, "wide")
    assert row._replace(width="6").inside.text == "idle"
    assert row._replace(width="1").inside == ("", 0, "")
