"""The picture of a step: its GPU lanes add up to it, its findings lie in it, and it stays small."""

import pytest
from real_captures import RealReport
from timeline_fixtures import US, timeline_data, timeline_report

from nsyswrap.model import Report, TimelineRow
from nsyswrap.render import render
from nsyswrap.render.step_picture import GPU_LANES, Pinned, StepPicture, draw
from nsyswrap.render.step_view import findings
from nsyswrap.timeline.typical_step import by_length

MOST_BYTES = 40_000
KEYS = {kind.key for kind in GPU_LANES}
NAMES = ["cnn_amp", "alexnet_data_parallel_2gpu"]


def gpu_of(report: Report, device_id: int = 0) -> TimelineRow:
    """Return the row of a GPU."""
    assert report.timeline is not None
    return next(row for row in report.timeline.rows if row.kind == "gpu" and row.device_id == device_id)


def pictures(report: Report) -> list[tuple[int, StepPicture]]:
    """Return length and picture of the fastest, the typical and the slowest step on each GPU."""
    data = report.timeline
    assert data is not None
    steps = next(row for row in data.rows if row.kind == "steps").items
    ordered = by_length(steps.start, steps.end, steps.code == 1, data.window)
    found = []
    for at in ordered[[0, (len(ordered) - 1) // 2, -1]].tolist():
        span = int(steps.start[at]), int(steps.end[at])
        drawn = [draw(data, row, span, findings(report), inferred=False) for row in data.rows if row.kind == "gpu"]
        found += [(span[1] - span[0], picture) for picture in drawn]
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_gpu_lanes_add_up_to_the_step(name: str, real_report: RealReport) -> None:
    """So do the times of the list of findings with those of all others. Every mark is inside the picture."""
    report = real_report(name, with_timeline=True)
    for length, picture in pictures(report):
        lanes = [lane for lane in picture.lanes if lane.key in KEYS]
        assert sum(part.ns for lane in lanes for part in lane.parts) <= length
        assert sum(lane.ns for lane in lanes) == length
        assert all(0 <= float(mark.x) <= 100 for lane in picture.lanes for mark in lane.marks)
        assert all(0 <= float(arrow.x1) < float(arrow.x2) <= 100 for arrow in picture.arrows)
        numbers = {mark.number for lane in lanes for mark in lane.marks if mark.number}
        assert numbers <= {str(one.number) for one in picture.findings}
    page = render("html", report)
    first = page.index('<svg class="st"')
    assert page.index("</figure>", first) - first < MOST_BYTES


def test_lanes_say_what_they_hold() -> None:
    """GPU 0 runs in the first half of each 100 us of a step of 1 ms, and waits for data in the second."""
    report = timeline_report()
    assert report.timeline is not None
    picture = draw(report.timeline, gpu_of(report), (1_000 * US, 2_000 * US), (), inferred=True)
    said = [(lane.name, [amount.text for amount in lane.amounts]) for lane in picture.lanes]
    assert said == [
        ("phases, inferred", []),
        ("thread 4711 python3", ["40.0 µs in CUDA calls"]),
        ("compute", ["500 µs · 50.0 %"]),
        ("idle, by account", ["500 µs · 50.0 %"]),
    ]
    assert [mark.text for mark in picture.lanes[0].marks if mark.fits == "wide"] == ["data 500 µs", "forward 500 µs"]
    assert picture.label == "A step of 1.00 ms: compute 500 µs · 50.0 %, idle, by account 500 µs · 50.0 %"
    assert [tick.text for tick in picture.ticks] == ["0", "200 µs", "400 µs", "600 µs", "800 µs"]


def test_a_finding_lies_where_its_time_is() -> None:
    report = timeline_report()
    assert report.timeline is not None
    found = (
        Pinned(1, "idle/data_wait", (), "finding-a", "a"),
        Pinned(2, "idle/data_wait", (1,), "finding-b", "b"),
        Pinned(3, "idle/cpu", (), "finding-c", "c"),
    )
    picture = draw(report.timeline, gpu_of(report), (1_000 * US, 2_000 * US), found, inferred=False)
    assert [(one.number, one.time) for one in picture.findings] == [(1, "500 µs, 50.0 %")]
    assert {mark.number for lane in picture.lanes for mark in lane.marks} == {"", "1"}


def test_arrows_lead_from_launch_to_start() -> None:
    """Each kernel starts 12 us after its launch, at every full 100 us."""
    data = timeline_data()
    gpu = next(row for row in data.rows if row.label == "GPU 0")
    picture = draw(data, gpu, (950 * US, 1_950 * US), (), inferred=False)
    assert [(arrow.x1, arrow.x2) for arrow in picture.arrows] == [
        ("3.80", "5.00"),
        ("13.80", "15.00"),
        ("23.80", "25.00"),
    ]
    assert "starts 12.0 µs after its launch" in picture.arrows[0].title
