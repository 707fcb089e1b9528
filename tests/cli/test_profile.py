"""`nsyswrap profile` from end to end with the real nsys and a small program with ranges. No GPU is needed."""

import importlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import commands
import pytest
from capture_fixtures import options, results_in

from nsyswrap.capture.locate import Nsys

SECRET = "v4lue-of-a-secret"  # noqa: S105 - planted to be looked for
SECRETS = {"MY_SERVICE_TOKEN": SECRET, "DATABASE_PASSWORD": f"{SECRET}-too", "HARMLESS": "words"}
PROGRAM = """
import sys, time
import nvtx
print("said by the program", *sys.argv[2:])
print("said on stderr", file=sys.stderr)
for number in range(6):
    with nvtx.annotate(f"step {number}"):
        with nvtx.annotate("data"):
            time.sleep(0.002)
        with nvtx.annotate("forward"):
            sum(range(20_000))
sys.exit(int(sys.argv[1]))
"""
# Options with the same names as ours, and a second `--`: all belong to the script.
WORDS = ["--window", "x", "-o", "y", "--", "--format", "z"]
RESULTS = ["capture.nsys-rep", "capture.sqlite", "report.html", "report.json", "run.json"]
FOR_EVERYONE = ["report.html", "report.json", "run.json"]
LONGEST_S = 120


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run."""

    folder: Path
    code: int
    stdout: str
    stderr: str

    def json(self, name: str) -> dict[str, Any]:
        """Return a file of the result."""
        found: dict[str, Any] = json.loads((self.folder / name).read_text(encoding="utf-8"))
        return found


def filled(place: Path) -> Path:
    """Return a folder with the program and a file that cannot be run."""
    place.mkdir(exist_ok=True)
    (place / "train.py").write_text(PROGRAM)
    (place / "notes.txt").touch()
    return place


def profile(place: Path, *arguments: str, umask: int = 0o022) -> Run:
    """Run the command in a process, with secrets in its environment; the result goes to ``out``."""
    done = subprocess.run(
        [sys.executable, "-m", "nsyswrap", "profile", "-o", "out", *arguments],
        cwd=filled(place),
        env={**os.environ, **SECRETS},
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST_S,
        umask=umask,
    )
    return Run(place / "out", done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def place(nsys: Nsys, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that creates a folder for a run; the test is skipped without nsys."""
    assert nsys.version
    return tmp_path_factory.mktemp


@pytest.fixture
def called(
    place: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Run]:
    """Return a function that runs the command in this process, which has imported the analysis already."""

    def run(*arguments: str) -> Run:
        folder = filled(place("called"))
        monkeypatch.chdir(folder)
        before = os.umask(0o022)
        try:
            done = commands.run("profile", "-o", "out", *arguments)
        finally:
            os.umask(before)
        shown = capfd.readouterr()
        return Run(folder / "out", done.exit_code, done.stdout + shown.out, done.stderr + shown.err)

    return run


@pytest.fixture(scope="module")
def as_text(place: Callable[[str], Path]) -> Run:
    """Run the program, which exits with 3, with text output."""
    return profile(place("text"), "train.py", "3", *WORDS, umask=0)


@pytest.fixture(scope="module")
def as_json(place: Callable[[str], Path]) -> Run:
    """Run the program, which exits with 0, with JSON output."""
    return profile(place("json"), "--format", "json", "--window", "all", "train.py", "0")


def test_the_exit_code_is_the_program_s(as_text: Run, as_json: Run) -> None:
    """A program that fails is profiled, too."""
    assert (as_text.code, as_json.code) == (3, 0)


def test_the_folder_holds_capture_reports_and_run_json(as_text: Run, as_json: Run) -> None:
    for run in (as_text, as_json):
        assert results_in(run.folder) == RESULTS


def test_only_the_owner_can_read_the_result(as_text: Run) -> None:
    """The umask does not matter: a capture may hold secrets."""
    assert stat.S_IMODE(as_text.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in as_text.folder.iterdir()} == {0o600}


def test_the_summary_is_on_stderr_and_stdout_is_the_program_s(as_text: Run) -> None:
    assert as_text.stdout.startswith("said by the program")
    assert as_text.stdout.count("\n") == 1
    assert "said on stderr" in as_text.stderr
    assert "nsyswrap  capture.sqlite" in as_text.stderr
    assert "nsyswrap: running under nsys ..." in as_text.stderr
    assert f"report   {Path('out') / 'report.html'}" in as_text.stderr


def test_stdout_holds_only_json(as_json: Run) -> None:
    """The program's own output goes to stderr, and the JSON equals report.json."""
    assert json.loads(as_json.stdout) == as_json.json("report.json")
    assert "said by the program" in as_json.stderr
    assert "nsyswrap  capture.sqlite" not in as_json.stderr


def test_the_ranges_of_the_program_are_in_the_report(as_text: Run) -> None:
    """There are six steps, the first of them warm-up, and the times of the phases of the others."""
    report = as_text.json("report.json")
    assert report["window"]["source"] == "steps"
    steps = report["sections"]["steps"]["tables"]["steps"]
    measured = sum(not row["warm_up"] for row in steps)
    assert (len(steps), measured >= 3) == (6, True)
    phases = {row["phase"]: row for row in report["sections"]["phases"]["tables"]["phases"]}
    assert phases["data"]["count"] == phases["forward"]["count"] == measured
    assert phases["data"]["host_ns"] >= measured * 2_000_000


def test_run_json_describes_the_run(as_text: Run) -> None:
    run = as_text.json("run.json")
    assert run["command"][1:] == ["train.py", "3", *WORDS]
    assert run["exit_code"] == 3
    assert run["wall_ns"] > 6 * 2_000_000
    assert set(SECRETS) <= set(run["environment"]["names"])


def test_secrets_are_named_but_their_values_are_not_shown(as_text: Run, as_json: Run) -> None:
    """No shareable file and no output holds a value. The capture itself does, hence the warning."""
    for run in (as_text, as_json):
        assert "warning: the capture holds the values of" in run.stderr
        assert all(name in run.stderr for name in ("MY_SERVICE_TOKEN", "DATABASE_PASSWORD"))
        shared = [(run.folder / name).read_text(encoding="utf-8") for name in FOR_EVERYONE]
        assert not [text for text in (*shared, run.stdout, run.stderr) if SECRET in text]
    assert SECRET.encode() in (as_text.folder / "capture.sqlite").read_bytes()


def test_a_program_without_events_has_a_report(called: Callable[..., Run]) -> None:
    """Such a program is valid; there was nothing to record."""
    run = called("--trace", "nvtx", "--quiet", "--", "true")
    assert run.code == 0
    assert results_in(run.folder) == RESULTS
    assert "There is no breakdown of GPU time" in run.json("report.json")["notes"][0]


def test_a_quiet_run_prints_what_the_help_says(called: Callable[..., Run]) -> None:
    help_text = " ".join(commands.run("profile", "--help").stdout.split())
    assert "Show no progress and no summary: only notes, warnings and paths." in help_text
    run = called("--trace", "nvtx", "--quiet", "--", "true")
    kinds = [line.partition(" ")[0] for line in run.stderr.splitlines()]
    assert set(kinds) <= {"note:", "warning:", "capture", "report"}
    assert kinds[-2:] == ["capture", "report"]


def test_a_capture_that_cannot_be_analyzed_is_kept(called: Callable[..., Run]) -> None:
    """With the window "steps" and no steps, the exit code is 125, and the recording is kept."""
    run = called("--quiet", "--window", "steps", "--trace", "nvtx", "--", "true")
    assert run.code == 125
    assert "nsyswrap: the capture is in out, but cannot be analyzed: the capture has no steps\nhint: " in run.stderr
    assert {"capture.nsys-rep", "capture.sqlite", "run.json"} <= {path.name for path in run.folder.iterdir()}


NOT_RUN = {
    "window": (["--window", "soon", "train.py"], 2),
    "steps": (["--step-range", "(", "train.py"], 2),
    "phase": (["--phase", "data", "train.py"], 2),
    "variable": (["--env", "ALONE", "train.py"], 2),
    "option": (["--fromat", "json", "train.py"], 2),
    "nothing": ([], 2),
    "not found": (["--", "no-such-program"], 127),
    "not executable": (["--", "./notes.txt"], 126),
}


@pytest.mark.parametrize("wrong", NOT_RUN)
def test_invalid_options_are_refused_before_anything_runs(wrong: str, called: Callable[..., Run]) -> None:
    """There is a message and a hint, and no folder is created."""
    arguments, code = NOT_RUN[wrong]
    run = called(*arguments)
    assert run.code == code
    assert run.stdout == ""
    assert "Traceback" not in run.stderr
    assert ("\nhint: " in run.stderr) != ("Usage: " in run.stderr)
    assert not run.folder.exists()


@pytest.mark.parametrize("quiet", [False, True])
def test_where_the_cost_of_nsys_cannot_be_measured_profile_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, *, quiet: bool
) -> None:
    """What it quotes of nsys does not move the cursor of the terminal."""
    found = {"calls": {}, "failure": "nsys \x1b[31mended"}
    monkeypatch.setattr("nsyswrap.capture.locate.find_nsys", lambda: None)
    monkeypatch.setattr("nsyswrap.capture.profiler_cost.profiler_cost", lambda *_, **__: found)
    monkeypatch.setattr("nsyswrap.capture.product_rates.product_rates", lambda *_, **__: {})
    profile_module = importlib.import_module("nsyswrap.cli.profile")
    measured = profile_module.measured_here(options(tmp_path, sys.executable), quiet=quiet, kept_only=False)
    assert measured["profiler_cost"] == found
    said = "nsyswrap: this failed, so the report does not take it out: nsys \\x1b[31mended\n"
    assert capsys.readouterr().err == ("" if quiet else said)
