"""The part of the page on the typical step."""

import json
from dataclasses import replace

import hand_made
import pytest
from real_captures import RealReport
from timeline_fixtures import US, timeline_data, timeline_report

from nsyswrap.base.intervals import Window
from nsyswrap.render import render, step_view, timeline_view
from nsyswrap.render.escape import as_json


def test_the_typical_step_is_the_middle_one() -> None:
    step = step_view.typical_step(timeline_report())
    assert step is not None
    assert step.span == (2_000 * US, 3_000 * US)
    assert (step.length, step.note) == ("1.00 ms", "the middle of 3 steps in the window, as recorded")
    assert (step.gpu, step.labels) == ("GPU 0", ("GPU 0", "GPU 1"))


def test_a_report_without_timeline_or_measured_steps_has_none() -> None:
    assert step_view.typical_step(hand_made.full_report()) is None
    assert 'id="step' not in render("html", hand_made.full_report())
    beyond = replace(timeline_data(), window=Window(4_500 * US, 5_000 * US, "", "steps"))
    assert step_view.typical_step(replace(timeline_report(), timeline=beyond)) is None
    nothing = replace(timeline_data(), rows=())
    assert step_view.typical_step(replace(timeline_report(), timeline=nothing)) is None


@pytest.mark.parametrize("is_exact", [True, False])
def test_the_timeline_of_the_step_alone_has_its_times(*, is_exact: bool) -> None:
    """Single operations and sums of bins; both GPUs have each nanosecond once."""
    whole = timeline_report(is_exact=is_exact)
    step = step_view.typical_step(whole)
    assert step is not None
    alone, (start, end) = step.alone(), step.span
    assert (alone.edges[0], alone.edges[-1]) == (start, end)
    for row in alone.rows:
        assert row.sums.shape == (len(row.classes), len(alone.edges) - 1)
        assert (row.items.end > start).all()
        assert (row.items.start < end).all()
        if row.kind == "gpu":
            assert row.sums.sum() == end - start


def test_the_findings_of_the_page_and_the_problem_of_the_verdict_have_places() -> None:
    report = timeline_report()
    said = json.loads(step_view.script_data(report))
    found = said["findings"]
    assert said["problem"] in {"", *(one["anchor"] for one in found)}
    page = render("html", report)
    assert all(f'id="{one["anchor"]}"' in page for one in found)


def test_a_name_does_not_end_the_element_of_the_data() -> None:
    assert as_json({"name": hand_made.HOSTILE}).count("<") == 0
    assert hand_made.HOSTILE not in render("html", timeline_report(hostile=hand_made.HOSTILE))


def test_a_gpu_without_streams_has_the_host_of_its_rank() -> None:
    """With many GPUs, streams have no rows. Where the rank is unknown, no other rank's phases are shown."""
    data = timeline_data()
    gpu = next(row for row in data.rows if row.label == "GPU 0")
    host = [row for row in data.rows if row.kind in ("steps", "phases")]
    of_ranks = [replace(row, label=f"rank {rank}, {row.kind}", process=rank) for rank in (3, 4) for row in host]
    without = replace(data, rows=tuple(of_ranks))
    assert timeline_view.process_of(without, replace(gpu, label="rank 4, GPU 0")) == 4
    assert timeline_view.process_of(without, gpu) == -1
    steps = step_view.steps_of(without, gpu)
    assert steps is not None
    assert steps.process == 3


@pytest.mark.slow
def test_the_rank_of_a_step_is_named_once(real_report: RealReport) -> None:
    """Ranks may have different numbers of steps, so the note names the rank; the GPU follows without it."""
    step = step_view.typical_step(real_report("ranks/loader", with_timeline=True))
    assert step is not None
    assert step.note.endswith(" of rank 0, as recorded")
    assert step.gpu == "GPU 0"
    assert step.labels == ("rank 0, GPU 0", "rank 1, GPU 1")
