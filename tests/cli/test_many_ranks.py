"""The report of many ranks has the numbers of a report that analyses each of them, and details of a few."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from rank_generator import REDUCE, Clock, Job, exports
from real_captures import more

from nsyswrap.base.errors import ExportError
from nsyswrap.cli.many_ranks import report_of_many
from nsyswrap.cli.rank_reader import RankCapture
from nsyswrap.cli.rank_reports import report_of_all
from nsyswrap.compare.reports import compare_reports
from nsyswrap.gate.reports import parts_of
from nsyswrap.loop.context import NO_SETTINGS
from nsyswrap.model import Finding, Report

RANKS, LATE = 10, 7
TABLES = (("ledger", "devices"), ("idle", "attribution"), ("communication", "collectives"), ("communication", "waits"))


def sources(job: Job, folder: Path) -> list[RankCapture]:
    paths = exports(job, folder)
    return [RankCapture(path, f"rank-{rank}/capture.sqlite", rank, job.ranks) for rank, path in enumerate(paths)]


def planted(*, hosts: bool) -> Job:
    """Return a job in which rank 7 is late; with ``hosts``, each rank has another clock that drifts."""
    delays = [[(900_000 if rank == LATE else 1000 * rank) + 100 * step for step in range(9)] for rank in range(RANKS)]
    clocks = [Clock(rank * 700_000, 5.0 * rank, -1_000_000 - 5000 * rank) for rank in range(RANKS)] if hosts else []
    return Job(delays, clocks=clocks, pause=100_000_000 if hosts else 0)


def late(report: Report) -> list[Finding]:
    return [each for each in report.findings if each.rule == "ranks/late"]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Report, Report]]:
    """Return a function that gives both reports of a job by the window, made once; of all of it with several hosts."""

    @cache
    def made(window: str) -> tuple[Report, Report]:
        captures = sources(planted(hosts=window == "all"), tmp_path_factory.mktemp(window))
        many = report_of_many(captures, NO_SETTINGS, window)
        return many, report_of_all(captures, NO_SETTINGS, window, with_timeline=False)

    return made


@pytest.mark.parametrize("window", ["steps", *more("all")])
def test_all_ranks_have_the_numbers_of_a_full_analysis(
    window: str, reports: Callable[[str], tuple[Report, Report]]
) -> None:
    many, whole = reports(window)
    assert many.window == whole.window
    assert many.gpus == whole.gpus
    for section, table in TABLES:
        one, other = many.section(section), whole.section(section)
        assert one is not None
        assert other is not None
        assert one.tables[table].equals(other.tables[table])
        assert one.facts == other.facts


def test_a_step_has_the_same_parts_as_in_a_full_analysis(reports: Callable[[str], tuple[Report, Report]]) -> None:
    """Time of all GPUs is divided by all, and that of the ranks in detail by these: all ranks run the same kernels."""
    many, whole = reports("steps")
    found = compare_reports([whole], [many], ("whole", "many"))
    for key in ("ledger", "idle", "idle_in_phases", "families", "kernels"):
        changes = found.table(key).changes  # type: ignore[union-attr]
        assert changes
        for one in changes:
            if REDUCE not in one.name:
                assert (one.new, one.new_count) == (one.base, one.base_count), (key, one.name)
    parts = parts_of(many, many.step.count or 0)
    assert sum(parts.values()) == pytest.approx(many.step.mean_in(many.window))


def test_the_ranks_in_detail_are_those_that_matter_with_a_reason(
    reports: Callable[[str], tuple[Report, Report]],
) -> None:
    report, _ = reports("steps")
    (found,) = late(report)
    assert found.headline.startswith("Rank 7 is late by 831 µs a step: its data loader; 9 ranks wait.")
    ledger, idle = report.section("ledger"), report.section("idle")
    assert ledger is not None
    assert idle is not None
    assert ledger.tables["devices"]["rank"].tolist() == list(range(RANKS))
    note = ledger.notes[-1]
    assert note.startswith(
        "The ledger, idle time by cause, the collectives and the waits are of all 10 ranks. All else is of"
    )
    assert "rank 7: others wait for it" in note
    assert "rank 0: it waits longest" in note
    assert {7, 0} <= set(idle.tables["gaps"]["device_id"].tolist())
    assert len(set(idle.tables["gaps"]["device_id"].tolist())) < RANKS


def test_a_capture_that_cannot_be_read_is_left_out_with_its_name(tmp_path: Path) -> None:
    captures = sources(planted(hosts=False), tmp_path)
    captures[4].path.write_bytes(b"SQLite format 3\x00 and no more")
    report = report_of_many(captures, NO_SETTINGS, "")
    assert any(note.startswith("rank-4/capture.sqlite is left out: ") for note in report.notes)
    assert any(note.startswith("9 of 10 ranks are here.") for note in report.notes)
    assert len(late(report)) == 1


def test_without_any_readable_capture_there_is_no_report(tmp_path: Path) -> None:
    captures = sources(replace(planted(hosts=False), ends_after={}), tmp_path)[:2]
    for each in captures:
        each.path.write_bytes(b"nothing")
    with pytest.raises(ExportError, match=r"rank-0/capture\.sqlite"):
        report_of_many(captures, NO_SETTINGS, "")
