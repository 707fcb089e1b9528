"""The content of a comparison in its four forms."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from made_comparisons import full, unlike

from nsyswrap.compare.comparison import Comparison, Outcome
from nsyswrap.render import documents


def render(form: str, comparison: Comparison, **fitting: Any) -> str:  # noqa: ANN401 - as the function has it
    return documents.render("comparison", form, comparison, **fitting)


def test_json_holds_everything_unrounded() -> None:
    found = json.loads(render("json", full()))
    assert found["schema"] == "nsyswrap.comparison/3"
    assert found["outcome"] == "faster"
    estimate = full().estimates[0]
    assert found["step_time"][0]["low_share"] == estimate.change.low
    assert found["findings"]["smaller"][0]["rule"] == "idle/data_wait"
    rows = found["tables"]["kernels"]["rows"]
    assert {row["name"] for row in rows if row["base"] is None} == {"only_with_8"}
    assert {row["name"] for row in rows if row["new"] is None} == {"only_with_1"}
    assert found["issues"][0]["kind"] == "command"


def test_the_text_says_whether_the_two_can_be_compared() -> None:
    assert "note     Other arguments: " in render("text", full())
    assert "not comparable  Other GPU" in render("text", unlike())


def test_the_text_leaves_out_what_hardly_moved_and_names_it() -> None:
    shown = render("text", full())
    assert "Changed by less than 0.5 % of a step: Kernel families." in shown
    assert "KERNEL FAMILIES" not in shown
    assert "only_with_8" in shown


def test_what_is_new_or_gone_is_marked_on_the_page() -> None:
    page = render("html", full())
    assert re.search(r'only_with_8</bdi> <span class="change-tag">new<', page)
    assert re.search(r'only_with_1</bdi> <span class="change-tag">gone<', page)


def test_each_outcome_has_its_class_on_the_page() -> None:
    """The page shows the outcome as a word and in colour, never in colour alone."""
    page = render("html", full())
    assert f'<span class="outcome good">{Outcome.FASTER.value}</span>' in page
    assert '<span class="outcome unsure">cannot tell</span>' in render("html", unlike())


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_what_helps_is_there_where_runs_cannot_tell(form: str) -> None:
    """As in a comment of a job, which does not show the hint of the terminal."""
    one = replace(full(), hint="profile each side three times")
    assert "What helps: profile each side three times." in render(form, one)
    assert "What helps" not in render(form, full())
