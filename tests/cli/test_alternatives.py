"""`profile` measures alternatives after the program has ended, and makes its report again with them."""

import importlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import commands
import numpy as np
import pytest
from capture_fixtures import options

from nsyswrap.base.interval import Interval
from nsyswrap.base.intervals import Window
from nsyswrap.capture import alternatives as measuring
from nsyswrap.events.alternatives import Alternative
from nsyswrap.events.xray_record import RecordedOperator
from nsyswrap.model import Finding, Report, Severity
from nsyswrap.what_if.dependency_graph import NO_CHANGE
from nsyswrap.what_if.saving import AlternativeKernels, WhatIf

module = importlib.import_module("nsyswrap.cli.profile")
WINDOW = Window(0, 1000, "window", "steps")


def report(*times_ns: int) -> Any:  # noqa: ANN401 - stands for a report
    """Return a report with one finding, whose alternatives take so long."""
    kernels = tuple(
        AlternativeKernels(Alternative("tf32", (RecordedOperator(f"aten::mm{at}"),)), np.empty(0, np.intp), time)
        for at, time in enumerate(times_ns)
    )
    what = WhatIf(NO_CHANGE, "", alternatives=kernels)
    saving = Interval(0, 1, 2)
    rest = (saving, "advice", (), None, WINDOW, "simulated", what)
    return SimpleNamespace(findings=(Finding("compute/misaligned", Severity.WARNING, "headline", 5, *rest),))  # type: ignore[arg-type]


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the operators that are measured, for each time that something is."""
    found: list[list[str]] = []

    def measure(_python: object, wanted: list[dict[str, Any]]) -> dict[str, Any]:
        found.append([each["operators"][0]["name"] for each in wanted])
        return {"failure": "other processes use the GPU"}

    monkeypatch.setattr(measuring, "measure_alternatives", measure)
    return found


def test_eight_operators_with_most_time_are_measured(
    measured: list[list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not those below 1 % of the window. The file has what was found, and a failure has a line."""
    times = [20, 90, 9, 10, 30, 40, 50, 60, 70, 80]
    assert module.measured_alternatives(report(*times), options(tmp_path), tmp_path, quiet=False)
    assert measured == [[f"aten::mm{at}" for at in (1, 9, 8, 7, 6, 5, 4, 0)]]
    assert json.loads((tmp_path / "alternatives.json").read_text()) == {"failure": "other processes use the GPU"}
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "nsyswrap: measuring 8 alternatives of the costliest operators, for up to 20 seconds ...",
        "nsyswrap: this failed, so savings are simulated: other processes use the GPU",
    ]


def test_without_an_alternative_nothing_runs(measured: list[list[str]], tmp_path: Path) -> None:
    assert not module.measured_alternatives(report(9), options(tmp_path), tmp_path, quiet=False)
    assert (measured, list(tmp_path.iterdir())) == ([], [])


@pytest.mark.parametrize(("words", "reports"), [((), 2), (("--no-alternatives",), 1), (("--ranks", "all"), 1)])
def test_the_report_is_made_again_with_what_was_measured(
    words: tuple[str, ...], reports: int, measured: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not with --no-alternatives, and not for a rank of a job: the others still use the GPU."""
    made: list[Report] = []
    folder = tmp_path / "out"

    def first_report(*_: object) -> Report:
        made.append(report(500))
        return made[-1]

    result = SimpleNamespace(folder=folder, exit_code=0, notes=(), export=folder / "capture.sqlite")
    monkeypatch.setattr(module, "captured", lambda *_, **__: result)
    monkeypatch.setattr(module, "first_report", first_report)
    for name in ("write_report", "print_summary", "record_result", "finish_rank"):
        monkeypatch.setattr(module, name, lambda *_, **__: None)
    monkeypatch.setenv("NSYSWRAP_ALTERNATIVES", "1")
    if "--ranks" in words:
        monkeypatch.setenv("RANK", "0")
        monkeypatch.setenv("WORLD_SIZE", "2")
    run = commands.run("profile", "--no-profiler-cost", *words, "-o", folder, "--", "true")
    assert run.exit_code == 0, run.output
    assert (len(made), len(measured)) == (reports, reports - 1)
