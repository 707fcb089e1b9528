"""The chart of a program's runs."""

from made_runs import IDENTITY, made_run

from nsyswrap.gate.trends import trend_of_runs
from nsyswrap.render.history_chart import HEIGHT, RunChart, run_chart
from nsyswrap.runs.select import in_series


def chart(times_ms: list[float], commits: int = 4) -> RunChart:
    """Return the chart of runs; every four have a commit."""
    runs = [in_series(made_run(at, ms, f"{at // commits:040x}", at)) for at, ms in enumerate(times_ms)]
    return run_chart(trend_of_runs(IDENTITY, len(runs), runs), {one.row.run_id: "#" for one in runs})


def test_runs_are_in_order_and_a_longer_one_is_higher() -> None:
    found = chart([10.0, 10.4, 10.2])
    assert [float(dot.x) for dot in found.dots] == [16.67, 50, 83.33]
    heights = [float(dot.y) for dot in found.dots]
    assert heights[1] < heights[2] < heights[0]
    assert all(0 < y < HEIGHT for y in heights)


def test_one_very_long_run_is_at_the_edge_and_counted() -> None:
    found = chart([10.0, 10.1, 9.9, 10.0, 50.0, 10.1, 10.0, 9.9])
    assert [dot.is_above for dot in found.dots].index(True) == 4
    assert (found.above, found.dots[4].y) == (1, "0")


def test_equal_runs_have_a_scale_and_lie_inside_it() -> None:
    found = chart([10.0] * 6)
    assert {dot.y for dot in found.dots} == {found.levels[0].y}
    assert 0 < float(found.levels[0].y) < HEIGHT
    assert found.top != found.bottom


def test_commits_and_changes_have_their_places() -> None:
    found = chart([10.0, 10.1, 9.9, 10.0] * 3 + [12.0, 12.1, 11.9, 12.0] * 3)
    assert found.commits == ("16.67", "33.33", "50", "66.67", "83.33")
    assert [(mark.x, mark.number) for mark in found.changes] == [("50", 1)]
    assert [(line.left, line.right) for line in found.levels] == [("0", "50"), ("50", "100")]
