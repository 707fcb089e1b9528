"""The typical steps of both sides on one scale of time."""

from dataclasses import replace

import paired_reports as pairs
from timeline_fixtures import US, timeline_data

from nsyswrap.compare import Comparison, compare_reports
from nsyswrap.model import TimelineData, TimelineItems
from nsyswrap.render.comparison import render, step_pair


def faster(data: TimelineData) -> TimelineData:
    """Return a timeline whose steps take half as long, each from the same start."""
    rows = []
    for row in data.rows:
        items = row.items
        if row.kind == "steps":
            items = TimelineItems(items.start, items.start + (items.end - items.start) // 2, items.code, items.details)
        rows.append(replace(row, items=items))
    return replace(data, rows=tuple(rows))


def comparison(*, with_new: bool = True) -> Comparison:
    """Return a comparison of a loop with one whose steps take half as long."""
    base, new = (replace(pairs.report(pairs.lengths(one)), timeline=timeline_data()) for one in (1.0, 0.5))
    new = replace(new, timeline=faster(timeline_data()) if with_new else None)
    return compare_reports([base], [new], ("before", "after"))


def test_both_steps_begin_at_the_left_edge_on_the_scale_of_the_longer_one() -> None:
    pair = step_pair.step_pair(comparison())
    assert pair is not None
    before, after = pair.steps
    assert (before.side, before.of, after.side, after.of) == ("base", "before", "new", "after")
    assert (before.picture.part, after.picture.part) == ("100", "50")
    assert before.picture.ticks == after.picture.ticks
    assert pair.difference == "500 µs shorter"
    # Columns are as wide in both.
    assert after.picture.columns * 2 == before.picture.columns


def test_the_lanes_of_the_shorter_step_add_up_to_it() -> None:
    pair = step_pair.step_pair(comparison())
    assert pair is not None
    gpu = [lane for lane in pair.steps[1].picture.lanes if lane.key in {"compute", "communication", "copies", "idle"}]
    assert sum(lane.ns for lane in gpu) == 500 * US


def test_the_page_has_both_or_says_which_side_has_none() -> None:
    """The picture is there without a script; a report.json holds no timeline."""
    page = render("html", comparison())
    assert page.count('<svg class="st"') == 2
    assert page.index('class="st-kept">base') < page.index('class="st-kept">new')
    without = render("html", comparison(with_new=False))
    assert '<svg class="st"' not in without
    assert "The typical steps are not drawn: new has no timeline. Give captures" in without
