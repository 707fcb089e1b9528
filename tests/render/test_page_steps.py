"""The chart of steps on the page: columns, outliers, and the slowest."""

from collections import defaultdict
from collections.abc import Sequence

import hand_made
import pandas as pd
import pytest
from hand_made import MS, section_of, with_tables

from nsyswrap.model import Report
from nsyswrap.render import page_steps
from nsyswrap.render.document import Table
from nsyswrap.render.drawings import Picture, Shape
from nsyswrap.render.page_steps import ChartedSteps
from nsyswrap.render.table_cells import TableView, table_view

FULL = hand_made.full_report()
HEIGHT = 160
COLOURS = "Colours as in the breakdown."


TABLE = section_of(FULL, "steps").tables["steps"]


def chart_of(report: Report) -> Picture:
    ((picture,),) = (block.pictures for block in page_steps.chart_of(report, section_of(report, "steps")))
    return picture


def slowest_of(report: Report) -> tuple[Table, TableView]:
    """Return the slowest steps of a report, and how a page shows them."""
    (table,) = page_steps.slowest_of(report, section_of(report, "steps"))
    return table, table_view(table)


def shapes(view: Picture, tag: str) -> list[Shape]:
    """Return the shapes of one kind that are not inside another one."""
    return [one for one in view.shapes[0].parts if one.tag == tag]


def looks(view: Picture) -> dict[str, list[Shape]]:
    """Return all shapes by their class."""
    found: dict[str, list[Shape]] = defaultdict(list)
    waiting = list(view.shapes)
    while waiting:
        one = waiting.pop(0)
        found[one.attributes.get("class", "")].append(one)
        waiting += one.parts
    return found


def numbers(drawn: Sequence[Shape], name: str) -> list[float]:
    """Return an attribute of shapes, in per cent or pixels."""
    return [float(one.attributes[name].rstrip("%")) for one in drawn]


def charted(*lengths: int, warm_up: int = 0, parts: Sequence[Sequence[float]] = ()) -> Picture:
    """Return the chart of steps; the first ones are warm-up."""
    names, none = [f"s{at}" for at in range(len(lengths))], [False] * len(lengths)
    warm = [at < warm_up for at in range(len(lengths))]
    return page_steps.chart(ChartedSteps(names, lengths, warm, parts, none, names), "")


def test_steps_have_a_chart_a_median_and_the_slowest() -> None:
    chart, (table, slowest) = chart_of(FULL), slowest_of(FULL)
    assert "; dashed line: median 111 ms; hollow: 2 warm-up; 2 above the upper edge." in chart.caption
    assert chart.alt == "Time of each of 20 steps; 0 outliers"
    assert (table.cut, slowest.rows[0][0].text) == ("10 of 18 steps", "step 5")


def test_slowest_steps_name_their_process_where_there_are_several() -> None:
    """A process has a number, not a count: 4711 has no separator of thousands."""
    other = TABLE.assign(process=4712, start_ns=TABLE["start_ns"] + 1, end_ns=TABLE["end_ns"] + 1)
    both = pd.concat([TABLE.assign(process=4711), other], ignore_index=True)
    one, two = (slowest_of(with_tables(FULL, "steps", steps=table))[1] for table in (TABLE.assign(process=4711), both))
    assert "process" not in [head.label for head in one.heads]
    place = [head.label for head in two.heads].index("process")
    assert {row[place].text for row in two.rows} == {"4711", "4712"}


def test_the_slowest_steps_are_measured_ones() -> None:
    assert {"step 1", "step 2"}.isdisjoint(row[0].text for row in slowest_of(FULL)[1].rows)


def test_the_slowest_steps_lead_to_their_place_in_time() -> None:
    row = slowest_of(FULL)[1].rows[0]
    start, end = (int(TABLE.loc[TABLE["name"] == "step 5", name].iloc[0]) for name in ("start_ns", "end_ns"))
    assert row[1].span == (start, end)
    assert row[1].span is not None
    assert row[1].span.anchor == f"t={start}-{end}"


def test_each_step_leads_to_its_place_in_time() -> None:
    links = shapes(chart_of(FULL), "a")
    assert links[0].attributes["href"] == f"#t=0-{1_900 * MS}"
    assert (links[0].attributes["data-name"], links[0].title) == ("step 1", "step 1: 1.90 s")
    assert len({link.attributes["href"] for link in links}) == 20


def test_outliers_are_marked_in_their_column() -> None:
    """There is one mark, above the third of twenty columns, at the height of its step."""
    outliers = TABLE.iloc[[2]].assign(excess_ns=9 * MS)
    view = chart_of(with_tables(FULL, "steps", outliers=outliers))
    assert "\N{BLACK DOWN-POINTING TRIANGLE} 1 outlier;" in view.caption
    (mark,) = shapes(view, "svg")
    assert mark.parts[0].title.startswith("outlier: step 3, ")
    assert mark.attributes["x"] == "12.5%"
    column = [part for part in shapes(view, "a")[2].parts if part.attributes["class"] != "hit"]
    assert float(mark.attributes["y"]) == pytest.approx(min(numbers(column, "y")), abs=0.1)


def test_steps_of_several_gpus_are_their_mean() -> None:
    both = pd.concat([TABLE.assign(device_id=0), TABLE.assign(device_id=1, compute_ns=0, copy_exposed_ns=0)])
    both.loc[both["device_id"] == 1, "idle_ns"] = (TABLE["end_ns"] - TABLE["start_ns"]).to_numpy()
    report = with_tables(FULL, "steps", steps=both)
    assert len(shapes(chart_of(report), "a")) == 20
    assert chart_of(report).caption.endswith(COLOURS)
    assert "device_id" not in [head.name for head in slowest_of(report)[1].heads]


def test_steps_without_a_ledger_are_dots() -> None:
    view = chart_of(with_tables(FULL, "steps", steps=TABLE.drop(columns="idle_ns")))
    assert (len(shapes(view, "a")), {one.tag for one in looks(view)["p-compute"]}) == (20, {"circle"})
    assert not view.caption.endswith(COLOURS)


def test_steps_that_are_all_warm_up_have_no_slowest() -> None:
    table, _ = slowest_of(with_tables(FULL, "steps", steps=TABLE.head(2)))
    assert (table.row_count, table.cut) == (0, "")


def test_the_scale_of_steps_starts_at_zero() -> None:
    """A step of half the length is a dot at half the height."""
    low, high = numbers(looks(charted(50, 100))["p-compute"], "cy")
    assert HEIGHT - high == pytest.approx(2 * (HEIGHT - low), abs=0.2)


def test_warm_up_does_not_set_the_scale() -> None:
    view = charted(10_000, 100, warm_up=1)
    assert (view.edges[0], numbers(looks(view)["hollow"], "cy")) == ("114 ns", [0.0])
    assert "; 1 above the upper edge" in view.caption
    assert charted(100, warm_up=1).edges[0] == "114 ns"


def test_a_step_is_a_column_of_its_parts_where_they_add_up() -> None:
    drawn = looks(charted(100, parts=[[60], [0], [40]]))
    assert "p-rank_wait" not in drawn
    heights = numbers([*drawn["p-compute"], *drawn["p-communication"]], "height")
    assert heights == pytest.approx([0.6 * HEIGHT / 1.15, 0.4 * HEIGHT / 1.15], abs=0.1)
    assert not charted(100, parts=[[60], [30]]).caption.endswith(COLOURS)


def test_a_warm_up_step_is_one_hollow_column_cut_off_at_the_edge() -> None:
    (hollow,) = looks(charted(900, 100, warm_up=1, parts=[[450, 60], [450, 40]]))["hollow"]
    assert (hollow.tag, hollow.attributes["y"], hollow.attributes["height"]) == ("rect", "0.0", "160.0")


@pytest.mark.parametrize(("count", "tag"), [(120, "rect"), (121, "circle"), (400, "circle"), (401, "line")])
def test_many_steps_are_dots_and_very_many_are_ranges(count: int, tag: str) -> None:
    drawn = looks(charted(*[10] * count, parts=[[10] * count]))
    assert {one.tag for one in (*drawn["p-compute"], *drawn["s-compute"])} == {tag}


def test_ranges_keep_the_extremes() -> None:
    ranges = looks(charted(*[100] * 9_999, 300))["s-compute"]
    assert len(ranges) <= 400
    assert numbers(ranges[-1:], "y1") == pytest.approx([HEIGHT * (1 - 1 / 1.15)], abs=0.2)


def test_the_median_line_is_the_median_of_measured_steps() -> None:
    (line,) = looks(charted(900, 80, 100, 100, warm_up=1))["median"]
    assert numbers([line], "y1") == pytest.approx([HEIGHT * (1 - 1 / 1.15)], abs=0.2)
