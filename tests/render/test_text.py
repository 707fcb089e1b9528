"""The report on a terminal: one screen, 80 columns, the words of the page, readable without colour."""

from dataclasses import replace

import hand_made
import pandas as pd
import pytest

from nsyswrap.model import Fact
from nsyswrap.render import documents

FULL = documents.render("report", "text", hand_made.full_report())
LINES = FULL.splitlines()


def test_it_fits_on_a_screen() -> None:
    assert 25 <= len(LINES) <= 54


@pytest.mark.parametrize("name", ["NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM", "TTY_COMPATIBLE"])
def test_the_environment_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")
    assert documents.render("report", "text", hand_made.full_report()) == FULL


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_answer_takes_20_lines_and_begins_the_whole_text(width: int) -> None:
    """It has the verdict, the step now and then, and the first card with what to try."""
    report = hand_made.full_report()
    long = tuple(replace(report.findings[0], rule=f"rule/{at}", headline="A long headline. " * 8) for at in range(6))
    for each in (report, replace(report, findings=long), replace(report, findings=()), hand_made.no_gpu_report()):
        brief = documents.render("report", "brief", each, width=width)
        assert len(brief.splitlines()) <= 20
        assert documents.render("report", "text", each, width=width).startswith(brief.rstrip("\n"))
    shown = documents.render("report", "brief", report, width=width)
    assert "a step now" in shown
    assert "Try this: Give the DataLoader more workers" in " ".join(shown.split())


def test_a_bar_is_as_long_as_its_time() -> None:
    now, then = (line for line in LINES if "\N{FULL BLOCK}" in line)
    lengths = [line.count("\N{FULL BLOCK}") for line in (now, then)]
    times = [float(line.split(" ms")[0].split()[-1]) for line in (now, then)]
    assert lengths[0] == 30
    assert lengths[1] == pytest.approx(30 * times[1] / times[0], abs=1)


def test_idle_time_that_is_not_shown_is_summed() -> None:
    assert "1 more take 10.0 ms" in FULL


def test_a_finding_names_the_line_of_python_that_was_sampled_most() -> None:
    report = hand_made.full_report()
    sampled = replace(report.findings[0], evidence=("3 gaps", "most samples: train.py:42 in loss, 3 of 4"))
    lines = documents.render("report", "text", replace(report, findings=(sampled,))).splitlines()
    assert "  Most samples: train.py:42 in loss, 3 of 4" in lines
    assert not any("3 gaps" in line for line in lines)


def test_findings_that_are_not_shown_are_counted() -> None:
    report = hand_made.full_report()
    many = tuple(replace(report.findings[0], rule=f"rule/{number}") for number in range(5))
    assert "2 more on the page" in documents.render("report", "text", replace(report, findings=many))


def test_uneven_steps_and_outliers_are_named() -> None:
    report = hand_made.full_report()
    uneven = (
        Fact("p95_ns", 999_000_000, "ns"),
        Fact("outlier_count", 1, "count"),
        Fact("outlier_excess_ns", 7e8, "ns"),
    )
    sections = tuple(
        replace(one, facts=(*(fact for fact in one.facts if fact.label != "p95_ns"), *uneven))
        if one.key == "steps"
        else one
        for one in report.sections
    )
    shown = " ".join(documents.render("report", "text", replace(report, sections=sections)).split())
    assert "very uneven: 5 % under 108 ms, 5 % over 999 ms; 1 outlier, 700 ms too long; warm-up" in shown


@pytest.mark.parametrize(("reasons", "cut"), [(3, False), (4, True)])
def test_three_reasons_of_gaps_are_shown(reasons: int, cut: bool) -> None:  # noqa: FBT001
    idle = hand_made.section_of(hand_made.full_report(), "idle")
    patterns = pd.concat([idle.tables["patterns"].head(1)] * reasons, ignore_index=True)
    shown = documents.render(
        "report", "text", hand_made.report_with(replace(idle, tables={**idle.tables, "patterns": patterns}))
    )
    assert shown.count("18  33.0 ms") == 3
    assert ("3 of 4 rows" in shown) is cut


def test_without_a_gpu_phases_and_steps_are_left() -> None:
    shown = documents.render("report", "text", hand_made.no_gpu_report())
    assert "GPU TIME BREAKDOWN" not in shown
    assert all(
        title in shown for title in ("no GPU", "ledger, idle and tensor_cores were skipped", "PHASES", "steps: ")
    )


def test_a_section_nobody_knows_is_shown_and_its_cut_stated() -> None:
    table = pd.DataFrame({"thing": [f"thing {n}" for n in range(20)], "total_ns": [1_000] * 20})
    shown = documents.render("report", "text", hand_made.report_with(hand_made.section_with("new", things=table)))
    assert "SECTION NEW" in shown
    assert "thing 4 " in shown
    assert "thing 5 " not in shown
    assert "5 of 20 rows, 25.0 % of the time" in shown


def test_one_section_is_not_called_sections() -> None:
    report = hand_made.full_report()
    kept = tuple(one for one in report.sections if one.key == "kernels")
    last = documents.render("report", "text", replace(report, sections=kept)).splitlines()[-1]
    assert last == "The page and JSON hold 1 more section: nsyswrap report capture.sqlite"


def test_a_share_without_kernels_is_not_measured() -> None:
    """A window may contain no kernel."""
    report = hand_made.full_report()
    [section] = [one for one in report.sections if one.key == "tensor_cores"]
    facts = tuple(replace(fact, value=None) if fact.label.startswith("share") else fact for fact in section.facts)
    shown = documents.render("report", "text", replace(report, sections=(replace(section, facts=facts),)))
    assert "tensor-core share: not measured in " in shown


def test_without_a_step_in_the_window_the_line_says_why() -> None:
    report = hand_made.full_report()
    [section] = [one for one in report.sections if one.key == "steps"]
    none = replace(section, facts=(Fact("median_ns", None, "ns"),), notes=("No whole measured step lies inside.",))
    shown = documents.render("report", "text", replace(report, sections=(none,)))
    assert "steps: No whole measured step lies inside." in shown


def test_steps_may_be_all_there_is() -> None:
    report = hand_made.full_report()
    shown = documents.render(
        "report", "text", replace(report, sections=tuple(one for one in report.sections if one.key == "steps"))
    )
    assert "steps: 18 measured steps" in shown
    assert not any(title in shown for title in ("tensor-core share", "PHASES", "LONGEST", "The page and JSON"))


def test_tensor_cores_may_be_all_there_is() -> None:
    report = hand_made.full_report()
    kept = tuple(one for one in report.sections if one.key == "tensor_cores")
    assert "steps: " not in documents.render("report", "text", replace(report, sections=kept))


def test_facts_of_a_section_nobody_knows_are_one_line() -> None:
    section = replace(hand_made.section_with("new"), facts=(Fact("things", 3, "count"), Fact("took_ns", 1_500, "ns")))
    assert "  3 things; took 1.50 µs" in documents.render("report", "text", hand_made.report_with(section)).splitlines()
