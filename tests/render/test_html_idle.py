"""Idle time on the page: what is in sight, and what is folded."""

import hand_made

from nsyswrap.render import render


def test_idle_time_has_its_root_causes_in_sight_and_the_rest_folded() -> None:
    text = render("html", hand_made.full_report())
    legend, fold, table = (text.index(each) for each in ("by root cause", '<details class="why-idle">', '"causes"'))
    assert legend < fold < table
