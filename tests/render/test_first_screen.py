"""A law: no two numbers of the first screen contradict each other, on real captures and on random reports."""

from dataclasses import replace
from typing import NamedTuple

import hand_made
import pytest
from first_screen import contradictions, never_shown
from hypothesis import given, settings
from hypothesis import strategies as st
from real_captures import EVERY_NAME, RealReport, of_captures

from nsyswrap.base.interval import Interval, around
from nsyswrap.base.intervals import Window
from nsyswrap.model import AloneSource, Finding, Plan, PlannedChange, Report, Severity, StepTimes
from nsyswrap.render import render
from nsyswrap.rules.program_kind import UNKNOWN
from nsyswrap.verdict import find_verdict, in_order
from nsyswrap.what_if.fixed_step import CurrentStep, typical

FULL = hand_made.full_report()
RULES = ("idle/data_wait", "launches/launch_bound", "idle/cpu", "tensor_cores/not_used", "compute/unfused", "new/rule")


@of_captures(EVERY_NAME, few={"mnist_counters_python", "ranks/loader", "ranges_nsys2022"})
def test_the_first_screen_of_a_real_capture(name: str, real_report: RealReport) -> None:
    report = real_report(name)
    assert list(contradictions(report)) == []
    assert [each for form in ("text", "html") for each in never_shown(render(form, report))] == []


class Drawn(NamedTuple):
    """What differs from report to report."""

    window: Window
    step: StepTimes
    findings: tuple[Finding, ...]
    plan: Plan

    def report(self) -> Report:
        ordered = in_order((), self.findings, self.plan)
        verdict, rule = find_verdict(FULL.sections, ordered, self.window, self.step, UNKNOWN, self.plan)
        given = replace(FULL, window=self.window, step=self.step, plan=self.plan, findings=ordered)
        return replace(given, verdict=verdict, verdict_rule=rule)


@st.composite
def drawn_reports(draw: st.DrawFn) -> Drawn:
    """Return any steps, savings and plan that the analysis can make."""
    mean, count = draw(st.integers(1_000, 20_000_000_000)), draw(st.integers(2, 40))
    window = Window(0, mean * count, f"{count} measured steps", "steps")
    alone, error = draw(st.none() | st.integers(mean // 3 + 1, mean)), draw(st.floats(0, 0.6))
    known = None if alone is None else around(alone, round(alone * (1 - error)), round(alone * (1 + error)))
    sources: tuple[AloneSource, ...] = ("this_process", "simulated")
    source = None if known is None else draw(st.sampled_from(sources))
    step = StepTimes(count, mean, known, source)
    now = typical(step, window)
    assert now is not None
    found = tuple(draw(findings(rule, window)) for rule in draw(st.lists(st.sampled_from(RULES), unique=True)))
    return Drawn(window, step, found, draw(plans(now, [each.rule for each in found if each.saving is not None])))


@st.composite
def findings(draw: st.DrawFn, rule: str, window: Window) -> Finding:
    """Return a finding that loses and saves any part of the window, or nothing."""
    lost, point = (round(draw(st.floats(0, 1)) * window.length_ns) for _ in range(2))
    error = draw(st.integers(0, window.length_ns // 2))
    saving = draw(st.none() | st.just(Interval(max(point - error, 0), point, min(point + error, window.length_ns))))
    severity = draw(st.sampled_from(Severity))
    return replace(
        FULL.findings[0], rule=rule, severity=severity, headline=f"{rule} is first.", lost_ns=lost, saving=saving,
        saving_method=None if saving is None else draw(st.sampled_from(("simulated", "estimated", "measured"))),
        evidence=(), window=window,
    )  # fmt: skip


@st.composite
def plans(draw: st.DrawFn, now: CurrentStep, rules: list[str]) -> Plan:
    """Return a plan; each change shortens the step by at least a hundredth of what is left."""
    changes, left = list[PlannedChange](), now.length.point
    for rule in rules[: draw(st.integers(0, len(rules)))]:
        left = round(left * draw(st.floats(0, 0.99)))
        error = draw(st.floats(0, 1))
        changes.append(PlannedChange(rule, around(left, round(left * (1 - error)), round(left * (1 + error)))))
    return Plan(now.length.point, tuple(changes))


@given(drawn_reports())
def test_the_first_screen_of_a_random_report(drawn: Drawn) -> None:
    assert list(contradictions(drawn.report())) == []


@pytest.mark.thorough
@settings(max_examples=1000)
@given(drawn_reports())
def test_the_first_screens_of_a_thousand_random_reports(drawn: Drawn) -> None:
    assert list(contradictions(drawn.report())) == []


def test_the_first_screen_of_the_full_report() -> None:
    assert list(contradictions(FULL)) == []


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        ("A step takes 99.0 ms.", "the verdict says 99.0 ms, the bar 111 ms"),
        ("A step takes 111 ms; about 50 if the data loader kept up.", "the verdict says about 50, the card 94 ms"),
        ("It takes 0 ns.", "says nothing: It takes 0 ns."),
        (f"{'word ' * 21}end.", "22 words: "),
        ("One is wrong. Two is wrong. Three is wrong.", "3 sentences: "),
    ],
)
def test_a_contradiction_is_found(wrong: str, found: str) -> None:
    assert any(each.startswith(found) for each in contradictions(replace(FULL, verdict=wrong)))


def test_what_is_never_shown_is_found_in_what_a_reader_sees() -> None:
    assert never_shown("It saves 0 ns, or -0.0 %, and is 1.00 times as fast: 1.2e+03 times.") != []
    assert never_shown('<!DOCTYPE html><script>"0 ns"</script><b>200 ms, 10 %</b>') == []
