"""Idle time is attributed once: each idle nanosecond has exactly one rule, whatever the report prints."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from analysis_fixtures import attributions_of, window
from counting import holes, work_of
from export_builder import ExportBuilder, trace_of
from hypothesis import given
from made_steps import MEASURED, STEP, STEPS, US, each_step, made_loop
from random_traces import LONGEST, Sketch, context_of, same_examples, several, sketches
from real_captures import RealContext, every_gpu_capture

from nsyswrap.attribution.attribution import RULES, Attribution
from nsyswrap.attribution.causes import CAUSES
from nsyswrap.base.intervals import Spans, Window, covered
from nsyswrap.loop.context import TraceContext, find_context
from nsyswrap.report import choose_window, report_of
from nsyswrap.sections import severity
from nsyswrap.sections.idle_advice import OWN_RULES
from nsyswrap.sections.ledger import ledger_rows
from nsyswrap.trace.tables import array

START, END = -10, LONGEST + 20


def check_sums(context: TraceContext, chosen: Window) -> None:
    """Check that each idle nanosecond of each device has one rule, and that all sums agree."""
    found = attributions_of(context, chosen)
    assert [each.device_id for each in found] == list(context.operations.used_in(chosen))
    for each in found:
        idle = ledger_rows(context.operations, each.device_id, chosen)["idle_ns"]
        assert each.idle_ns.sum() == each.pieces.length.sum() == idle
        assert np.array_equal(sum(each.of_rule(rule).astype(int) for rule in RULES), np.ones(len(each.rule), int))
        assert [each.idle_of(rule) for rule in RULES] == [
            each.pieces.length[each.of_rule(rule)].sum() for rule in RULES
        ]
        # Pieces do not overlap, so no nanosecond has two rules.
        assert np.all(each.pieces.end[:-1] <= each.pieces.start[1:])
        check_steps(context, each)


def check_steps(context: TraceContext, found: Attribution) -> None:
    """Check that the idle time of each step, by rule and by cause, equals the length of the pieces inside the step."""
    start, end = (array(context.steps.frame, name) for name in ("start", "end"))
    inside = covered(Spans(found.pieces.start, found.pieces.end), start, end)
    assert found.steps_by_rule.shape == (len(RULES), len(start))
    assert found.steps_by_cause.shape == (len(CAUSES), len(start))
    assert np.array_equal(found.steps_by_rule.sum(axis=0), inside)
    assert np.array_equal(found.steps_by_cause.sum(axis=0), inside)


@pytest.mark.slow
@several
@same_examples
@given(sketches)
def test_each_idle_nanosecond_of_a_random_trace_has_one_rule(sketch: Sketch) -> None:
    """The sums equal those of the ledger and those of the gaps found by counting nanoseconds."""
    context = context_of(sketch)
    check_sums(context, window(START, END))
    work = work_of(context.trace)
    for each in attributions_of(context, window(START, END)):
        counted = {when for gap in holes(work, each.device_id, START, END) for when in range(*gap)}
        pairs = zip(each.pieces.start.tolist(), each.pieces.end.tolist(), strict=True)
        assert {when for pair in pairs for when in range(*pair)} == counted


@every_gpu_capture
def test_each_idle_nanosecond_of_a_real_capture_has_one_rule(name: str, real_context: RealContext) -> None:
    context = real_context(name)
    check_sums(context, choose_window(context))


def mixed() -> ExportBuilder:
    """Return steps of 600 us of kernels, 100 of CPU time, 200 of an allocation and 100 of CPU time."""
    return each_step(made_loop(), "cudaMalloc_v3020", 700, 900)


@pytest.mark.parametrize("share", [1e-9, 1.0])
def test_the_attribution_does_not_depend_on_what_a_report_prints(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables and the sums are the same if findings are printed for all rules with idle time and if for none."""
    context = find_context(trace_of(mixed()))
    before = report_of(context)
    for name in ("NOTE_SHARE", "WARNING_SHARE", "PROBLEM_SHARE"):
        monkeypatch.setattr(severity, name, share)
    after = report_of(context)
    one, other = before.section("idle"), after.section("idle")
    assert one is not None
    assert other is not None
    (found,) = attributions_of(context, after.window)
    printed = {finding.rule for finding in other.findings}
    assert printed == {rule for rule in OWN_RULES if share < 1 and found.idle_of(rule)}
    assert (share < 1) == bool(printed)
    assert one.facts == other.facts
    for name, table in one.tables.items():
        pd.testing.assert_frame_equal(table, other.tables[name])


def uneven() -> ExportBuilder:
    """Return twelve steps of 1 ms with a read in each, then one step of 5 ms that runs CPU code.

    The read blocks the host until 605 us, and the GPU is idle from 600 us to the end of the step.
    """
    made = each_step(made_loop(), "cudaStreamSynchronize", 20, 605)
    at = STEPS * STEP
    made.range(f"batch {STEPS}", at, at + 5 * STEP).range("forward", at, at + 5 * STEP)
    return made.kernel(at + 10 * US, at + 600 * US, "k", launched=(at, at + US))


def test_the_idle_time_of_specific_rules_is_that_of_root_causes_except_uneven_steps() -> None:
    """The last 400 us of each step belong to its own read; the first 10 us belong to the read of the step before.

    The window begins with the third step, so the read before its first 10 us is unknown. In the last step, the
    4.4 ms of CPU code belong to uneven steps.
    """
    context = find_context(trace_of(uneven()))
    (found,) = attributions_of(context, choose_window(context))
    assert (found.of_specific_rules() / US).tolist() == [0, 0, 400, *[410] * (MEASURED - 1), 10]
    assert found.idle_of("steps/uneven") == 4400 * US
    assert found.idle_of("synchronization/in_step") == (10 * 400 + 10 * 10) * US


def test_generic_causes_time_not_traced_and_uneven_steps_are_not_specific() -> None:
    """All other causes and root causes are specific. Each rule has 1 ns of idle time in a step of its own."""
    context = find_context(trace_of(mixed()))
    (found,) = attributions_of(context, choose_window(context))
    specific = replace(found, steps_by_rule=np.eye(len(RULES), dtype=np.int64)).of_specific_rules()
    causes = ("cpu", "launch", "queued", "unknown", "lock", "not_traced")
    others = {*(f"idle/{cause}" for cause in causes), "steps/uneven"}
    assert specific.tolist() == [rule not in others for rule in RULES]
