"""The programs behind `make overhead`: what runs in which turn, what is compared, and the page of the results."""

import importlib.util
import json
import subprocess
import sys
import threading
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
    busy: int | None = None,
) -> dict[str, Any]:
    """Return what is kept of a program and its report, in ms. Its mean step is 10 ms longer than the median."""
    step = {"recorded_ns": 30 * MS, "alone": None if found is None else interval(*found)}
    planned = [{"rule": name, "step": interval(*each)} for name, each in plan]
    report = {"step": step, "plan": planned, "verdict": "V.", "verdict_rule": rule, "findings": []}
    report["busy_ns"] = busy and busy * MS
    return {"median_ns": median * MS, "mean_ns": (median + 10) * MS, "report": report}


def row(fault: dict[str, Any], fix: dict[str, Any] | None = None, *rules: str) -> dict[str, Any]:
    """Return the row of a program."""
    return {"program": "faults.some_program", "rules": rules, "fault": fault} | ({} if fix is None else {"fix": fix})


def test_the_step_alone_of_a_report_is_compared_with_the_measured_one() -> None:
    """So is that of the fixed program."""
    lines = list(PAGE.lines([row(run(20, (19, 21, 22)), run(10, None))]))
    assert lines[:2] == [
        "| some program | 20.00 | 30.00 | 1.50 | 21.00 (19.00 to 22.00) | +5.0 % | yes |",
        "| some program, fixed | 10.00 | 30.00 | 3.00 | none |  |  |",
    ]


@pytest.mark.parametrize(("high", "known"), [(30, True), (31, False)])
def test_what_a_report_calls_unknown_is_not_compared(high: int, *, known: bool) -> None:
    """That is a range wider than a factor of 3, of a step and in a plan."""
    program = row(run(20, (10, 20, high), (("a", (10, 20, high)),)), run(10, None), "a")
    assert (PAGE.steps_of([program])[0].found is not None) == known
    assert (PAGE.plans_of([program])[0].found is not None) == known


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


@pytest.mark.parametrize("is_alone", [False, True])
def test_runs_take_turns_in_order_on_the_same_cores(program: Path, tmp_path: Path, *, is_alone: bool) -> None:
    """Of each turn the later steps count. A program that runs once more has a turn once more."""
    words = [sys.executable, str(program), "SOCKET"]
    runs = {kind: TURNS.Run([*words, kind, str(tmp_path / "log")]) for kind in ("fault", "once")}
    runs["once"] = runs["once"]._replace(is_late=True, is_alone=is_alone)
    found = TURNS.take_turns(runs, ("fault", "once", "fault"), (1, 2), threading.Lock())
    assert found == {"fault": [[0], [1]], "once": []}
    turns = ["fault on 1 2", "once on 1 2", "fault on 1 2"]
    assert sorted((tmp_path / "log").read_text().splitlines()) == sorted([*turns, "once on 1 2"])


def test_a_program_that_fails_at_its_start_ends_the_turns(program: Path, tmp_path: Path) -> None:
    runs = {"broken": TURNS.Run([sys.executable, str(program), "SOCKET", "broken", str(tmp_path)])}
    with pytest.raises(OSError, match="exit code 1: it is broken"):
        TURNS.take_turns(runs, ("broken",), (0,), threading.Lock())


@pytest.mark.slow
def test_a_program_makes_its_steps_in_turns() -> None:
    """The program runs on this machine's CPU; the test is skipped without torch."""
    pytest.importorskip("torch")
    words = [sys.executable, TURNS.__file__, "SOCKET", "faults.launch_bound", "--steps", "150", "--device", "cpu"]
    found = TURNS.take_turns({"fault": TURNS.Run(words)}, ("fault", "fault", "fault"), (0,), threading.Lock())
    assert [len(each) for each in found["fault"]] == [30, 30]
    assert all(each > 0 for turn in found["fault"] for each in turn)


def test_a_verdict_that_the_profiler_made_is_counted() -> None:
    """It says that the GPU waits, and alone the GPU is busy: its work takes 29 of 30 ms."""
    rows = [row(run(20, (19, 20, 21), busy=29)), row(run(20, (19, 20, 21), busy=29, rule=None))]
    said = PAGE.page({"programs": [*rows, row(run(20, (19, 20, 21), busy=2))], "machine": {}})
    assert "2 of 3 programs keep the GPU busy for more than 90 % of the time alone." in said
    assert "The verdicts of 1 of these say" in said.replace("\n", " ")
    assert "- some program, 97 % busy: V." in said


def test_kept_exports_are_analyzed_again(tmp_path: Path) -> None:
    """The report of the export replaces the one in the results; the measured steps stay."""
    kept = ROOT / "tests" / "captures" / "faults" / "launch_bound.sqlite.xz"
    (tmp_path / "faults.some_program.sqlite.xz").write_bytes(kept.read_bytes())
    program = row(run(20, None), run(10, None))
    MEASURE.analyze_again([program], tmp_path)
    assert program["fault"]["median_ns"] == 20 * MS
    assert program["fault"]["report"]["busy_ns"] > 0
    assert program["fix"]["report"]["verdict"] == "V."
