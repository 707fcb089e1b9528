"""The content of a sweep in its forms."""

import json

import pytest
from made_results import MADE
from made_sweeps import gpus_sweep, workers_sweep

from nsyswrap.render import documents
from nsyswrap.render.escape import unbroken
from nsyswrap.render.sweep_document import verdict
from nsyswrap.sweep.document import sweep_from_tree
from nsyswrap.sweep.results import Sweep


def render(form: str, sweep: Sweep) -> str:
    return documents.render("sweep", form, sweep)


every_sweep = pytest.mark.parametrize("name", [name for kind, name in MADE if kind == "sweep"])


@every_sweep
def test_the_json_is_read_back(name: str) -> None:
    sweep = MADE["sweep", name]()
    assert sweep_from_tree(json.loads(render("json", sweep)), "x") == sweep


def test_page_text_and_json_say_the_same() -> None:
    sweep = workers_sweep(3)
    page, text, tree = render("html", sweep), render("text", sweep), json.loads(render("json", sweep))
    assert unbroken(verdict(sweep)) in page
    assert tree["verdict"] == verdict(sweep)
    for words in (
        "out of memory",
        "workers 4 is the best",
        "launch-bound kernels (host)",
        "seed 7",
        "with 95 % confid",
    ):
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
    assert page.count('<svg class="bar"') == 4 + 2, "two of them are the answer"
    assert page.count("\u00d7</text>") == 2, "one in each panel"
    assert "url(#idle-data)" in page
    assert "url(#idle-launch)" in page


def test_the_verdict_says_among_how_many_measured_cells_the_best_is() -> None:
    assert verdict(MADE["sweep", "no GPU"]()).startswith("The best of the measured cells (1 of 5) is workers 0")


def test_the_verdict_of_nothing_says_so() -> None:
    assert verdict(MADE["sweep", "bare"]()) == "No cell of 5 was measured."
