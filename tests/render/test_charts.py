"""Charts: bars without gaps or overlaps, steps on a scale from 0, and busy time that is never too high."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.render import charts
from nsyswrap.render.charts import ChartedSteps

HEIGHT = 100


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


def test_steps_are_dots_where_their_parts_are_unknown() -> None:
    chart = charts.step_chart(ChartedSteps(["a", "b"], [50, 100], [False, False]), HEIGHT)
    assert [dot.name for dot in chart.dots] == ["a", "b"]
    assert chart.columns == ()


def test_the_scale_of_steps_starts_at_zero() -> None:
    """A step of half the length has a column of half the height."""
    low, high = charts.step_chart(ChartedSteps(["a", "b"], [50, 100], [False, False]), HEIGHT).dots
    assert HEIGHT - float(high.y) == pytest.approx(2 * (HEIGHT - float(low.y)), abs=0.2)


def test_warm_up_does_not_set_the_scale() -> None:
    chart = charts.step_chart(ChartedSteps(["w", "a"], [10_000, 100], [True, False]), HEIGHT)
    assert chart.top_ns < 200
    assert (chart.above, chart.dots[0].y, chart.dots[0].warm_up) == (1, "0.0", True)


def test_steps_of_warm_up_alone_have_a_scale() -> None:
    assert charts.step_chart(ChartedSteps(["w"], [100], [True]), HEIGHT).top_ns == 114


def test_a_step_is_a_column_of_its_parts_where_they_add_up() -> None:
    chart = charts.step_chart(ChartedSteps(["a"], [100], [False], [[60], [0], [40]]), HEIGHT)
    (column,) = chart.columns
    assert [part.part for part in column.parts] == [0, 2]
    assert sum(float(part.height) for part in column.parts) == pytest.approx(100 / 1.15, abs=0.2)
    assert chart.dots == ()


def test_parts_that_do_not_add_up_are_not_drawn() -> None:
    chart = charts.step_chart(ChartedSteps(["a"], [100], [False], [[60], [30]]), HEIGHT)
    assert chart.columns == ()
    assert len(chart.dots) == 1


def test_a_warm_up_step_is_one_hollow_column_cut_off_at_the_edge() -> None:
    chart = charts.step_chart(ChartedSteps(["w", "a"], [900, 100], [True, False], [[450, 60], [450, 40]]), HEIGHT)
    hollow = chart.columns[0]
    assert hollow.warm_up
    assert [(part.y, part.height) for part in hollow.parts] == [("0.0", "100.0")]


def test_columns_stand_side_by_side() -> None:
    columns = charts.step_chart(ChartedSteps(["a", "b"], [5, 5], [False, False], [[5, 5]]), HEIGHT).columns
    assert float(columns[0].x) + float(columns[0].width) < float(columns[1].x)
    assert float(columns[1].x) + float(columns[1].width) < 100


def test_many_steps_are_dots_even_where_their_parts_are_known() -> None:
    lengths = [10] * 200
    chart = charts.step_chart(ChartedSteps(["s"] * 200, lengths, [False] * 200, [lengths]), HEIGHT)
    assert len(chart.dots) == 200
    assert chart.columns == ()


def test_very_many_steps_are_ranges_that_keep_the_extremes() -> None:
    lengths = [100] * 9_999 + [300]
    chart = charts.step_chart(ChartedSteps(["s"] * 10_000, lengths, [False] * 10_000), HEIGHT)
    assert chart.dots == ()
    assert len(chart.ranges) <= 400
    assert float(chart.ranges[-1].top) == pytest.approx(HEIGHT * (1 - 1 / 1.15), abs=0.2)


def test_the_median_line_is_the_median_of_measured_steps() -> None:
    chart = charts.step_chart(
        ChartedSteps(["w", "a", "b", "c"], [900, 80, 100, 100], [True, False, False, False]), HEIGHT
    )
    assert float(chart.median_y) == pytest.approx(HEIGHT * (1 - 1 / 1.15), abs=0.2)


def test_busy_time_is_drawn_as_high_as_it_is() -> None:
    assert charts.busy_area([0, 10], [10, 20], [0.25, 1.0]) == "M0.0 100V75.0H500.0V0.0H1000.0V100Z"


def test_an_unknown_bin_is_not_drawn_as_work() -> None:
    assert charts.busy_area([0], [10], [None]) == "M0.0 100V100.0H1000.0V100Z"


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
