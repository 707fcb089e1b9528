"""`nsyswrap analyze` and `nsyswrap report` as a user runs them: results, files, report.json as input, and errors."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from commands import run
from export_builder import ExportBuilder
from real_captures import Planted

from nsyswrap.render import json_report

SMALL = "cuda_graph_graph_trace"
FORMS = ("text", "json", "csv", "markdown")


@pytest.fixture
def small(captures: Callable[[str], Path]) -> Path:
    """Return a real capture that is read quickly."""
    return captures(SMALL)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Return an export made by hand: one kernel, no steps."""
    return ExportBuilder().gpu().kernel(10, 20, launched=(1, 2)).write(tmp_path / "made.sqlite")


def in_json(*arguments: object) -> dict[str, Any]:
    """Return what analyze says as JSON."""
    found: dict[str, Any] = json.loads(run("analyze", *arguments, "--format", "json").stdout)
    return found


@pytest.fixture(scope="module")
def shown(captures: Callable[[str], Path]) -> Callable[[str], str]:
    """Return a function that gives what analyze prints about the small capture in a format, made once."""
    return cache(lambda form: run("analyze", captures(SMALL), "--format", form).stdout)


@pytest.mark.usefixtures("analyzed_once")
def test_text_is_the_default_and_plain_outside_a_terminal(small: Path, shown: Callable[[str], str]) -> None:
    """Lines have at most 80 columns and no escape sequences."""
    result = run("analyze", small)
    assert result.stdout == shown("text")
    assert "GPU TIME BREAKDOWN" in result.stdout
    assert "\x1b" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize("form", FORMS)
def test_a_result_ends_with_one_newline(form: str, shown: Callable[[str], str]) -> None:
    """JSON ends with exactly one."""
    text = shown(form)
    assert text.endswith("\n")
    assert not text.endswith("\n\n") or form != "json"


def test_the_window_option_sets_the_window_of_the_report(small: Path, shown: Callable[[str], str]) -> None:
    window = in_json(small, "--window", "2.6:2.65")["window"]
    assert (window["start_ns"], window["end_ns"], window["source"]) == (2_600_000_000, 2_650_000_000, "user")
    assert in_json(small, "--window", "all")["window"]["source"] == "operations"
    assert json.loads(shown("json"))["window"]["source"] == "steps"


def test_the_user_can_name_steps_and_phases(tmp_path: Path) -> None:
    builder = ExportBuilder().gpu()
    for number in range(4):
        builder.range(f"it{number}", number * 100, number * 100 + 90).range(
            "prefetch x", number * 100, number * 100 + 40
        )
        builder.kernel(number * 100 + 50, number * 100 + 80, launched=(number * 100 + 45, number * 100 + 46))
    export = builder.os_call("poll", 0, 400).write(tmp_path / "named.sqlite")
    report = in_json(export, "--step-range", "^it", "--phase", "data=^prefetch", "--phase", "mine=^nothing")
    assert [row["name"] for row in report["sections"]["steps"]["tables"]["steps"]] == ["it0", "it1", "it2", "it3"]
    attributed = report["sections"]["idle"]["tables"]["attribution"]
    assert any({"cause": "data_wait", "phase": "data"}.items() <= row.items() for row in attributed)


def test_a_page_is_left_to_report(small: Path, tmp_path: Path) -> None:
    """The name of the file asks for HTML, so text in it would be a surprise; --format decides otherwise."""
    refused = run("analyze", small, "-o", tmp_path / "x.html")
    assert refused.exit_code == 2
    hint = f"hint: nsyswrap report {small} -o {tmp_path / 'x.html'} writes the page"
    assert refused.stderr == f"nsyswrap: analyze writes no page\n{hint}\n"
    assert not (tmp_path / "x.html").exists()


@pytest.mark.usefixtures("analyzed_once")
def test_with_an_output_file_stdout_stays_empty(small: Path, tmp_path: Path) -> None:
    result = run("analyze", small, "--format", "json", "-o", tmp_path / "out.json")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"wrote {tmp_path / 'out.json'}\n"
    assert json.loads((tmp_path / "out.json").read_text())["schema"] == json_report.SCHEMA


@pytest.mark.usefixtures("analyzed_once")
@pytest.mark.parametrize("command", ["analyze", "report"])
def test_an_existing_file_is_kept(command: str, small: Path, tmp_path: Path) -> None:
    """With --force it is replaced."""
    target = tmp_path / "there"
    target.write_text("mine")
    refused = run(command, small, "-o", target)
    assert (refused.exit_code, target.read_text()) == (2, "mine")
    assert refused.stderr == f"nsyswrap: {target} exists already\nhint: give another file, or --force to replace it\n"
    assert run(command, small, "-o", target, "--force").exit_code == 0
    assert target.read_text() != "mine"


@pytest.mark.usefixtures("analyzed_once")
@pytest.mark.parametrize("command", ["analyze", "report"])
def test_an_unwritable_path_is_an_error(command: str, small: Path, tmp_path: Path) -> None:
    for target in (tmp_path, tmp_path / "no" / "such" / "folder"):
        result = run(command, small, "-o", target, "--force")
        assert result.exit_code == 1
        assert result.stderr.startswith(f"nsyswrap: cannot write {target}: ")
        assert "\nhint: " in result.stderr


def test_an_nsys_rep_is_exported_to_a_temporary_file(planted: Planted) -> None:
    """The report has the file's name, no other file is left, and no result shows the capture's secret."""
    capture = planted.export.with_suffix(".nsys-rep")
    before = sorted(planted.folder.iterdir())
    result = run("analyze", capture, "--format", "json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["capture"]["name"] == "capture.nsys-rep"
    assert "nsyswrap: nsys exports to SQLite ..." in result.stderr
    assert sorted(planted.folder.iterdir()) == before
    assert planted.secret not in result.stdout + result.stderr


NAME = "-o a b\n%41?#ünïcödé'\"<script>.sqlite"


@pytest.mark.parametrize("form", FORMS)
def test_a_capture_may_have_any_name(form: str, made: Path, tmp_path: Path) -> None:
    result = run("analyze", "--format", form, "--", made.rename(tmp_path / NAME))
    assert (result.exit_code, result.stderr) == (0, "")


def test_a_page_may_have_any_name(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file name with markup appears as text in the page."""
    monkeypatch.chdir(tmp_path)
    made.rename(tmp_path / NAME)
    assert run("report", "-o", f"{NAME}.html", "--", NAME).exit_code == 0
    assert "<script>.sqlite" not in (tmp_path / f"{NAME}.html").read_text(encoding="utf-8")
