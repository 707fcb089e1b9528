"""Ranks in words: their order in tables, why others wait for one, and which GPUs are drawn of many."""

import hand_made
import pandas as pd
import pytest
from made_rank_sections import rank_section, with_ranks

from nsyswrap.model import Report
from nsyswrap.render import rank_rows, render, summary_model

FULL = hand_made.full_report()


def rows_of(count: int, late: int) -> list[summary_model.Row]:
    return summary_model.records(rank_section(count, late, hand_made.WINDOW).tables["ranks"])


def row(**values: object) -> summary_model.Row:
    """Return a row of a rank that neither waits nor is waited for, with some values."""
    return {**rows_of(2, -1)[0], **values}


def test_a_few_ranks_are_in_order_of_their_number() -> None:
    assert [each["rank"] for each in rank_rows.in_order(rows_of(4, 2)[::-1])] == [0, 1, 2, 3]


def test_of_many_ranks_the_late_one_comes_first() -> None:
    assert [each["rank"] for each in rank_rows.in_order(rows_of(20, 7))][:3] == [7, 0, 1]


def test_a_form_shows_the_first_ranks_and_how_many_there_are() -> None:
    text = render("text", with_ranks(FULL, 64, 40))
    assert "mean step, " in text
    assert "56 more on the page" in text


@pytest.mark.parametrize("report", [FULL, hand_made.empty_report()])
def test_a_report_of_one_rank_has_none(report: Report) -> None:
    assert "RANKS" not in render("text", report)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, ""),
        ({"late": True, "waited_for_ns": 9, "rule": "idle/cpu", "phase": "none"}, "late: CPU outside CUDA calls"),
        (
            {"waited_for_ns": 9, "rule": "idle/cpu", "phase": "forward"},
            "others wait: CPU outside CUDA calls in forward",
        ),
        ({"wait_ns": 9, "waits_for_rank": 3, "waited_for_ns": 2, "rule": "idle/cpu"}, "waits for rank 3"),
        ({"wait_ns": 9, "waits_for_rank": -1}, ""),
    ],
)
def test_a_rank_is_late_or_keeps_others_waiting_or_waits(values: dict[str, object], words: str) -> None:
    assert rank_rows.said(row(**values)) == words


def test_of_many_gpus_those_of_the_first_ranks_are_drawn() -> None:
    report = with_ranks(FULL, 20, 7)
    section = report.section("ledger")
    assert section is not None
    one = summary_model.ledgers(FULL)[0]
    ledgers = [summary_model.DeviceLedger(n, one.name, one.window_ns, one.parts, one.idle) for n in range(20)]
    assert [each.device_id for each in rank_rows.first_ledgers(report, ledgers, 3)] == [7, 0, 1]
    assert rank_rows.first_ledgers(report, ledgers, 20) == tuple(ledgers)


def test_the_measure_of_a_window_without_steps_is_the_window() -> None:
    section = rank_section(2, 1, hand_made.WINDOW)
    assert isinstance(section.tables["ranks"], pd.DataFrame)
    assert section.window.is_of_steps
