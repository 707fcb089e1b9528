"""The forms of the gate's result: what they show, that they are reproducible, and that names stay inert."""

import json
import math
from html import unescape
from typing import Any

import hand_made
import pytest

from nsyswrap.base.errors import UsageError
from nsyswrap.compare import ComparabilityIssue, IssueKind
from nsyswrap.gate import Gate, GateOptions, GateOutcome, Measure, TimedRun, judge
from nsyswrap.render import documents
from nsyswrap.render.gate_document import MARKER, SCHEMA
from nsyswrap.render.markdown_writer import MOST_BYTES

FORMS = documents.KINDS["gate"]


def render(form: str, gate: Gate, **fitting: Any) -> str:  # noqa: ANN401 - as the function has it
    """Return the result in one form."""
    return documents.render("gate", form, gate, **fitting)


def runs(factors: list[float], name: str = "run") -> list[TimedRun]:
    """Return runs of 10 ms a step times a factor, that wait for rank 3."""
    parts = [{"compute": 6e6, "wait for rank 3 (data loader wait)": 1e7 * one - 6e6} for one in factors]
    return [
        TimedRun(f"{name} {at}", 1e7 * one, 1e7 * one, part, commit="0123456789abcdef")
        for at, (one, part) in enumerate(zip(factors, parts, strict=True))
    ]


def regressed(name: str = "run", count: int = 20) -> Gate:
    """Return a result in which new runs take 10 % longer."""
    issue = ComparabilityIssue(IssueKind.COMMAND, f"Other arguments: {name}.", blocks=False)
    earlier = [1 + 0.001 * (at % 3) for at in range(count)]
    return judge(runs(earlier, name), runs([1.1, 1.11, 1.1], f"new {name}"), GateOptions(), [issue])


@pytest.mark.parametrize("form", FORMS)
def test_the_same_result_gives_the_same_text(form: str) -> None:
    assert render(form, regressed()) == render(form, regressed())
    assert render(form, regressed()).endswith("\n")


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(UsageError, match="no form 'pdf'"):
        render("pdf", regressed())


def test_text_shows_the_verdict_the_measures_and_the_parts() -> None:
    shown = " ".join(render("text", regressed(), width=100).split())
    assert shown.startswith(
        "nsyswrap gate 3 new runs against 20 Other arguments: run. Regressed: +9.9 % a step (11.0 ms"
    )
    assert "9.9 of it wait for rank 3 (data loader wait)." in shown
    assert "time per step 10.0 ms 11.0 ms +9.9 % up to" in shown
    assert "wait for rank 3 (data loader wait) +990 µs +9.9 %" in shown
    assert "Other arguments: run." in shown


def test_text_without_colour_has_no_escape_sequences() -> None:
    assert "\x1b" not in render("text", regressed())
    assert "\x1b" in render("text", regressed(), colour=True)


@pytest.mark.parametrize("form", FORMS)
def test_a_result_without_measures_has_every_form(form: str) -> None:
    shown = unescape(" ".join(render(form, judge(runs([1.0, 1.0]), runs([2.0]))).split()))
    assert "Cannot tell: 2 earlier runs" in shown.replace("\u00a0", " ")


def test_noise_without_bounds_is_valid_json() -> None:
    """JSON has no infinity; beyond what a float holds there is null."""
    measure = Measure("time per step", 1e7, 1e7, math.inf, GateOutcome.CANNOT_TELL)
    gate = Gate((), (), GateOptions(), GateOutcome.CANNOT_TELL, "Cannot tell.", measures=(measure,))
    found = json.loads(render("json", gate), parse_constant=pytest.fail)
    assert found["step_time"][0]["noise_share"] is None


def test_json_holds_every_run_and_the_blame() -> None:
    found = json.loads(render("json", regressed()))
    assert (found["schema"], found["outcome"]) == (SCHEMA, "regressed")
    assert (len(found["earlier"]), len(found["new"])) == (20, 3)
    assert found["blame"][0]["part"] == "wait for rank 3 (data loader wait)"
    assert found["blame"][0]["delta_ns"] == pytest.approx(0.99e6)
    assert found["more_runs"] is None


def test_markdown_begins_with_the_hidden_marker_and_fits_into_a_comment() -> None:
    shown = render("markdown", regressed(count=200))
    assert shown.startswith(f"{MARKER}\n### nsyswrap gate: regressed, 3 new runs against 200\n")
    assert shown.count(MARKER) == 1
    assert len(shown.encode()) <= MOST_BYTES


def test_hostile_names_stay_inert_in_markdown() -> None:
    shown = render("markdown", regressed(hand_made.HOSTILE))
    assert "<script" not in shown
    assert "\n@" not in shown
    assert shown.count(MARKER) == 1
