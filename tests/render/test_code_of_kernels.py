"""Where the kernels of a finding are launched."""

from dataclasses import replace

import hand_made
import pandas as pd
import pytest

from nsyswrap.base.intervals import Window
from nsyswrap.model import Report, Section
from nsyswrap.render import render, report_cards
from nsyswrap.render.code_of_kernels import CodePlace, place_of, place_of_all

COLUMNS = ["operator", "name", "module", "line", "total_ns", "peak_share"]
ROWS = [
    ("mm", "gemm<1>", "blocks.0.mlp", "model.py:8", 30, None),
    ("mm", "gemm<1>", "blocks.1.mlp", "model.py:8", 20, None),
    ("mm", "gemm<1>", "head", "model.py:9", 40, None),
    ("mm", "gemm<1>", "", "", 10, None),
    ("adam", "adam", "", "train.py:3", 300, None),
]


def report(*evidence: str) -> Report:
    """Return a report with operators, whose first finding has this evidence."""
    kernels = pd.DataFrame(ROWS, columns=COLUMNS).assign(shapes="", dtypes="", phase="forward", count=1)
    operators = Section("operators", "", Window(0, 1, "", "steps"), tables={"kernels": kernels})
    full = hand_made.full_report()
    others = (each for each in full.sections if each.key != "operators")
    finding = replace(full.findings[0], evidence=evidence, rule="compute/kernels")
    return replace(full, sections=(*others, operators), findings=(finding,), verdict_rule=finding.rule)


@pytest.mark.parametrize(
    ("evidence", "place"),
    [
        ("3 ms in 2 launches of gemm<1>", CodePlace("model.py:8", "blocks.0.mlp and 1 more modules", 0.5)),
        ("3 ms in 2 launches of adam", CodePlace("train.py:3", "", 1.0)),
        ("3 ms in 2 launches of other", None),
        ("gemm<1> is slow", None),
    ],
)
def test_a_finding_has_the_line_with_most_time_of_the_kernels_that_it_names(
    evidence: str, place: CodePlace | None
) -> None:
    found = report(evidence)
    assert place_of(found, found.findings[0]) == place


def test_all_kernels_have_a_line_too() -> None:
    assert place_of_all(report()) == CodePlace("train.py:3", "", 0.75)
    assert place_of_all(replace(report(), sections=())) is None


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_each_form_says_the_line(form: str) -> None:
    assert "train.py" in render(form, report("3 ms in 2 launches of adam"))


def test_a_finding_of_the_page_has_it() -> None:
    (card,) = report_cards.cards(report("3 ms in 2 launches of adam"))
    assert card.place == "Launched most: train.py:3, 100.0 % of the kernel time"
