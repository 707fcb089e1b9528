"""The values of the timeline for the template of the page."""

import hand_made
from packed_arrays import inflated, numbers
from timeline_fixtures import DATA_WAIT, timeline_data

from nsyswrap.render import render, timeline_view


def test_a_report_without_a_timeline_draws_none() -> None:
    page = render("html", hand_made.full_report())
    assert 'id="timeline' not in page
    assert "data-tl=" not in page


def test_the_strips_show_the_busy_share_of_each_gpu() -> None:
    """GPU 0 is busy half of the time, GPU 1 for a fortieth of it."""
    view = timeline_view.view(timeline_data())
    assert [(strip.label, strip.share) for strip in view.strips] == [("GPU 0", "50.0 %"), ("GPU 1", "2.5 %")]
    assert "V50.0" in view.strips[0].picture.shapes[1].attributes["d"]


def test_the_page_says_where_it_is_exact() -> None:
    exact, binned = (timeline_view.view(timeline_data(is_exact=flag)) for flag in (True, False))
    assert exact.notes[0].startswith("Exact everywhere")
    assert "over bins of at most 100 µs" in binned.notes[0]


def test_rows_are_packed_as_they_are() -> None:
    data = timeline_data(is_exact=False)
    head, arrays = inflated(timeline_view.packed(data))
    assert numbers(arrays, head["edges"]) == data.edges.tolist()
    for packed, row in zip(head["rows"], data.rows, strict=True):
        assert numbers(arrays, packed["start"]) == row.items.start.tolist()
        assert numbers(arrays, packed["length"]) == (row.items.end - row.items.start).tolist()
        assert numbers(arrays, packed["code"]) == row.items.code.tolist()
        assert packed["classes"] == list(row.classes)
        for code, sums in packed["sums"].items():
            assert numbers(arrays, sums) == row.sums[int(code)].tolist()


def test_exact_intervals_are_packed_as_their_bounds() -> None:
    head, arrays = inflated(timeline_view.packed(timeline_data(is_exact=False)))
    row = next(row for row in head["rows"] if row["label"] == "GPU 0")
    assert numbers(arrays, row["exact"]) == [0, 10]
    assert set(row["sums"]) == {"0", str(DATA_WAIT)}
