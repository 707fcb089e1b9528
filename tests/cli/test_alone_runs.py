"""The runs of `profile` without nsys: when they are made, and how a failure is reported."""

from pathlib import Path
from typing import Any

import pytest
from capture_fixtures import options, python

from nsyswrap.base.errors import CommandNotFoundError
from nsyswrap.base.interval import Interval
from nsyswrap.base.intervals import Window
from nsyswrap.capture.baseline import AloneRun
from nsyswrap.capture.options import CaptureOptions
from nsyswrap.cli import alone_runs
from nsyswrap.cli.alone_runs import KEPT_BATCHES, add_alone_runs
from nsyswrap.model import Capture, Report, Session, StepTimes

REPORT = Report(
    Capture("capture.sqlite", 1), Session(), (), Window(0, 10, "steps", "steps"), "", (), (), step=StepTimes(6, 1_000)
)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Replace the runs. Return a list of their results, last one first; their arguments are put before them."""
    ends: list[Any] = []

    def run_alone(options: CaptureOptions, *, cached_batches: int) -> AloneRun:
        assert options.output_to_stderr
        how = ends.pop()
        ends.insert(0, (options.step_text, cached_batches))
        if isinstance(how, Exception):
            raise how
        assert isinstance(how, AloneRun)
        return how

    monkeypatch.setattr(alone_runs, "run_alone", run_alone)
    return ends


def note(report: Report) -> str:
    (section,) = report.sections
    return section.notes[-1]


def timed(length: int, count: int = 40, name: str = "step") -> AloneRun:
    """Return a run with steps of a length in ns."""
    ranges = [[1, "", f"{name} {number}", number * length, (number + 1) * length] for number in range(count)]
    return AloneRun(0, ({"pid": 1, "ranges": ranges},))


def test_no_second_run_is_made_without_the_option(tmp_path: Path) -> None:
    assert add_alone_runs(REPORT, options(tmp_path, "nothing"), code=0) is REPORT


def test_the_measured_step_is_in_the_report_and_on_stderr(
    runs: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second run times the ranges that are steps in the report."""
    runs.append(timed(7, 8, "round"))
    found = add_alone_runs(REPORT, options(tmp_path, *python(""), step_text="^round"), baseline=True, code=0)
    assert (found.step.alone, runs) == (Interval(7, 7, 7), [("^round", 0)])
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
    found = add_alone_runs(REPORT, options(tmp_path, *python("")), baseline=True, code=0)
    assert note(found) == f"The step without nsys was not measured: {said}."


def test_a_program_that_failed_is_not_run_again(tmp_path: Path) -> None:
    found = add_alone_runs(REPORT, options(tmp_path, "nothing"), baseline=True, code=5)
    assert "the program ended with exit code 5" in note(found)


def test_the_loader_is_measured_without_nsys_in_turn_with_the_program(
    runs: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The result is in the report and on stderr."""
    runs += [timed(600), timed(1000)]
    found = add_alone_runs(REPORT, options(tmp_path, *python("")), loader=True, code=0)
    assert [cached for _, cached in runs] == [KEPT_BATCHES, 0]
    assert found.sections[-1].key == "counterfactual"
    assert "nsyswrap: The data loader takes 40 %" in capsys.readouterr().err


def test_one_run_serves_both(runs: list[Any], tmp_path: Path) -> None:
    runs += [timed(600), timed(1000)]
    found = add_alone_runs(REPORT, options(tmp_path, *python("")), baseline=True, loader=True, code=0)
    assert found.step.alone == Interval(1000, 1000, 1000)
    assert [section.key for section in found.sections] == ["profiler_cost", "counterfactual"]


@pytest.mark.parametrize("first", [timed(1000), AloneRun(4, ())])
def test_a_run_that_fails_leaves_the_loader_unknown(first: AloneRun, runs: list[Any], tmp_path: Path) -> None:
    runs += [AloneRun(4, ()), first]
    found = add_alone_runs(REPORT, options(tmp_path, *python("")), loader=True, code=0)
    assert note(found).startswith("The time of the data loader is unknown: with")
    assert note(found).endswith("the program ended with exit code 4.")
