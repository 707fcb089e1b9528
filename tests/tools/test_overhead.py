"""The programs behind `make overhead`: what runs in which turn, what is compared, and the page of the results."""

import argparse
import importlib.util
import json
import math
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools"
MS = 1_000_000


def tool(name: str) -> ModuleType:
    """Return a program of tools/ as a module."""
    sys.path.insert(0, str(TOOLS))
    try:
        spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(TOOLS))
    return module


PAGE, MEASURE, TURNS = map(tool, ("overhead_page", "measure_overhead", "overhead_turns"))


def interval(low: int, point: int, high: int) -> dict[str, int]:
    """Return a time in ms as report.json has it."""
    return {f"{name}_ns": each * MS for name, each in (("low", low), ("point", point), ("high", high))}


def run(
    median: int,
    found: tuple[int, int, int] | None,
    plan: tuple[tuple[str, tuple[int, int, int]], ...] = (),
    *,
    rule: str | None = "idle/cpu",
    busy: float | None = None,
) -> dict[str, Any]:
    """Return what is kept of a program and its report, in ms. Its mean step is 10 ms longer than the median."""
    step = {"recorded_ns": 30 * MS, "alone": None if found is None else interval(*found)}
    planned = [{"rule": name, "step": interval(*each)} for name, each in plan]
    report = {"step": step, "plan": planned, "verdict": "V.", "verdict_rule": rule, "findings": []}
    return {"median_ns": median * MS, "mean_ns": (median + 10) * MS, "busy": busy, "report": report}


def row(fault: dict[str, Any], fix: dict[str, Any] | None = None, *rules: str) -> dict[str, Any]:
    """Return the row of a program."""
    return {"program": "faults.some_program", "rules": rules, "fault": fault} | ({} if fix is None else {"fix": fix})


def test_the_step_alone_of_a_report_is_compared_with_the_measured_one() -> None:
    """So is that of the fixed program."""
    lines = list(PAGE.lines([row(run(20, (19, 21, 22)), run(10, None))]))
    assert lines[:2] == [
        "| some program | 20.00 | 30.00 | 1.50 times | 21.00 (19.00 to 22.00) | +5.0 % | yes |",
        "| some program, fixed | 10.00 | 30.00 | 3.00 times | none |  |  |",
    ]


@pytest.mark.parametrize(("high", "known"), [(30, True), (31, False)])
def test_what_a_report_calls_unknown_is_not_compared(high: int, *, known: bool) -> None:
    """That is a range wider than a factor of 3, of a step and in a plan."""
    program = row(run(20, (10, 20, high), (("a", (10, 20, high)),)), run(10, None), "a")
    assert (PAGE.steps_of([program])[0].found is not None) == known
    assert (PAGE.plans_of([program])[0].found is not None) == known


@pytest.mark.parametrize(("low", "high", "held"), [(18, 24, True), (20, 24, True), (21, 24, False), (10, 19, False)])
def test_a_range_holds_the_measured_step(low: int, high: int, *, held: bool) -> None:
    (found,) = PAGE.steps_of([row(run(20, (low, low, high)))])
    assert found.is_held == held


def test_the_first_changes_of_a_plan_are_compared_with_the_fixed_program() -> None:
    """They are compared where they are the planted faults. The plan has mean steps."""
    plan = (("b", (15, 16, 17)), ("a", (7, 9, 12)), ("c", (1, 2, 3)))
    fixed = run(0, None)
    (found,) = PAGE.plans_of([row(run(20, None, plan), fixed, "a", "b")])
    assert (found.before_ns, found.measured_ns, found.found) == (30 * MS, 10 * MS, interval(7, 9, 12))
    assert list(PAGE.lines([row(run(20, None, plan), run(10, None), "b")]))[-1] == (
        "| some program | 30.00 | 20.00 | 16.00 (15.00 to 17.00) | -20.0 % | no | 10 % |"
    )
    for rules in (("a",), ("a", "c"), ("d",)):
        assert [each.found for each in PAGE.plans_of([row(run(20, None, plan), fixed, *rules)])] == [None]
    assert PAGE.plans_of([row(run(20, None, plan))]) == []


def test_without_the_fault_first_in_the_plan_its_finding_is_compared() -> None:
    """Of ten steps of 30 ms, the finding saves 200 ms. Two faults have no such step."""
    fault = run(20, (19, 20, 21), (("b", (15, 16, 17)),))
    fault["report"]["findings"] = [{"rule": "a", "saving": interval(180, 200, 220)}]
    fault["report"]["step"] |= {"count": 10, "alone_source": "this_process", "total_ns": 310 * MS}
    fault["report"]["step"] |= {"alone_total_ns": 300 * MS}
    (found,) = PAGE.plans_of([row(fault, run(0, None), "a")])
    assert found.found["point_ns"] == 10 * MS
    assert found.found["low_ns"] == pytest.approx(8 * MS, rel=0.01)
    assert [each.found for each in PAGE.plans_of([row(fault, run(0, None), "a", "b")])] == [None]


def test_the_page_sums_up_errors_and_ranges() -> None:
    """Of ten errors the ninth is the 90th percentile; a report without a step counts as one without."""
    rows = [row(run(100, (100, 100 + each, 110))) for each in range(1, 11)]
    page = " ".join(PAGE.page({"programs": [*rows, row(run(100, None))], "machine": {}}).split())
    assert (
        "10 of 11 reports have a step alone. It is off by 5.5 % (median), 9.0 % (90th percentile). The range holds the "
        "measured step in 10 of them, and its median width is 10 % of the step. "
    ) in page
    assert "No report has a predicted step." in page


def test_the_page_names_verdicts_that_the_profiler_made() -> None:
    """They say that the GPU waits, and alone it is busy for more than nine tenths of the time."""
    made = run(20, None, busy=0.91)
    others = [run(20, None, busy=0.9), run(20, None, busy=1.0, rule="tensor_cores/not_used"), run(20, None)]
    page = " ".join(PAGE.page({"programs": [row(each) for each in (made, *others)], "machine": {}}).split())
    assert "Of 3 verdicts, 1 say that the GPU waits although it is busy for more than 90 % of the time alone." in page
    assert "- some program, 91 % busy: V." in page


def test_the_page_names_the_machine_and_its_costs() -> None:
    call = {"alone_ns": 4, "low_ns": 3000, "usual_ns": 5200, "high_ns": 10_000}
    cost = {"conditions": {"cpu": "A CPU"}, "calls": {"graph_node": call}}
    versions = {"driver": "580", "nsys": "2025.3.1", "python": "3.12", "torch": "2.11", "cores": 16}
    page = PAGE.page({"programs": [], "machine": {"gpus": ["A GPU"], "cost": cost, **versions}})
    assert "Measured on: A GPU, driver 580, 16 cores of A CPU, nsys 2025.3.1, Python 3.12, torch 2.11." in page
    assert "| graph node | <0.01 | 3.00 | 5.20 | 10.00 |" in page
    assert "Nothing was measured yet." in PAGE.page({"programs": [], "machine": {}})


@pytest.mark.skipif(Path("/proc/driver/nvidia/version").exists(), reason="this machine has a GPU")
def test_without_a_gpu_the_page_can_be_written_again(tmp_path: Path) -> None:
    results, page = tmp_path / "results.json", tmp_path / "page.md"
    results.write_text(json.dumps({"programs": [row(run(20, (19, 20, 21)))], "machine": {}}))
    words = [sys.executable, str(TOOLS / "measure_overhead.py"), "--results", str(results), "--page", str(page)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, page.exists()) == (1, False)
    assert "needs an NVIDIA GPU" in done.stderr
    assert subprocess.run([*words, "--again"], check=False).returncode == 0
    assert "| some program |" in page.read_text()


def test_the_committed_page_is_that_of_the_committed_results() -> None:
    results = json.loads((ROOT / "reports" / "overhead.json").read_text(encoding="utf-8"))
    assert (ROOT / "docs" / "overhead.md").read_text(encoding="utf-8") == PAGE.page(results)


def test_the_programs_to_measure_are_there() -> None:
    """The first of each planted fault come first; those that lie in the cores of a program are left out."""
    cases = MEASURE.find_cases()
    source = (TOOLS / "overhead_programs.py").read_text(encoding="utf-8")
    assert len(cases) == len({each.name for each in cases}) >= 40
    first = [each.rules for each in cases if each.name.startswith("faults.")]
    assert len(set(first)) == len({*first[: len(set(first))]})
    assert not {rule for each in cases for rule in each.rules} & set(MEASURE.OF_CORES)
    assert all(f"def {name}(" in source for name in MEASURE.UNPLANTED)


# Makes two steps in each turn; as "once", it has one turn and starts again, as a program that took no steps does.
PROGRAM = """
import pathlib, socket, sys
address, kind, log = sys.argv[1:]
if kind == "broken":
    sys.exit("it is broken")
for _ in range(2 if kind == "once" else 1):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address.replace("@", chr(0), 1))
    with connection, connection.makefile("rw") as lines:
        for number, line in enumerate(lines):
            with pathlib.Path(log).open("a") as file:
                file.write(f"{kind} on {line}")
            if kind == "once":
                break
            lines.write(f"[9, {number}]\\n")
            lines.flush()
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Return a program that takes turns."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def test_runs_take_turns_in_order_on_the_same_cores(program: Path, tmp_path: Path) -> None:
    """Of each turn the later steps count. A program that runs once more has a turn once more."""
    runs = {kind: [sys.executable, str(program), "SOCKET", kind, str(tmp_path / "log")] for kind in ("fault", "once")}
    held, names = threading.Lock(), []

    @contextmanager
    def during(name: str) -> Iterator[None]:
        assert held.locked()
        names.append(name)
        yield

    found = TURNS.take_turns(runs, ("fault", "once", "fault"), (1, 2), held, during)
    assert found == {"fault": [[0], [1]], "once": []}
    turns = ["fault on 1 2", "once on 1 2", "fault on 1 2"]
    assert sorted((tmp_path / "log").read_text().splitlines()) == sorted([*turns, "once on 1 2"])
    assert names == ["fault", "once", "fault"]


def test_a_program_that_fails_at_its_start_ends_the_turns(program: Path, tmp_path: Path) -> None:
    runs = {"broken": [sys.executable, str(program), "SOCKET", "broken", str(tmp_path)]}
    with pytest.raises(OSError, match="exit code 1: it is broken"):
        TURNS.take_turns(runs, ("broken",), (0,), threading.Lock(), nullcontext)


@pytest.mark.slow
def test_a_program_makes_its_steps_in_turns() -> None:
    """The program runs on this machine's CPU; the test is skipped without torch."""
    pytest.importorskip("torch")
    words = [sys.executable, TURNS.__file__, "SOCKET", "faults.launch_bound", "--steps", "150", "--device", "cpu"]
    found = TURNS.take_turns({"fault": words}, ("fault", "fault", "fault"), (0,), threading.Lock(), nullcontext)
    assert [len(each) for each in found["fault"]] == [30, 30]
    assert all(each > 0 for turn in found["fault"] for each in turn)


def test_each_result_is_written_when_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program that fails has no row, and none begins after the time is over. Alone, the median turn counts."""
    report = run(0, (19, 21, 22))["report"] | {"gpus": [{"name": "A GPU"}], "session": {"driver_version": "580"}}

    def turns(runs: dict[str, list[str]], order: list[str], *_: object) -> dict[str, list[list[int]]]:
        if "combined.broken" in runs["fault"]:
            raise OSError("it is broken")
        for words in runs.values():
            if "--output" in words:
                folder = Path(words[words.index("--output") + 1])
                folder.mkdir()
                (folder / "report.json").write_text(json.dumps(report))
                (folder / "run.json").write_text(json.dumps({"versions": {"nsys": "1"}, "profiler_cost": None}))
        assert order == ["fault", "fault profiled", "fault", "fix", "fix profiled", "fix"]
        return {"fault": [[10 * MS, 20 * MS, 60 * MS], [22 * MS]], "fix": [[5 * MS]]}

    monkeypatch.setattr(MEASURE.overhead_turns, "take_turns", turns)
    monkeypatch.setattr("os.sched_setaffinity", lambda *_: None)
    results: dict[str, Any] = {"programs": [], "machine": {}}
    chosen = argparse.Namespace(limit=math.inf, results=tmp_path / "results.json", program_arg=[], lanes=1)
    cases = [MEASURE.Case(f"combined.{name}", ("a",), ("--fixed",)) for name in ("broken", "whole")]
    MEASURE.measure_all(cases, results, chosen)
    (found,) = json.loads(chosen.results.read_text())["programs"]
    assert found["program"] == "combined.whole"
    assert found["fault"]["median_ns"] == 21 * MS
    assert found["fault"]["mean_ns"] == 26 * MS
    assert found["fix"]["turns_ns"] == [5 * MS]
    chosen.limit = -1
    MEASURE.measure_all(cases[1:], results, chosen)
    assert len(results["programs"]) == 1
    printed = capsys.readouterr().out
    assert "combined.broken: OSError('it is broken')" in printed
    assert "combined.whole: left out, the time is over" in printed
