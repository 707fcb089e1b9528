"""The programs behind `make overhead`: what runs, what is compared, and the page of the results."""

import importlib.util
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools"


NAMES = ("overhead_page", "measure_overhead", "overhead_turns")
PAGE, MEASURE, TURNS = map(importlib.import_module, NAMES)


def interval(point: int, low: int, high: int) -> dict[str, int]:
    """Return a simulated time in ms as report.json has it."""
    return {f"{name}_ns": each * 10**6 for name, each in (("low", low), ("point", point), ("high", high))}


def row(alone: tuple[int, ...], *simulated: tuple[int, int, int] | None) -> dict[str, Any]:
    """Return the row of a program, in ms: its runs alone, and what each profile simulates: usual, least, most."""
    steps = [{"recorded_ns": 30 * 10**6, "alone": None if each is None else interval(*each)} for each in simulated]
    profiles = [{"step": each} for each in steps]
    return {"program": "some_program", "alone_ns": [each * 10**6 for each in alone], "profiles": profiles}


UNKNOWN = None


def test_simulated_steps_are_compared_with_the_steps_alone_round_by_round() -> None:
    """The machine was twice as slow in the second round: medians over all would mix the rounds."""
    good = row((10, 20, 20), (11, 9, 12), (22, 21, 25), (20, 20, 20))
    assert PAGE.off_share(good) == pytest.approx(0.10)
    assert PAGE.line(good) == (
        "| some program | 10.00, 20.00, 20.00 | 30.00, 30.00, 30.00 | 1.50 times | 11.00 (9.00 to 12.00), "
        "22.00 (21.00 to 25.00), 20.00 (20.00 to 20.00) | +10.0 % | 2 of 3 |"
    )
    unknown = row((20, 22), UNKNOWN, UNKNOWN)
    assert PAGE.off_share(unknown) is None
    assert "not simulated |  | 0 of 2 |" in PAGE.line(unknown)


@pytest.mark.parametrize(("low", "high", "held"), [(18, 24, True), (20, 24, True), (21, 24, False), (10, 19, False)])
def test_an_interval_holds_the_step_alone(low: int, high: int, *, held: bool) -> None:
    assert PAGE.is_held({"alone": {"low_ns": low, "high_ns": high}}, 20) == held


def test_the_page_counts_the_programs_that_are_near_and_the_intervals_that_hold() -> None:
    """One is exact, one is 9.5 % off, one is 19 % off, one is not simulated, and one is 19 % off in one round only."""
    rows = [row((21, 21), (usual, usual - 1, usual + 1), (usual, usual, usual)) for usual in (21, 23, 17)]
    rows.append(row((21, 21), (25, 24, 25), (21, 21, 21)))
    rows.append(row((20, 22), UNKNOWN, UNKNOWN))
    page = PAGE.page({"programs": rows, "options": [], "machine": {}})
    counts = (
        "Of 5 programs, the simulated step is within 10 % of the step alone for 3: the median of its rounds. Of 10 "
        "single rounds, 5 are. Of 10 intervals, 3 hold the step alone."
    )
    assert counts in " ".join(page.split())
    assert page.count("| some program |") == 5
    assert "Nothing was measured yet." in page
    assert "## Options" not in page


def test_the_page_names_the_machine_its_costs_and_its_options() -> None:
    call = {"alone_ns": 2400, "low_ns": 3000, "usual_ns": 5200, "high_ns": 7900}
    cost = {"conditions": {"cpu": "A CPU"}, "calls": {"graph_node": call}}
    versions = {"driver": "580", "nsys": "2025.3.1", "python": "3.12", "torch": "2.11", "cores": 16}
    machine = {"gpus": ["A GPU"], "cost": cost, **versions}
    runs = {"alone": 10, "the default": 15, "--light": 12}
    page = PAGE.page({"programs": [], "options": [{"program": "a_b", "runs": runs}], "machine": machine})
    assert "Measured on: A GPU, driver 580, 16 cores of A CPU, nsys 2025.3.1, Python 3.12, torch 2.11." in page
    assert "| graph node | 2.40 | 3.00 | 5.20 | 7.90 |" in page
    assert "| recorded | a b |\n|---|---|\n| the default | 1.50 |\n| --light | 1.20 |\n" in page


@pytest.mark.skipif(Path("/proc/driver/nvidia/version").exists(), reason="this machine has a GPU")
def test_without_a_gpu_the_results_that_are_there_can_be_written_again(tmp_path: Path) -> None:
    results, page = tmp_path / "results.json", tmp_path / "page.md"
    results.write_text(json.dumps({"programs": [row((20,), (21, 20, 22))], "options": [], "machine": {}}))
    words = [sys.executable, str(TOOLS / "measure_overhead.py"), "--results", str(results), "--page", str(page)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, page.exists()) == (1, False)
    assert "needs an NVIDIA GPU" in done.stderr
    assert subprocess.run([*words, "--again"], check=False).returncode == 0
    assert "| some program |" in page.read_text()


def test_the_committed_page_is_that_of_the_committed_results() -> None:
    results = json.loads((ROOT / "reports" / "overhead.json").read_text(encoding="utf-8"))
    assert (ROOT / "docs" / "overhead.md").read_text(encoding="utf-8") == PAGE.page(results)


@pytest.mark.slow
def test_a_program_times_each_step(tmp_path: Path) -> None:
    """The program runs on this machine's CPU; the test is skipped without torch."""
    pytest.importorskip("torch")
    times = tmp_path / "times.json"
    subprocess.run([sys.executable, str(TURNS.PROGRAM), "items", "--steps", "3", "--times", str(times)], check=True)
    found = json.loads(times.read_text())
    assert len(found["items"]) == 3
    assert all(each > 0 for each in found["items"])


# Makes steps in each turn, as the programs do, and without torch: with a length that tells its turn.
STEPS = """
import json, pathlib, socket, sys
name, _, address, _, parts, _, times = sys.argv[1:]
if name == "broken":
    sys.exit("it is broken")
connection, steps = socket.socket(socket.AF_UNIX), []
connection.connect(address)
lines = connection.makefile("rw")
log = pathlib.Path(times).parent / "log"
for number, line in enumerate(lines):
    with log.open("a") as file:
        file.write(f"{pathlib.Path(times).stem} on {line}")
    steps += [100 * number + each for each in range(18 // int(parts))]
    lines.write("over\\n")
    lines.flush()
pathlib.Path(times).write_text(json.dumps({name: steps}))
"""


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Put a program in place of ours; return an nsys that runs its last words, and records nothing."""
    program = tmp_path / "program.py"
    program.write_text(STEPS)
    monkeypatch.setattr(TURNS, "PROGRAM", program)
    nsys = tmp_path / "nsys"
    nsys.write_text('#!/bin/sh\nwhile [ "$1" != "$PYTHON" ]; do shift; done\nexec "$@"\n')
    nsys.chmod(0o755)
    monkeypatch.setenv("PYTHON", sys.executable)
    return str(nsys)


def test_a_program_takes_turns_with_itself_under_nsys(recorder: str, tmp_path: Path) -> None:
    """It makes a part of its steps in each turn, on the same cores. The program alone comes first and last."""
    folder = tmp_path / "items-0"
    folder.mkdir()
    TURNS.take_turns("items", folder, {"recorded": [recorder]}, [(0, 1)])
    turns = ["alone on 0 1", *["recorded on 0 1", "alone on 0 1"] * 6]
    assert (folder / "log").read_text().splitlines() == turns
    assert len(json.loads((folder / "recorded.json").read_text())["items"]) == 18


# In place of nsyswrap: runs the program, and writes a report.
PROFILE = """#!/bin/sh
while [ "$1" != "--output" ]; do shift; done
folder="$2"
while [ "$1" != "--" ]; do shift; done
shift
"$@" || exit
mkdir "$folder"
printf %s "$REPORT" > "$folder/report.json"
"""


def test_each_round_compares_a_profile_with_the_steps_alone(
    recorder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The steps of the warm-up are left out of those alone, too; a program that fails has no row."""
    Path(recorder).write_text(PROFILE)
    monkeypatch.setattr(MEASURE, "NSYSWRAP", (recorder,))
    step = {"recorded_ns": 400, "alone": dict.fromkeys(("low_ns", "point_ns", "high_ns"), 300)}
    facts = {"warm_up_steps": {"value": 1}}, {"prediction_error_share": {"value": 0.01}}
    sections = {name: {"facts": each} for name, each in zip(("steps", "prediction"), facts, strict=True)}
    report = {"step": step, "verdict": "v", "verdict_rule": "idle/cpu", "sections": sections}
    monkeypatch.setenv("REPORT", json.dumps(report))
    folder, keep = tmp_path / "all", tmp_path / "keep"
    folder.mkdir()
    rows = list(MEASURE.by_turns(["items", "broken"], folder, keep, math.inf, 2))
    profile = {"step": report["step"], "verdict": "v", "verdict_rule": "idle/cpu", "error_share": 0.01, "calls": []}
    row = {"program": "items", "alone_ns": [302, 302], "steps": 20, "profiles": [profile, profile]}
    assert rows == [(row, folder / "items-1" / "profile")]
    assert (keep / "items-0" / "profile" / "report.json").is_file()
    assert "broken: exit code 1: it is broken" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("cores", "pairs"),
    [({3}, [(3, 3)]), ({0, 1}, [(0, 1)]), (set(range(32)), [(6, 7), (14, 15), (22, 23), (30, 31)])],
)
def test_the_cores_of_the_turns_are_neighbours(
    monkeypatch: pytest.MonkeyPatch, cores: set[int], pairs: list[tuple[int, int]]
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: cores)
    assert TURNS.pairs_of_cores() == pairs


def test_the_turns_have_the_cores_that_are_the_fastest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each pair, the slower core counts."""
    times = {0: 5.0, 1: 9.0, 2: 7.0, 3: 8.0, 4: 4.0, 5: 20.0}
    monkeypatch.setattr(TURNS, "pace_ns", times.__getitem__)
    before = os.sched_getaffinity(0)
    assert TURNS.fastest([(0, 1), (2, 3), (4, 5)]) == (2, 3)
    assert os.sched_getaffinity(0) == before


def test_the_work_that_shows_the_pace_is_timed_on_its_core() -> None:
    before = os.sched_getaffinity(0)
    try:
        assert TURNS.pace_ns(min(before)) > 10_000
        assert os.sched_getaffinity(0) == {min(before)}
    finally:
        os.sched_setaffinity(0, before)


def test_a_program_that_fails_at_its_start_ends_the_turns(recorder: str, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="exit code 1: it is broken"):
        TURNS.take_turns("broken", tmp_path, {"recorded": [recorder]}, [(0, 1)])


def test_each_set_of_options_has_its_turn(recorder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The medians are those of the later half of the steps; each turn tells its number by their lengths."""
    monkeypatch.setattr("nsyswrap.capture.locate.find_nsys", lambda: SimpleNamespace(path=recorder))
    monkeypatch.setattr(MEASURE, "OPTIONS", {"the default": (), "--light": ("--trace=cuda",)})
    monkeypatch.setattr(MEASURE, "OF_OPTIONS", ("items",))
    found = MEASURE.of_options(tmp_path)
    assert found == [{"program": "items", "runs": {"alone": 500, "the default": 401, "--light": 401}}]
    turns = [line.split()[0] for line in (tmp_path / "items-options" / "log").read_text().splitlines()]
    assert turns == ["alone", *["option-0", "option-1", "alone"] * 6]


def test_the_programs_to_compare_are_there() -> None:
    """There are at least ten programs, three of them from installed libraries, and the programs for the options."""
    source = (TOOLS / "overhead_programs.py").read_text(encoding="utf-8")
    assert len(MEASURE.PROGRAMS) >= 10
    assert all(f"def {name}(" in source for name in (*MEASURE.PROGRAMS, *MEASURE.OF_OPTIONS))
    assert all(f"import {name}" in source or f"from {name}" in source for name in ("timm", "lightning", "transformers"))
