"""Findings on the page: stable anchors, bars, and evidence with links to the timeline."""

from dataclasses import replace

import hand_made
import pytest
from hand_made import MS

from nsyswrap.base.interval import between
from nsyswrap.base.intervals import Window
from nsyswrap.model import Finding, Report, Severity
from nsyswrap.render import page_findings
from nsyswrap.rules import rule_name

FULL = hand_made.full_report()


def report_of(*found: Finding) -> Report:
    """Return the report with these findings."""
    return replace(FULL, findings=found)


@pytest.mark.parametrize(
    ("rule", "anchor"),
    [
        ("idle/data_wait", "finding-idle-data-wait"),
        ("tensor_cores/not_used", "finding-tensor-cores-not-used"),
        (hand_made.HOSTILE, "finding-img-src-x-onerror-alert-1-script-31m-cmd"),
        ("\u202e", "finding-other"),
        ("x" * 500, "finding-" + "x" * 60),
    ],
)
def test_an_anchor_follows_from_the_rule_alone(rule: str, anchor: str) -> None:
    assert page_findings.anchor(rule) == anchor


def test_two_findings_of_one_rule_have_two_anchors() -> None:
    first = FULL.findings[0]
    views = page_findings.findings(report_of(first, replace(first, advice="Do something else.")))
    assert [view.anchor for view in views] == ["finding-idle-data-wait", "finding-idle-data-wait-2"]


def test_findings_stay_in_the_order_of_the_report() -> None:
    assert [view.rule for view in page_findings.findings(FULL)] == [rule_name(one.rule) for one in FULL.findings]


def test_a_finding_has_its_numbers_and_a_bar_as_long_as_its_share() -> None:
    first = page_findings.findings(FULL)[0]
    assert (first.lost, first.lost_share, first.saving) == ("601 ms", "30.0 %", "up to 601 ms")
    assert first.step is not None
    assert (first.step.times, first.step.speed) == (
        "77.7 to 111 ms",
        "up to 1.43 times as fast",
    )
    assert first.bar == "30.05"


@pytest.mark.parametrize("lost_ns", [0, 2_001 * MS])
def test_time_lost_that_is_no_share_of_the_window_has_no_bar(lost_ns: int) -> None:
    (view,) = page_findings.findings(report_of(replace(FULL.findings[0], lost_ns=lost_ns)))
    assert view.bar == ""


@pytest.mark.parametrize(("saving_ns", "saving"), [(0, ""), (MS, "up to 1.00 ms")])
def test_a_finding_without_time_lost_may_still_save_time(saving_ns: int, saving: str) -> None:
    (view,) = page_findings.findings(report_of(replace(FULL.findings[0], lost_ns=0, saving=between(0, saving_ns))))
    assert (view.lost, view.saving) == ("", saving)


def test_the_page_shows_the_severity_of_the_report() -> None:
    incomplete = replace(FULL.findings[0], severity=Severity.PROBLEM, saving=between(0, 0))
    (view,) = page_findings.findings(report_of(incomplete))
    assert (view.severity, view.saving, view.step) == ("problem", "none", None)


def test_a_share_of_another_window_than_that_of_the_breakdown_names_it() -> None:
    other = replace(FULL.findings[0], window=Window(0, 2_000 * MS, "all operations", "session"))
    (view,) = page_findings.findings(report_of(other))
    assert view.lost_share == "30.0 % of all operations"


def test_a_finding_without_a_prediction_says_how_it_was_placed() -> None:
    (view,) = page_findings.findings(report_of(replace(FULL.findings[0], saving=None)))
    assert (view.severity, view.saving) == ("problem", "no saving predicted (placed by time lost)")


def test_the_verdict_leads_to_its_finding() -> None:
    assert page_findings.verdict_anchor(FULL) == page_findings.findings(FULL)[0].anchor
    assert page_findings.verdict_anchor(replace(FULL, verdict_rule=None)) == ""
    assert page_findings.verdict_anchor(replace(FULL, findings=())) == ""


def test_evidence_that_names_a_gap_leads_to_it() -> None:
    """The gap is found by rule, GPU and start, so that the link has its exact ends."""
    line = "33.0 ms at 1.210000 s: thread 7 waits for data"
    (view,) = page_findings.findings(report_of(replace(FULL.findings[0], evidence=(line, "98.2 % of the window"))))
    assert [one.span for one in view.evidence] == [(1_210 * MS, 1_243 * MS), None]


@pytest.mark.parametrize(("device_id", "rule"), [(1, "idle/data_wait"), (0, "idle/launch"), (0, "copies/exposed")])
def test_a_gap_of_another_gpu_or_rule_is_not_linked(device_id: int, rule: str) -> None:
    other = replace(
        FULL.findings[0], device_id=device_id, rule=rule, evidence=("33.0 ms at 1.210000 s: thread 7 waits",)
    )
    (view,) = page_findings.findings(report_of(other))
    assert view.evidence[0].span is None


def test_long_evidence_is_cut_and_its_whole_is_there() -> None:
    (view,) = page_findings.findings(report_of(replace(FULL.findings[0], evidence=("12 launches of " + "k" * 900,))))
    (line,) = view.evidence
    assert len(line.text) <= 200
    assert line.whole.endswith("k" * 900)


def test_the_same_matter_on_another_gpu_is_one_line_and_its_evidence_says_where() -> None:
    first = FULL.findings[0]
    (view,) = page_findings.findings(report_of(first, replace(first, device_id=1, evidence=("seen",))))
    assert [where for where, _ in view.also] == ["GPU 1"]
    assert view.evidence[-1].text == "GPU 1: seen"


@pytest.mark.parametrize(
    ("rule", "section"),
    [
        ("idle/cpu", ("ledger", "GPU time breakdown")),
        ("copies/exposed", ("section-copies", "Memory copies")),
        ("brand_new/rule", None),
    ],
)
def test_a_finding_leads_to_the_section_it_comes_from(rule: str, section: tuple[str, str] | None) -> None:
    (view,) = page_findings.findings(report_of(replace(FULL.findings[0], rule=rule)))
    assert view.section == section
