"""The tool that judges planted faults of one rank: its cases, its cuts, and its table."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import fault_captures
import judge_ranks as tool
import pytest
from rank_cases import CASES
from real_captures import RealReport

ROOT = Path(__file__).resolve().parents[2]


def test_each_fault_of_the_program_is_a_case() -> None:
    for case in CASES.values():
        assert f'"{case.fault}"' in (ROOT / "workloads" / "ranks" / f"{case.program}.py").read_text()
        assert set(case.fixed) <= set(CASES)
    assert sum(case.rank is not None for case in CASES.values()) >= 6


def test_committed_cases_are_committed() -> None:
    there = {path.name.removesuffix(".sqlite.xz") for path in tool.CAPTURES.glob("*.xz")}
    assert there == {name for name, case in CASES.items() if case.committed}


@pytest.mark.parametrize("name", ["loader", "uneven_input", "balanced"])
def test_a_report_is_judged_by_its_first_finding(real_report: RealReport, name: str) -> None:
    report = real_report(f"ranks/{name}")
    assert tool.is_right(CASES[name], report)
    other = CASES["checkpoints"]
    assert not tool.is_right(other, report)


def test_a_row_has_predicted_and_measured_savings(real_report: RealReport) -> None:
    report = real_report("ranks/loader")
    fixed = replace(report.window, end_ns=report.window.end_ns - 30_000_000 * (report.step.count or 0))
    row = tool.row("loader", {"loader": report, "balanced": replace(report, window=fixed)})
    assert "| rank 1: `idle/data_wait`, data |" in row
    assert row.endswith("| 30.0 | yes | yes |")
    in_turns = tool.row("loader", {"loader": report}, {"loader": (60.0, 50.0), "balanced": (17.0, 13.0)})
    assert in_turns.endswith("| 40.0 | no | no |")


def test_a_packed_capture_keeps_the_same_steps_of_each_rank(
    captures: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The marks of one rank begin a step later; the collectives of both are still those of the same steps."""
    monkeypatch.setattr(tool, "FIRST_STEPS", 1)
    export = tmp_path / "one_later.sqlite"
    shutil.copyfile(captures("ranks/balanced"), export)
    export.chmod(0o644)
    every = fault_captures.steps_of_processes(export, tool.STEP)
    later, first = next((process, steps[0][0]) for process, steps in every.items())
    with closing(sqlite3.connect(export)) as database:
        database.execute("DELETE FROM NVTX_EVENTS WHERE start = ? AND globalTid >> 24 = ?", (first, later))
        database.commit()
    tool.pack(export, tmp_path / "small.sqlite.xz", 3)
    collectives = (
        "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.shortName "
        "WHERE s.value LIKE 'nccl%' GROUP BY k.globalPid"
    )
    with closing(sqlite3.connect(fault_captures.unpack(tmp_path / "small.sqlite.xz", tmp_path))) as database:
        (one,), (other,) = database.execute(collectives).fetchall()
    assert one == other > 0
