"""The tools for the planted faults: what they need, how they cut captures, and how they judge a fault."""

import importlib
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from export_builder import ExportBuilder, trace_of

from nsyswrap.model import Report
from nsyswrap.report import build_report
from nsyswrap.trace.load import load_export
from nsyswrap.trace.tables import KERNELS

tools = importlib.import_module

TOOLS = Path(__file__).resolve().parents[2] / "tools"
MS = 1_000_000


def loop(step: int, wait: int, steps: int = 10, *, late: int = 0) -> ExportBuilder:
    """Return steps of ``step`` ms; in each, the GPU waits ``wait`` ms for the data loader."""
    made = ExportBuilder().gpu().os_call("read", 0, 1)
    made.call("cudaMalloc", 1, 2, correlation=900)
    for number in range(steps):
        at = (100 + number * step) * MS
        made.range(f"batch {number}", at, at + step * MS).range("data", at, at + (wait + late) * MS)
        made.os_call("poll", at, at + (wait + late) * MS)
        made.kernel(at + wait * MS, at + step * MS, "k", launched=(at + wait * MS - 9, at + wait * MS - 5), gridX=9000)
    return made


def report(builder: ExportBuilder) -> Report:
    return build_report(trace_of(builder))


def test_the_samples_of_the_host_lie_beside_a_capture_of_its_faults(tmp_path: Path) -> None:
    """They explain what the capture alone does not show, so the table reads them."""
    judge = tools("judge_faults")
    chosen = SimpleNamespace(whole=tmp_path / "whole", captures=tmp_path / "cut")
    for folder in (chosen.whole, chosen.captures):
        folder.mkdir()
    folder = tmp_path / "profile"
    folder.mkdir()
    loop(20, 10).write(folder / "capture.sqlite")
    (folder / "host.json").write_text("{}")
    for name in ("memory_mapped-fixed", "launch_bound", "shared_core"):
        assert judge.pack(name, folder, chosen) == ""
    kept = [path.name for path in sorted(chosen.captures.glob("*.json"))]
    assert kept == ["memory_mapped-fixed.json", "shared_core.json"]
    assert (chosen.whole / "memory_mapped-fixed.json").exists()


def test_each_root_cause_has_three_programs_and_a_librarys_loop() -> None:
    module = tools("fault_programs")
    assert module.shortages(module.find_programs(TOOLS.parent / "workloads" / "faults")) == []


def test_a_capture_that_is_too_large_keeps_its_first_steps(tmp_path: Path) -> None:
    captures = tools("fault_captures")
    export = loop(20, 12, steps=60).write(tmp_path / "whole.sqlite")
    captures.pack(export, tmp_path / "all.sqlite.xz")
    whole = (tmp_path / "all.sqlite.xz").stat().st_size
    kept = captures.pack(export, tmp_path / "small.sqlite.xz", whole - 400)
    assert 4 <= kept < 60
    assert (tmp_path / "small.sqlite.xz").stat().st_size <= whole - 400
    assert len(load_export(captures.unpack(tmp_path / "small.sqlite.xz", tmp_path))[KERNELS]) == kept
    with pytest.raises(ValueError, match="no four steps"):
        captures.pack(export, tmp_path / "none.sqlite.xz", 100)


def test_counts_that_nsys_wrote_down_are_those_that_are_left(tmp_path: Path) -> None:
    captures = tools("fault_captures")
    builder = loop(20, 12).row("DIAGNOSTIC_EVENT", severity=1, text="Number of CUDA events collected: \t21.")
    export = builder.write(tmp_path / "whole.sqlite")
    captures.pack(export, tmp_path / "small.sqlite.xz")
    with closing(sqlite3.connect(captures.unpack(tmp_path / "small.sqlite.xz", tmp_path))) as database:
        (text,) = database.execute("SELECT text FROM DIAGNOSTIC_EVENT").fetchone()
    assert text == "Number of CUDA events collected: \t20."


def test_a_fault_is_judged_by_both_reports() -> None:
    """Steps of 20 ms become steps of 8 ms, so each of the eight measured steps saves a wait of 12 ms."""
    table = tools("fault_table")
    faulty, fixed = report(loop(20, 12)), report(loop(8, 0))
    verdict = table.judge("few", "idle/data_wait", faulty, fixed)
    assert verdict.is_first
    assert (verdict.steps, verdict.measured_ns, verdict.faulty_ns) == (8, 96 * MS, 160 * MS)
    assert verdict.is_near
    assert verdict.fixed == ()


@pytest.mark.parametrize(("point", "near"), [(74, False), (75, True), (100, True), (125, True), (126, False)])
def test_a_prediction_is_near_within_a_quarter(
    point: int,
    near: bool,  # noqa: FBT001
) -> None:
    table = tools("fault_table")
    verdict = table.judge("few", "idle/data_wait", *[report(loop(20, 12))] * 2)
    assert replace(verdict, point_ns=point, measured_ns=100).is_near == near


def test_the_committed_page_is_that_of_the_committed_results() -> None:
    """The plans on it are compared by tests/tools/test_plans.py."""
    table, root = tools("fault_table"), TOOLS.parent
    programs = tools("fault_programs").find_programs(root / "workloads" / "faults")
    head, tail = table.page(table.read(root / "reports" / "faults.json"), programs, ["PLANS"]).split("PLANS")
    text = (root / "docs" / "faults.md").read_text()
    assert text.startswith(head)
    held_out = tools("held_out")
    assert text.endswith(f"\n\n{held_out.section(held_out.RESULTS)}{tail}")


def test_a_program_that_no_rule_was_written_with_is_judged_by_its_median_step() -> None:
    held_out = tools("held_out")
    saving = {"low_ns": 0, "point_ns": 800, "high_ns": 900}
    found = {"rule": "a/first", "severity": "warning", "headline": "", "saving": saving}
    note = {**found, "rule": "a/note", "severity": "note"}
    faulty, fixed = (
        {"findings": rows, "step": {"count": 4, "alone": {"point_ns": ns}, "recorded_ns": 9000}}
        for rows, ns in (([found, note], 1000), ([note], 750))
    )
    row = held_out.judged("program", "a/first", faulty, fixed)
    assert (row["raised"], row["fixed"], row["saved_ns"], row["predicted"]["point_ns"]) == (["a/first"], [], 250, 200)
    assert held_out.judged("program", "a/other", faulty, fixed)["predicted"] is None
