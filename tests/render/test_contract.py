"""Every form of the report is pure, complete, inert, and fast with many rows."""

import time
from collections.abc import Callable
from dataclasses import replace

import hand_made
import part_of_capture
import pytest

from nsyswrap.base.errors import UsageError
from nsyswrap.model import Report
from nsyswrap.render import FORMS, render
from nsyswrap.sections import SECTIONS

REPORTS: dict[str, Callable[[], Report]] = {
    "full": hand_made.full_report,
    "part": part_of_capture.part_report,
    "two GPUs": hand_made.two_gpu_report,
    "no GPU": hand_made.no_gpu_report,
    "empty": hand_made.empty_report,
    "hostile": hand_made.hostile_report,
}
RAW = ["\x1b", "\u202e", "\x00"]
MOST_SECONDS = 10.0
MOST_BYTES = {"text": 8_000, "html": 310_000, "markdown": 8_000, "csv": 10_000_000, "json": 20_000_000}

every_form = pytest.mark.parametrize("form", FORMS)
every_report = pytest.mark.parametrize("report", [make() for make in REPORTS.values()], ids=REPORTS)


def test_the_full_report_has_every_section_of_a_real_one() -> None:
    """The tests of the forms use it to cover each section, so a new section must be added to it."""
    of_all = {spec.key for spec in SECTIONS if not spec.of_excerpt}
    assert {section.key for section in hand_made.full_report().sections} == of_all
    assert {section.key for section in part_of_capture.part_report().sections} == {spec.key for spec in SECTIONS}


@every_form
def test_each_form_is_a_renderer_of_its_own(form: str) -> None:
    """Each form gives a different text of the same report, so no form has two names."""
    report = hand_made.full_report()
    others = [render(other, report) for other in FORMS if other != form]
    assert render(form, report) not in others
    assert render(form, report) != render(form, hand_made.no_gpu_report())


@every_form
@every_report
def test_the_same_report_gives_the_same_bytes(form: str, report: Report) -> None:
    assert render(form, report) == render(form, report)


@every_form
@pytest.mark.parametrize("character", RAW)
def test_no_control_character_of_a_name_gets_through(form: str, character: str) -> None:
    report = replace(hand_made.hostile_report(), verdict=f"a{character}b")
    assert character not in render(form, report)


@pytest.mark.parametrize("form", ["text", "html", "csv", "markdown"])
def test_hidden_characters_are_shown_by_number(form: str) -> None:
    assert "U+202E" in render(form, hand_made.hostile_report()).replace("&#43;", "+")


@every_form
def test_a_lone_surrogate_does_not_stop_a_report(form: str) -> None:
    """A name that is not UTF-8 is read with surrogates, and the report is still written."""
    report = replace(hand_made.full_report(), verdict="bad \udce9 name", notes=("\udce9",))
    assert render(form, report).encode("utf-8")


@every_form
def test_the_verdict_is_in_every_form_but_tables(form: str) -> None:
    shown = " ".join(render(form, hand_made.full_report()).split())
    assert form == "csv" or "waits for its data loader" in shown


@pytest.mark.parametrize("form", ["text", "html", "markdown"])
def test_the_list_says_once_what_a_saving_includes_and_that_there_are_no_findings(form: str) -> None:
    """The page holds the Markdown of its summary, too."""
    visible = " ".join(render(form, hand_made.full_report()).partition("<template")[0].split())
    assert visible.count("each includes those above") == 1
    assert "No rule found a problem." in render(form, hand_made.no_gpu_report())


@every_form
def test_a_table_nobody_knows_is_rendered(form: str) -> None:
    report = hand_made.report_with(hand_made.section_with("brand_new", things=hand_made.names_table("some_new_thing")))
    if form != "markdown":
        assert "some_new_thing" in render(form, report)


@every_form
def test_a_hundred_thousand_rows_of_gaps_stay_quick_and_small(form: str) -> None:
    report = hand_made.gap_report(100_000)
    begin = time.perf_counter()
    shown = render(form, report)
    assert time.perf_counter() - begin < MOST_SECONDS
    assert len(shown.encode("utf-8")) < MOST_BYTES[form]


def test_a_form_that_does_not_exist_is_an_error_of_the_user() -> None:
    with pytest.raises(UsageError) as raised:
        render("pdf", hand_made.empty_report())
    assert "html" in raised.value.hint
