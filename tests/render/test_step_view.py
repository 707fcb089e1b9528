"""The part of the page on the typical step."""

import json
from collections.abc import Callable
from dataclasses import replace

import hand_made
import pytest
from timeline_fixtures import US, timeline_data, timeline_report

from nsyswrap.base.intervals import Window
from nsyswrap.render import render, step_view
from nsyswrap.report import build_report
from nsyswrap.trace.tables import Trace


def test_the_typical_step_is_the_middle_one() -> None:
    view = step_view.view(timeline_report())
    assert view is not None
    assert view.span == (2_000 * US, 3_000 * US)
    assert (view.length, view.note, view.gpu, view.steps) == (
        "1.00 ms",
        "the middle of 3 steps in the window",
        "GPU 0",
        3,
    )
    assert view.gpus == ("GPU 0", "GPU 1")


def test_a_report_without_timeline_or_measured_steps_has_none() -> None:
    assert step_view.view(hand_made.full_report()) is None
    assert 'id="step' not in render("html", hand_made.full_report())
    beyond = replace(timeline_data(), window=Window(4_500 * US, 5_000 * US, "", "steps"))
    assert step_view.view(replace(timeline_report(), timeline=beyond)) is None
    nothing = replace(timeline_data(), rows=())
    assert step_view.view(replace(timeline_report(), timeline=nothing)) is None


def test_findings_have_the_numbers_of_the_page() -> None:
    report = timeline_report()
    found = step_view.findings(report)
    assert [one.number for one in found] == list(range(1, len(found) + 1))
    page = render("html", report)
    assert all(f'id="{one.anchor}"' in page for one in found)
    view = step_view.view(report)
    assert view is not None
    assert [one["anchor"] for one in json.loads(view.data)["findings"]] == [one.anchor for one in found]


def test_names_do_not_end_the_element_of_the_data() -> None:
    view = step_view.view(timeline_report(hostile=hand_made.HOSTILE))
    assert view is not None
    assert "<" not in view.data
    assert hand_made.HOSTILE not in render("html", timeline_report(hostile=hand_made.HOSTILE))


@pytest.mark.slow
def test_the_rank_of_a_step_is_named_once(real_trace: Callable[[str], Trace]) -> None:
    """Ranks may have different numbers of steps, so the note names the rank; the GPU follows without it."""
    view = step_view.view(build_report(real_trace("ranks/loader"), with_timeline=True))
    assert view is not None
    assert view.note.endswith(" of rank 0")
    assert view.gpu == "GPU 0"
    assert view.gpus == ("rank 0, GPU 0", "rank 1, GPU 1")
