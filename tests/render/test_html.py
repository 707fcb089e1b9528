"""The page is one inert file of text, tables and SVG that needs no style sheet."""

import html
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib import resources
from itertools import pairwise

import hand_made
import pandas as pd
import pytest
from made_rank_sections import with_ranks
from page_elements import Page

from nsyswrap.model import Section
from nsyswrap.render import documents, glossary, html_writer, render, report_document, vocabulary
from nsyswrap.render.page_files import digest

REPORTS: dict[str, Callable[[], str]] = {
    "full": lambda: render("html", hand_made.full_report()),
    "two GPUs": lambda: render("html", hand_made.two_gpu_report()),
    "no GPU": lambda: render("html", hand_made.no_gpu_report()),
    "empty": lambda: render("html", hand_made.empty_report()),
    "hostile": lambda: render("html", hand_made.hostile_report()),
    "2 ranks": lambda: render("html", with_ranks(hand_made.full_report(), 2, 1, pictures=2)),
    "1,024 ranks": lambda: render("html", with_ranks(hand_made.full_report(), 1_024, 700)),
    "slim, 64 ranks": lambda: documents.render("report", "slim", with_ranks(hand_made.full_report(), 64, 21)),
    "slim": lambda: documents.render("report", "slim", hand_made.full_report()),
    "slim, two GPUs": lambda: documents.render("report", "slim", hand_made.two_gpu_report()),
    "slim, no GPU": lambda: documents.render("report", "slim", hand_made.no_gpu_report()),
    "slim, empty": lambda: documents.render("report", "slim", hand_made.empty_report()),
    "slim, hostile": lambda: documents.render("report", "slim", hand_made.hostile_report()),
}
SCRIPTS = (*html_writer.SCRIPTS, *report_document.SCRIPTS)
every_page = pytest.mark.parametrize("page", REPORTS, indirect=True)


# Each page is made and parsed once.
text_of = cache(lambda name: REPORTS[name]())
page_of = cache(lambda name: Page(text_of(name)))


@pytest.fixture
def page(request: pytest.FixtureRequest) -> Page:
    """Return the page that a test names."""
    return page_of(request.param)


@every_page
def test_the_only_scripts_are_our_own_and_nothing_has_a_handler(page: Page) -> None:
    is_slim = "This is the short form." in page.text
    assert page.all("script") == [{}] * len(html_writer.SLIM_SCRIPTS if is_slim else SCRIPTS)
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)


@pytest.mark.parametrize("name", [*html_writer.STYLES, *report_document.STYLES, *SCRIPTS])
def test_what_we_put_into_a_page_ends_no_element_of_it(name: str) -> None:
    text = resources.files("nsyswrap.render").joinpath("static", name).read_text(encoding="utf-8")
    assert not re.search(r"</|<!--|]]>", text)


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_makes_markup_of_a_text(name: str) -> None:
    """No script runs a text as code or loads anything, either."""
    text = resources.files("nsyswrap.render").joinpath("static", name).read_text(encoding="utf-8")
    forbidden = r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|Function\(|\bfetch\b|XMLHttp|import\("
    assert not re.search(forbidden, text)


@every_page
def test_nothing_is_loaded(page: Page) -> None:
    """The only addresses are anchors of the page, patterns in it, and an empty icon."""
    addresses = [
        value for _, attributes in page.elements for name, value in attributes.items() if name in ("href", "src")
    ]
    assert all(address == "data:," or address.startswith("#") for address in addresses)
    assert not {"img", "iframe", "object", "embed", "form", "base"} & {tag for tag, _ in page.elements}


def test_a_policy_forbids_everything_but_what_the_page_holds() -> None:
    """The policy names each style sheet and script by the hash of its bytes in the page."""
    (content,) = (
        meta["content"] for meta in page_of("full").all("meta") if meta.get("http-equiv") == "Content-Security-Policy"
    )
    rules = dict(rule.split(" ", 1) for rule in content.split("; "))
    assert rules["default-src"] == "'none'"
    for kind, tag in (("style-src", "style"), ("script-src", "script")):
        texts = re.findall(f"<{tag}>(.*?)</{tag}>", text_of("full"), re.DOTALL)
        assert rules[kind].split() == [digest(text) for text in texts]
        assert not any(re.search(r"url\(|@import", text) for text in texts)


@every_page
def test_no_element_needs_the_style_sheet(page: Page) -> None:
    """Colours of shapes are attributes and style= is not used, so shapes keep them if styles are forbidden."""
    assert not any("style" in attributes for _, attributes in page.elements)
    for tag, attributes in page.elements:
        if tag in Page.shapes:
            assert {"fill", "stroke"} & set(attributes), attributes


@every_page
def test_ids_are_unique_and_anchors_lead_somewhere(page: Page) -> None:
    found = page.ids
    assert len(found) == len(set(found))
    anchors = {link["href"][1:] for link in page.all("a")}
    spans = {anchor for anchor in anchors if re.fullmatch(r"t=\d+-\d+", anchor)}
    labels = {name for _, attributes in page.elements for name in attributes.get("aria-labelledby", "").split()}
    assert (anchors - spans) | labels <= set(found)


@every_page
def test_patterns_that_fill_shapes_exist(page: Page) -> None:
    used = {found for _, attributes in page.elements for found in re.findall(r"url\(#(.*?)\)", str(attributes))}
    assert used <= set(page.ids)


@every_page
def test_tables_have_captions_and_headings_a_scope(page: Page) -> None:
    assert len(page.all("caption")) == len(page.all("table"))
    assert all("scope" in attributes for attributes in page.all("th"))


@every_page
def test_headings_go_down_by_one(page: Page) -> None:
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[:2] == [1, 2]
    assert all(after - before <= 1 for before, after in pairwise(levels))


@every_page
def test_pictures_have_words(page: Page) -> None:
    assert all(svg.get("aria-label") for svg in page.all("svg") if svg.get("role") == "img")


def test_what_was_not_measured_is_said_in_one_place() -> None:
    """A section without numbers is a line with its reason, and keeps its anchor."""
    empty = Section("counters", "GPU counters", hand_made.WINDOW, notes=("They were not sampled.",))
    page = Page(render("html", hand_made.report_with(empty)))
    assert "GPU counters They were not sampled." in page.text
    assert next(one["id"] for one in page.all("div") if "id" in one) == "section-counters"


def test_each_term_of_the_glossary_is_explained() -> None:
    for title, terms in glossary.GLOSSARY:
        assert title in page_of("full").text
        for term in terms:
            assert f"{term.term} {term.meaning}" in page_of("full").text


def test_an_underlined_term_leads_to_its_meaning() -> None:
    links = {link["href"] for link in page_of("full").all("a") if link.get("class") == "term"}
    assert {"#term-busy", "#term-tensor-core-share", "#term-exposed", "#term-time-lost"} <= links


def test_secrets_in_the_capture_are_named_so_that_it_is_not_shared() -> None:
    assert "HF_TOKEN" in page_of("full").text


def test_a_name_is_text_and_nothing_else() -> None:
    page = page_of("hostile")
    assert page.all("img") == []
    assert "<img src=x onerror=alert(1)></script>`|[U+202E][U+001B][31m" in page.text


def test_names_of_other_directions_do_not_turn_their_neighbours() -> None:
    section = hand_made.section_with("odd", names=hand_made.names_table("שלום"))
    assert "<bdi>שלום</bdi>" in render("html", hand_made.report_with(section))


def test_without_a_gpu_the_page_says_so_and_shows_the_rest() -> None:
    page = page_of("no GPU")
    assert vocabulary.NO_GPU in page.text
    assert "ledger, idle and tensor_cores were skipped" in page.text
    assert {"section-phases", "section-steps", "section-os_calls"} <= set(page.ids)
    assert not any(svg.get("class", "").startswith("bar") for svg in page.all("svg"))


def test_beside_a_table_of_ranks_each_gpu_is_folded_and_says_where_its_time_went() -> None:
    report = hand_made.two_gpu_report()
    assert "one-gpu" not in Page(render("html", report)).text
    page = Page(render("html", with_ranks(report, 2, 1)))
    folded = [one for one in page.all("details") if one.get("class") == "one-gpu"]
    assert len(folded) == 2
    assert re.search(r"GPU 0, NVIDIA H200: compute [\d.]+ %, .*; idle mostly by ", page.text)


def test_steps_of_several_gpus_are_drawn_once() -> None:
    report = hand_made.full_report()
    steps = hand_made.section_of(report, "steps").tables["steps"]
    table = pd.concat([steps.assign(device_id=n) for n in (0, 1)])
    assert "Time of each of 20 steps" in render("html", hand_made.with_tables(report, "steps", steps=table))


def test_the_title_is_the_program_that_ran() -> None:
    assert "<title>train.py · nsyswrap</title>" in text_of("full")


@pytest.mark.parametrize(
    ("command", "title"),
    [
        (("torchrun", "-x", "pkg"), "torchrun"),
        (("python", "-m", "known.gpt"), "known.gpt"),
        ((), "capture.sqlite"),
        (("/usr/bin/", "x"), "/usr/bin/"),
    ],
)
def test_without_a_script_the_title_is_the_command_or_the_file(command: tuple[str, ...], title: str) -> None:
    report = hand_made.full_report()
    page = render("html", replace(report, session=replace(report.session, command=command)))
    assert f"<title>{html.escape(title)} · nsyswrap</title>" in page


def test_more_rules_than_shades_are_added_up() -> None:
    names = ["cpu", "launch", "lock", "queued", "data_wait", "not_traced", "unknown"]
    table = pd.DataFrame({"device_id": 0, "cause": names, "phase": "none", "idle_ns": [700 - n for n in range(7)]})
    table = table.assign(rule="idle/" + table["cause"].astype(str), gap_count=1)
    page = Page(render("html", hand_made.with_tables(hand_made.full_report(), "idle", attribution=table)))
    assert "other not traced, unknown cause" in page.text


def test_the_slim_page_has_the_first_part_and_says_what_it_leaves_out() -> None:
    page = page_of("slim")
    for words in ("The training loop waits for its data loader", "if the data loader kept up", "38.6 %", "Try this"):
        assert words in page.text
    others = ("peak", "gaps", "provenance", "glossary")
    sections = len(page_of("full").all("section")) - len(page.all("section")) - len(others)
    left_out = f"The whole report has the timeline, the longest gaps and {sections} more sections"
    assert f"{left_out}: nsyswrap report capture.sqlite" in page.text
    causes = [one for one in page.all("ul") if "by root cause" in one.get("aria-label", "")]
    assert len(causes) == 1
    assert not {"gaps", "idle-attribution"} & {one.get("data-name") for one in page.all("table")}
