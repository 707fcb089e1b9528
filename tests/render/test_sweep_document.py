"""Each form of a sweep is pure, complete and inert, also with hostile names, failed cells and nothing measured."""

import json
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hand_made import HOSTILE
from made_sweeps import failed_run, gpus_sweep, keys_of, made_run, spec_of, workers_sweep

from nsyswrap.base.errors import UsageError
from nsyswrap.render import documents
from nsyswrap.render.escape import unbroken
from nsyswrap.render.sweep_document import verdict
from nsyswrap.sweep.document import sweep_from_tree
from nsyswrap.sweep.results import Sweep, sweep_of

FORMS = documents.KINDS["sweep"]


def render(form: str, sweep: Sweep) -> str:
    """Return the sweep in one form."""
    return documents.render("sweep", form, sweep)


def hostile() -> Sweep:
    """Return a sweep in which each text that a user or a program can choose is hostile."""
    quoted = json.dumps(HOSTILE)
    text = f"name = {quoted}\ncommand = ['a', '{{x}}']\n[axes]\nx = [{quoted}, 'b', 'c']\n"
    one, other, _ = keys_of(text)
    run = replace(made_run(one, 10, loader_ms=4), verdict=HOSTILE, rule=HOSTILE, machine={"GPU": HOSTILE})
    return sweep_of(spec_of(text), 1, [run, failed_run(other, reason=HOSTILE)])


MADE: dict[str, Callable[[], Sweep]] = {
    "workers": lambda: workers_sweep(3),
    "gpus": gpus_sweep,
    "hostile": hostile,
    "nothing": lambda: sweep_of(spec_of(), 1, ()),
    "no GPU": lambda: sweep_of(spec_of(), 1, [replace(made_run("workers-0_batch-64", 5), parts=())]),
}
every_sweep = pytest.mark.parametrize("sweep", [make() for make in MADE.values()], ids=MADE)


@pytest.mark.parametrize("form", FORMS)
@every_sweep
def test_the_same_sweep_gives_the_same_bytes(form: str, sweep: Sweep) -> None:
    text = render(form, sweep)
    assert text == render(form, sweep)
    assert not {"\x1b", "\u202e", "\x00"} & set(text)


class Elements(HTMLParser):
    """Collects the elements and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect one element."""
        self.tags.append(tag)
        self.attributes += attrs


@every_sweep
def test_a_page_is_one_file_without_network_and_handlers(sweep: Sweep) -> None:
    """Names become no elements; all links stay on the page, to an id that is there."""
    page = Elements()
    page.feed(render("html", sweep))
    assert not {"img", "iframe", "object", "base"} & set(page.tags)
    assert page.tags.count("script") == 3
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in {"style", "src"}]
    ids = {value for name, value in page.attributes if name == "id"}
    targets = {value for name, value in page.attributes if name == "href"} - {"data:,"}
    assert {str(target)[1:] for target in targets} <= ids


@every_sweep
def test_the_json_is_read_back(sweep: Sweep) -> None:
    assert sweep_from_tree(json.loads(render("json", sweep)), "x") == sweep


def test_page_text_and_json_say_the_same() -> None:
    sweep = workers_sweep(3)
    page, text, tree = render("html", sweep), render("text", sweep), json.loads(render("json", sweep))
    assert unbroken(verdict(sweep)) in page
    assert tree["verdict"] == verdict(sweep)
    for words in ("out of memory", "workers 4 is the best", "launch-bound kernels (host)", "seed 7"):
        assert words in page
        assert words in " ".join(text.split())
    assert tree["best"] == "workers-4_batch-64"
    assert [cell["ending"] for cell in tree["cells"]] == ["measured"] * 4 + ["out of memory"]
    assert tree["limit_changes"][0]["after"] == "2"
    assert tree["scaling"] == {"strong": [], "weak": []}


def test_scaling_is_said_by_kind_and_by_whose_batch_it_is() -> None:
    sweep = gpus_sweep()
    page, text = render("html", sweep), render("text", sweep)
    note = "The batch size is that of all GPUs together; the measured cells show strong and weak scaling."
    assert note in page
    assert note in " ".join(text.split())
    assert "Strong scaling" in page
    assert "WEAK SCALING" in text


def test_each_measured_cell_has_a_bar_and_each_missing_one_a_mark() -> None:
    page = render("html", workers_sweep())
    assert page.count('<svg class="bar"') == 4
    assert page.count("\u00d7</text>") == 2, "one in each panel"
    assert "url(#idle-data)" in page
    assert "url(#idle-launch)" in page


def test_the_verdict_says_among_how_many_measured_cells_the_best_is() -> None:
    assert verdict(MADE["no GPU"]()).startswith("The best of the measured cells (1 of 5) is workers 0")


def test_the_verdict_of_nothing_says_so() -> None:
    assert verdict(MADE["nothing"]()) == "No cell of 5 was measured."
    with pytest.raises(UsageError):
        render("pdf", workers_sweep())
