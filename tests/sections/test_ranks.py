"""The section on ranks: rows that add up to the ledger, waits that add up, and the same late ranks as the findings."""

import numpy as np
import pandas as pd
import pytest
from analysis_fixtures import run_section
from export_builder import trace_of
from made_ranks import job, split
from real_captures import RealReport, RealTrace

from nsyswrap.loop.context import Settings, find_context
from nsyswrap.model import Report, Section
from nsyswrap.ranks.identity import Rank
from nsyswrap.ranks.join import join
from nsyswrap.render.summary_model import records
from nsyswrap.report import build_report, choose_window
from nsyswrap.sections import ranks
from nsyswrap.trace.tables import Trace

PARTS = ["compute_ns", "copies_ns", "wait_ns", "transfer_ns", "idle_ns"]
JOBS = ["ranks/loader", "ranks/checkpoints", "ranks/balanced", "ddp_2gpu_slow_links", "alexnet_data_parallel_2gpu"]


def section_of(trace: Trace) -> Section:
    """Return the section of a trace in its default window."""
    context = find_context(trace)
    return run_section(ranks, context, choose_window(context))


def tables_of(report: Report, key: str) -> dict[str, pd.DataFrame]:
    section = report.section(key)
    assert section is not None
    return dict(section.tables)


@pytest.mark.parametrize("name", JOBS)
def test_the_parts_of_a_mean_step_add_up_and_are_those_of_the_ledger(name: str, real_report: RealReport) -> None:
    report = real_report(name)
    table, ledger = tables_of(report, "ranks")["ranks"], tables_of(report, "ledger")["devices"]
    assert (table[PARTS].sum(axis=1) == table["length_ns"]).all()
    steps = report.step.count or 1
    for row, device in zip(records(table), records(ledger.sort_values("device_id")), strict=True):
        assert row["device_id"] == device["device_id"]
        copies = device["copy_exposed_ns"] + device["memset_exposed_ns"]
        wait, transfer = device["communication_wait_ns"], device["communication_transfer_ns"]
        expected = (device["compute_ns"], copies, wait, transfer, device["idle_ns"])
        for column, whole in zip(PARTS, expected, strict=True):
            assert abs(row[column] - whole / steps) <= 1


@pytest.mark.parametrize("name", JOBS)
def test_waits_agree_with_a_plain_loop_over_those_of_the_section_on_communication(
    name: str, real_report: RealReport
) -> None:
    report = real_report(name)
    found, waits = tables_of(report, "ranks"), tables_of(report, "communication")["waits"]
    pairs: dict[tuple[int, int], int] = {}
    for row in records(waits):
        pair = row["waiting_rank"], row["late_rank"]
        pairs[pair] = pairs.get(pair, 0) + row["wait_ns"]
    matrix = found["matrix"]
    keys = zip(matrix["waiting_first"], matrix["late_first"], strict=True)
    assert dict(zip(keys, matrix["wait_ns"], strict=True)) == pairs
    steps = report.step.count or 1
    for row in records(found["ranks"]):
        others = [ns for (waiting, late), ns in pairs.items() if late == row["rank"] != waiting]
        assert row["waited_for_ns"] == round(max(others, default=0) / steps)
        mine = {late: ns for (waiting, late), ns in pairs.items() if waiting == row["rank"] != late}
        assert row["waits_for_rank"] == (max(mine, key=lambda late: mine[late]) if mine else -1)


@pytest.mark.parametrize("name", JOBS)
def test_late_ranks_and_their_causes_are_those_of_the_findings(name: str, real_report: RealReport) -> None:
    report = real_report(name)
    table = tables_of(report, "ranks")["ranks"]
    named = {each.device_id for each in report.findings if each.rule == "ranks/late"}
    assert set(table["device_id"][table["late"]]) == named


def test_a_step_without_its_waits_comes_with_the_one_that_has_them(real_report: RealReport) -> None:
    """Rank 0 writes a checkpoint each fourth step, and the median step has none."""
    found = tables_of(real_report("ranks/checkpoints"), "ranks")
    assert found["steps"]["which"].tolist() == ["median", "longest wait"]
    median, longest = found["steps"]["wait_ns"].tolist()
    assert longest > 10 * median
    assert set(found["segments"]["step"]) == set(found["collectives"]["step"]) == set(found["steps"]["step"])


def test_a_made_job_has_the_numbers_that_it_was_made_with() -> None:
    section = section_of(trace_of(job(4, 12, {2: 400_000})))
    table = section.tables["ranks"].set_index("rank")
    assert table["wait_ns"].tolist() == [400_000, 400_000, 0, 400_000]
    assert table["waited_for_ns"].tolist() == [0, 0, 400_000, 0]
    assert table["late"].tolist() == [False, False, True, False]
    assert {fact.label: fact.value for fact in section.facts} == {
        "ranks": 4,
        "late_ranks": 1,
        "waiting_share": pytest.approx(3 * 0.4 / (4 * 1.4)),
    }


def test_one_rank_is_not_compared(real_trace: RealTrace) -> None:
    assert section_of(real_trace("cnn_amp")).notes == (ranks.ONE_RANK,)


def test_ranks_without_a_common_collective_have_no_picture() -> None:
    built = job(2, 8, {})
    built.rows["CUPTI_ACTIVITY_KIND_KERNEL"] = [
        row for row in built.rows["CUPTI_ACTIVITY_KIND_KERNEL"] if row["streamId"] != 8
    ]
    section = section_of(trace_of(built))
    assert ranks.NO_COLLECTIVE in section.notes
    assert set(section.tables) == {"ranks", "matrix"}


def test_more_ranks_than_fit_are_grouped_and_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for four rows, the matrix of ten ranks has groups of three, and the picture has the late rank."""
    monkeypatch.setattr(ranks, "MOST_DRAWN", 4)
    section = section_of(trace_of(job(10, 12, {7: 400_000})))
    matrix = section.tables["matrix"]
    groups = sorted(set(zip(matrix["waiting_first"], matrix["waiting_last"], strict=True)))
    assert groups == [(0, 2), (3, 5), (6, 8), (9, 9)]
    assert set(zip(matrix["late_first"], matrix["late_last"], strict=True)) == {(6, 8)}
    assert matrix["wait_ns"].tolist() == [3 * 4_000_000, 3 * 4_000_000, 2 * 4_000_000, 4_000_000]
    shown = set(section.tables["segments"]["rank"])
    assert len(shown) == 4
    assert 7 in shown
    assert ranks.GROUPED.format(size=3) in section.notes
    assert ranks.SELECTED.format(shown=4, all=10) in section.notes


def test_the_picture_of_a_thousand_ranks_has_those_that_matter() -> None:
    """A quarter are those that others wait for longest, a quarter those that wait longest, the rest a sample."""
    count = 1_024
    table = pd.DataFrame({"waited_for_ns": np.arange(count), "wait_ns": np.arange(count)[::-1]})
    shown = ranks.drawn_ranks([Rank(number, number, number, "NCCL") for number in range(count)], table)
    numbers = [rank.number for rank in shown]
    assert len(numbers) == 64
    assert numbers == sorted(numbers)
    assert set(range(16)) | set(range(count - 16, count)) <= set(numbers)
    assert max(np.diff(numbers)) < 50


def test_two_reports_give_the_numbers_of_one_report_with_both_ranks(real_trace: RealTrace) -> None:
    """The clock of the second report is 5 ms ahead."""
    whole = real_trace("ranks/loader")
    joined = join(split(whole, [0, 5_000_000]), "job")
    context = find_context(joined.trace, Settings(launched_as=joined.launched_as))
    found = run_section(ranks, context, choose_window(context))
    for name, table in section_of(whole).tables.items():
        pd.testing.assert_frame_equal(found.tables[name], table)


def test_a_report_names_the_gpus_of_its_ranks_in_the_timeline() -> None:
    report = build_report(trace_of(job(3, 8, {1: 400_000})), with_timeline=True)
    assert report.timeline is not None
    labels = [row.label for row in report.timeline.rows]
    assert labels[:3] == ["rank 0, steps", "rank 1, steps", "rank 2, steps"]
    gpus = labels.index("rank 0, GPU 0")
    assert labels[gpus : gpus + 3] == ["rank 0, GPU 0", "rank 1, GPU 1", "rank 2, GPU 2"]
    assert "rank 1, stream 8" in labels
