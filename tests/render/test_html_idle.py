"""Idle time on the page: what is in sight, and what is folded."""

from dataclasses import replace

import hand_made

from nsyswrap.render import render


def test_idle_time_has_its_root_causes_in_sight_and_the_rest_folded() -> None:
    text = render("html", hand_made.full_report())
    legend, fold, table = (text.index(each) for each in ("by root cause", '<details class="why-idle">', '"causes"'))
    assert legend < fold < table


def test_a_gap_outside_all_phases_names_none() -> None:
    report = hand_made.full_report()
    idle = report.section("idle")
    assert idle is not None
    gaps = idle.tables["gaps"].assign(phase="none")
    sections = tuple(
        replace(one, tables={**one.tables, "gaps": gaps}) if one is idle else one for one in report.sections
    )
    text = render("html", replace(report, sections=sections))
    assert " in none " not in text
    assert "&#34;none&#34;]" in text, "the script reads it"
