"""The second run of `profile --baseline`: when it is made, and how a failure is reported."""

from pathlib import Path
from typing import Any

import pytest
from capture_fixtures import options, python

from nsyswrap.capture import baseline
from nsyswrap.capture.baseline import AloneRun
from nsyswrap.cli.baseline import add_baseline
from nsyswrap.errors import CommandNotFoundError
from nsyswrap.intervals import Window
from nsyswrap.model import Capture, Report, Session, StepTimes

REPORT = Report(
    Capture("capture.sqlite", 1), Session(), (), Window(0, 10, "steps", "steps"), "", (), (), step=StepTimes(6, 1_000)
)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Replace the second run; return a list with its next result, which the call replaces with the pattern it got."""
    ends: list[Any] = []

    def run_alone(_options: object, pattern: str) -> AloneRun:
        how = ends.pop()
        ends.append(pattern)
        if isinstance(how, Exception):
            raise how
        assert isinstance(how, AloneRun)
        return how

    monkeypatch.setattr(baseline, "run_alone", run_alone)
    return ends


def note(report: Report) -> str:
    """Return the note of the only section."""
    (section,) = report.sections
    return section.notes[-1]


def test_no_second_run_is_made_without_the_option(tmp_path: Path) -> None:
    assert add_baseline(REPORT, options(tmp_path, "nothing"), "", wanted=False, code=0) is REPORT


def test_the_measured_step_is_in_the_report_and_on_stderr(
    runs: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second run times the ranges that are steps in the report."""
    ranges = [[1, "", f"round {number}", number * 10, number * 10 + 7] for number in range(8)]
    runs.append(AloneRun(0, ({"pid": 1, "ranges": ranges},)))
    found = add_baseline(REPORT, options(tmp_path, *python("")), "^round", wanted=True, code=0)
    assert (found.step.baseline_median_ns, runs) == (7, ["^round"])
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Measured without nsys: a step takes 7 ns (6 steps)." in printed.err


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (AloneRun(3, ()), "without nsys the program ended with exit code 3"),
        (CommandNotFoundError("train: command not found"), "train: command not found"),
    ],
)
def test_a_second_run_that_fails_leaves_the_report(how: object, said: str, runs: list[Any], tmp_path: Path) -> None:
    runs.append(how)
    found = add_baseline(REPORT, options(tmp_path, *python("")), "", wanted=True, code=0)
    assert note(found) == f"The step without nsys was not measured: {said}."


def test_a_program_that_failed_is_not_run_again(tmp_path: Path) -> None:
    found = add_baseline(REPORT, options(tmp_path, "nothing"), "", wanted=True, code=5)
    assert "the program ended with exit code 5" in note(found)
