"""The content of the gate's result in its forms."""

import json
import math
from html import unescape
from typing import Any

import pytest
from made_results import regressed, timed_runs

from nsyswrap.gate.decision import judge
from nsyswrap.gate.timed_runs import Gate, GateOptions, GateOutcome, Measure
from nsyswrap.render import documents
from nsyswrap.render.gate_document import MARKER, SCHEMA

FORMS = documents.KINDS["gate"]


def render(form: str, gate: Gate, **fitting: Any) -> str:  # noqa: ANN401 - as the function has it
    return documents.render("gate", form, gate, **fitting)


def test_text_shows_the_verdict_the_measures_and_the_parts() -> None:
    shown = " ".join(render("text", regressed(), width=100).split())
    assert shown.startswith(
        "nsyswrap gate 3 new runs against 20 Other arguments: run. Regressed: +9.9 % a step (11.0 ms"
    )
    assert "9.9 of it wait for rank 3 (data loader wait)." in shown
    assert "time per step 10.0 ms 11.0 ms +9.9 % up to" in shown
    assert "wait for rank 3 (data loader wait) +990 µs +9.9 %" in shown
    assert "Other arguments: run." in shown


@pytest.mark.parametrize("form", FORMS)
def test_a_result_without_measures_has_every_form(form: str) -> None:
    shown = unescape(" ".join(render(form, judge(timed_runs([1.0, 1.0]), timed_runs([2.0]))).split()))
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
