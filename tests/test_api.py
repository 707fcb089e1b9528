"""`nsyswrap.open`: the object, its data frames, its view in a notebook, and the examples in the documentation."""

import doctest
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pandas as pd
import pytest
from export_builder import ExportBuilder

import nsyswrap
from nsyswrap.base.errors import ExportError, UsageError
from nsyswrap.render import documents
from nsyswrap.report import build_report
from nsyswrap.timeline.event_frames import COLUMNS

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "library.md"


def test_the_examples_in_the_documentation_work(
    captures: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each `>>>` of docs/library.md is run, in order, on a real capture."""
    shutil.copy(captures("cnn_amp"), tmp_path / "capture.sqlite")
    monkeypatch.chdir(tmp_path)
    failures: list[str] = []
    runner = doctest.DocTestRunner()
    runner.run(doctest.DocTestParser().get_doctest(PAGE.read_text(), {}, PAGE.name, str(PAGE), 0), out=failures.append)
    assert failures == []
    assert runner.tries >= 15


def test_the_documentation_names_every_column() -> None:
    """The table of frames has each frame with exactly its columns."""
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| (`.*) \|$", PAGE.read_text(), re.MULTILINE)
    found = {
        frame: re.findall(r"`(\w+)`", columns) for frames, columns in rows for frame in re.findall(r"`(\w+)`", frames)
    }
    assert found == {frame: list(columns) for frame, columns in COLUMNS.items()}


@pytest.mark.parametrize("name", ["cuda_graph_graph_trace", "mnist_counters_python", "ranges_nsys2022"])
def test_the_object_matches_the_report(name: str, captures: Callable[[str], Path]) -> None:
    """Verdict, window, findings and sections are those of the report; all frames have their columns and types."""
    run = nsyswrap.open(str(captures(name)))
    report = build_report(run.trace)
    assert (run.verdict, run.window) == (report.verdict, report.window)
    assert run.findings == report.findings
    assert list(run.sections) == [section.key for section in report.sections]
    assert set(run.frames) == set(run.columns) == set(COLUMNS)
    for key, columns in run.columns.items():
        assert list(run.frames[key].columns) == list(columns)
        times = [column for column in columns if column.endswith("_ns")]
        assert {str(run.frames[key][column].dtype) for column in times} == {"int64"}
    for key in ("kernels", "copies", "memsets", "ranges", "steps", "calls", "gaps"):
        assert getattr(run, key) is run.frames[key]


def test_operations_are_joined_to_their_launch_calls(captures: Callable[[str], Path]) -> None:
    """A kernel is joined to a launch call of its own process, which started before it."""
    run = nsyswrap.open(captures("cnn_amp"))
    joined = run.kernels.join(run.calls.add_prefix("call_"), on="call", how="inner")
    assert len(joined) == len(run.kernels)
    assert (joined["pid"] == joined["call_pid"]).all()
    assert joined["call_name"].astype(str).str.contains("Launch").all()
    assert (joined["start_ns"] >= joined["call_start_ns"]).all()


def test_options_work_as_in_the_commands(tmp_path: Path) -> None:
    path = (
        ExportBuilder()
        .gpu()
        .kernel(100, 200)
        .range("turn 1", 0, 500)
        .range("mine", 10, 20)
        .write(tmp_path / "a.sqlite")
    )
    run = nsyswrap.open(path, window="all", step_range="^turn", phases={"data": "^mine"})
    assert run.window.source == "operations"
    assert list(run.steps["name"]) == ["turn 1"]
    assert dict(zip(run.ranges["text"], run.ranges["phase"], strict=True))["mine"] == "data"
    assert repr(run) == "<nsyswrap capture a.sqlite>"


def test_kernel_name_rules_are_read(tmp_path: Path) -> None:
    path = ExportBuilder().gpu().kernel(100, 200, "mine").write(tmp_path / "a.sqlite")
    rules = tmp_path / "rules.json"
    rules.write_text('{"schema": "nsyswrap.kernel_rules/1", "rules": [{"kernel": "mine", "verdict": "tensor"}]}')
    verdicts = [
        nsyswrap.open(path, kernel_rules=files).sections["tensor_cores"].tables["kernels"]["verdict"].tolist()
        for files in ([], [rules], [str(rules)], rules, str(rules))
    ]
    assert verdicts == [["unknown"], *[["tensor"]] * 4]


@pytest.mark.parametrize(
    "options",
    [
        {"window": "later"},
        {"window": 5},
        {"window": None},
        {"phases": {"data": ""}},
        {"phases": {"": "x"}},
        {"kernel_rules": "nope.json"},
        {"step_range": "("},
        {"phases": {"data": "("}},
        {"kernel_rules": ["/no/such/file"]},
    ],
    ids=str,
)
def test_an_invalid_option_is_an_error_at_once(options: dict[str, object], tmp_path: Path) -> None:
    """The error comes before the capture is read."""
    with pytest.raises(UsageError) as caught:
        nsyswrap.open(tmp_path / "none.sqlite", **options)  # type: ignore[arg-type]
    assert caught.value.hint


def test_without_nsys_an_nsys_rep_is_an_error_of_the_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to do about it, as it does on the command line."""
    monkeypatch.setenv("NSYSWRAP_NSYS", str(tmp_path / "nsys"))
    (tmp_path / "mine.nsys-rep").touch()
    with pytest.raises(ExportError) as caught:
        nsyswrap.open(tmp_path / "mine.nsys-rep")
    assert "NSYSWRAP_NSYS" in caught.value.hint


def test_jupyter_shows_the_short_page_in_a_frame_that_runs_nothing(captures: Callable[[str], Path]) -> None:
    run = nsyswrap.open(captures("cuda_graph_graph_trace"))
    frame = ET.fromstring(run._repr_html_().replace("<iframe sandbox ", '<iframe sandbox="" '))  # noqa: S314 - our own
    assert (frame.tag, frame.get("sandbox")) == ("iframe", "")
    assert frame.get("srcdoc", "").split() == documents.render("report", "slim", run.report).split()


def test_changing_a_frame_does_not_change_the_report(captures: Callable[[str], Path]) -> None:
    """A column that a user adds is not in the report's table."""
    run = nsyswrap.open(captures("cuda_graph_graph_trace"))
    run.gaps["length"] = run.gaps["end_ns"] - run.gaps["start_ns"]
    assert isinstance(run.gaps, pd.DataFrame)
    assert "length" not in run.sections["idle"].tables["gaps"]
