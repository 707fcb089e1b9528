"""The programs behind `make overhead`: what runs in which turn, what is compared, and the page of the results."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import measure_overhead
import overhead_page
import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools"
MS = 1_000_000


def interval(low: int, point: int, high: int) -> dict[str, int]:
    """Return a time in ms as report.json has it."""
    return {f"{name}_ns": each * MS for name, each in (("low", low), ("point", point), ("high", high))}


def run(
    median: int,
    found: tuple[int, int, int] | None,
    plan: tuple[tuple[str, tuple[int, int, int]], ...] = (),
    *,
    rule: str | None = "idle/cpu",
    busy: int | None = None,
) -> dict[str, Any]:
    """Return what is kept of a program and its report, in ms. Its mean step is 10 ms longer than the median."""
    step = {"recorded_ns": 30 * MS, "alone": None if found is None else interval(*found)}
    planned = [{"rule": name, "step": interval(*each)} for name, each in plan]
    report: dict[str, Any] = {"step": step, "plan": planned, "verdict": "V.", "verdict_rule": rule, "findings": []}
    report |= {"busy_ns": busy and busy * MS, "own_ns": 22 * MS}
    turns = [median * MS, median * MS * 11 // 10]
    return {"median_ns": median * MS, "mean_ns": (median + 10) * MS, "turns_ns": turns, "report": report}


def row(fault: dict[str, Any], fix: dict[str, Any] | None = None, *rules: str) -> dict[str, Any]:
    return {"program": "faults.some_program", "rules": rules, "fault": fault} | ({} if fix is None else {"fix": fix})


def test_the_step_alone_of_a_report_is_compared_with_the_measured_one() -> None:
    """So is that of the fixed program."""
    lines = list(overhead_page.lines([row(run(20, (19, 21, 22)), run(10, None))]))
    assert lines[:2] == [
        "| some program | 20.00 | 10 % | 30.00 | 21.00 (19.00 to 22.00) | +5.0 % | +10.0 % | yes |",
        "| some program, fixed | 10.00 | 10 % | 30.00 | none |  | +120.0 % |  |",
    ]


@pytest.mark.skipif(Path("/proc/driver/nvidia/version").exists(), reason="this machine has a GPU")
def test_without_a_gpu_the_page_can_be_written_again(tmp_path: Path) -> None:
    results, page = tmp_path / "results.json", tmp_path / "page.md"
    results.write_text(json.dumps({"programs": [row(run(20, (21, 22, 23)))], "machine": {}}))
    words = [sys.executable, str(TOOLS / "measure_overhead.py"), "--results", str(results), "--page", str(page)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, page.exists()) == (1, False)
    assert "needs an NVIDIA GPU" in done.stderr
    assert subprocess.run([*words, "--again"], check=False).returncode == 0
    assert "| some program |" in page.read_text()


def test_the_committed_page_is_that_of_the_committed_results() -> None:
    results = json.loads((ROOT / "reports" / "overhead.json").read_text(encoding="utf-8"))
    assert (ROOT / "docs" / "overhead.md").read_text(encoding="utf-8") == overhead_page.page(results)


def test_a_verdict_that_the_profiler_made_is_counted() -> None:
    """It says that the GPU waits, and alone the GPU is busy: its work takes 29 of 30 ms."""
    rows = [row(run(20, (19, 20, 21), busy=29)), row(run(20, (19, 20, 21), busy=29, rule=None))]
    said = overhead_page.page({"programs": [*rows, row(run(20, (19, 20, 21), busy=2))], "machine": {}}).replace(
        "\n", " "
    )
    assert "A turn without nsys is off from the other turns of its program by 9.5 % (median), 10.0 % (90th" in said
    assert (
        "The steps that 3 recorded processes took before they were recorded are off from those alone by 10.0 %" in said
    )
    assert "and the reports from these steps by 9.1 % (median)" in said
    assert "2 of 3 programs keep the GPU busy for more than 90 % of the time alone." in said
    assert "The verdicts of 1 of these say" in said
    assert "- some program, 97 % busy: V." in said


def test_kept_exports_are_analyzed_again(tmp_path: Path) -> None:
    """The report of the export replaces the one in the results; the measured steps stay."""
    kept = ROOT / "tests" / "captures" / "faults" / "launch_bound.sqlite.xz"
    (tmp_path / "faults.some_program.sqlite.xz").write_bytes(kept.read_bytes())
    program = row(run(20, None), run(10, None))
    measure_overhead.analyze_again([program], tmp_path)
    assert program["fault"]["median_ns"] == 20 * MS
    assert program["fault"]["report"]["busy_ns"] > 0
    assert program["fault"]["report"]["own_ns"] is None
    assert program["fix"]["report"]["verdict"] == "V."
