"""A second command on a capture uses the report of the first, and only where it would make the same one."""

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from export_builder import ExportBuilder

from nsyswrap import report
from nsyswrap.capture.result_folder import publish
from nsyswrap.cli import cli, kept_reports
from nsyswrap.report_cache.files import FOLDER

SMALL = "cuda_graph_graph_trace"


def run(*arguments: object) -> Result:
    """Run a command in this process; an unexpected exception fails the test."""
    result = CliRunner().invoke(cli, list(map(str, arguments)))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


class Analyses:
    """Counts how often a capture was analyzed."""

    def __init__(self) -> None:
        self.count = 0


@pytest.fixture(autouse=True)
def analyses(monkeypatch: pytest.MonkeyPatch) -> Analyses:
    """Use kept reports, and count analyses."""
    monkeypatch.delenv("NSYSWRAP_NO_CACHE")
    counted, original = Analyses(), report.report_of

    def analyzed(*arguments: object, **named: object) -> object:
        counted.count += 1
        return original(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(report, "report_of", analyzed)
    return counted


@pytest.fixture
def capture(captures: Callable[[str], Path], tmp_path: Path) -> Path:
    """Return a copy of a real capture, in a folder of its own."""
    (tmp_path / "run").mkdir()
    return Path(shutil.copy(captures(SMALL), tmp_path / "run" / "capture.sqlite"))


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Return an export made by hand, with a range whose text holds what may be a secret."""
    kernel = ExportBuilder().gpu().kernel(10, 20, launched=(1, 2))
    return kernel.range("load hunter2hunter2", 0, 30).write(tmp_path / "made.sqlite")


def test_the_second_command_analyzes_nothing_and_says_the_same(
    capture: Path, tmp_path: Path, analyses: Analyses
) -> None:
    """A page's report serves all commands: analyze in each format, compare, and the page again."""
    pages = [tmp_path / name for name in ("one.html", "two.html")]
    assert run("report", capture, "-o", pages[0]).exit_code == 0
    assert analyses.count == 1
    assert run("report", capture, "-o", pages[1]).exit_code == 0
    assert pages[0].read_bytes() == pages[1].read_bytes()
    kept = [run("analyze", capture, "--format", form).stdout for form in ("text", "csv")]
    run("compare", capture, capture)
    assert analyses.count == 1
    assert kept == [run("analyze", capture, "--format", form, "--no-cache").stdout for form in ("text", "csv")]
    assert analyses.count == 3


def test_a_report_without_a_timeline_makes_no_page(capture: Path, tmp_path: Path, analyses: Analyses) -> None:
    run("analyze", capture)
    run("report", capture, "-o", tmp_path / "page.html")
    assert analyses.count == 2
    assert 'id="timeline' in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("changed", [["--window", "all"], ["--step-range", "^it"], ["--phase", "data=^fetch"]])
def test_other_options_need_another_analysis(changed: list[str], made: Path, analyses: Analyses) -> None:
    for arguments in ([], changed, [], changed):
        run("analyze", made, *arguments)
    assert analyses.count == 2


def test_changed_rules_of_kernel_names_need_another_analysis(made: Path, tmp_path: Path, analyses: Analyses) -> None:
    rules = tmp_path / "rules.json"
    for verdict in ("tensor", "not_eligible"):
        rule = {"prefix": "my_kernel_", "verdict": verdict}
        rules.write_text(json.dumps({"schema": "nsyswrap.kernel_rules/1", "rules": [rule]}))
        first = run("analyze", made, "--kernel-rules", rules)
        assert first.exit_code == 0
        assert run("analyze", made, "--kernel-rules", rules).stdout == first.stdout
    assert analyses.count == 2


def test_an_edited_capture_needs_another_analysis(made: Path, analyses: Analyses) -> None:
    """Also with its old size and its old time."""
    before, times = run("analyze", made).stdout, made.stat()
    with sqlite3.connect(made) as database:
        database.execute("update CUPTI_ACTIVITY_KIND_KERNEL set end = end + 1")
    os.utime(made, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert made.stat().st_size == times.st_size
    assert run("analyze", made).stdout != before
    assert analyses.count == 2


def test_what_profile_recorded_beside_a_made_counts(made: Path, analyses: Analyses) -> None:
    run("analyze", made)
    (made.parent / "run.json").write_text(json.dumps({"schema": "nsyswrap.run/1"}))
    run("analyze", made)
    assert analyses.count == 2


def test_a_copied_folder_is_analyzed_afresh(made: Path, tmp_path: Path, analyses: Analyses) -> None:
    run("analyze", made)
    copy = shutil.copytree(made.parent, tmp_path / "copy")
    run("analyze", copy / made.name)
    assert analyses.count == 2


def test_a_broken_report_is_replaced_without_a_word(made: Path, analyses: Analyses) -> None:
    before = run("analyze", made)
    (kept,) = (made.parent / FOLDER).glob("*.report")
    kept.write_bytes(kept.read_bytes()[:-10])
    after = run("analyze", made)
    assert (after.stdout, after.stderr) == (before.stdout, before.stderr)
    run("analyze", made)
    assert analyses.count == 2


def test_a_report_that_cannot_be_decoded_is_made_again(
    capture: Path, analyses: Analyses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole, ours, and for this capture, but with another content: the digest alone does not decide."""
    before = run("analyze", capture).stdout
    with monkeypatch.context() as patch:
        patch.setattr("nsyswrap.report_cache.encoding.encode", lambda _: b"\x08" + bytes(7) + b'{"a": 1}')
        run("report", capture, "-o", capture.parent / "page.html")
    assert run("analyze", capture).stdout == before
    assert analyses.count == 3


def test_no_cache_neither_uses_nor_keeps(made: Path, analyses: Analyses) -> None:
    run("analyze", made, "--no-cache")
    assert not (made.parent / FOLDER).exists()
    run("analyze", made)
    run("analyze", made, "--no-cache")
    assert analyses.count == 3


def test_a_variable_does_the_same(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NSYSWRAP_NO_CACHE", "1")
    run("analyze", made)
    assert not (made.parent / FOLDER).exists()


def test_a_secret_that_is_new_to_the_environment_is_not_shown(
    made: Path, analyses: Analyses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report was kept when the text was no secret."""
    assert "hunter2hunter2" in run("analyze", made, "--format", "json").stdout
    monkeypatch.setenv("API_TOKEN", "hunter2hunter2")
    assert "hunter2hunter2" not in run("analyze", made, "--format", "json").stdout
    assert analyses.count == 2


def test_a_kept_report_holds_no_secret_of_the_environment(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither as text nor as a value that is quick to guess."""
    monkeypatch.setenv("API_TOKEN", "hunter2hunter2")
    monkeypatch.setattr("nsyswrap.report_cache.encoding._CODEC", "gzip")
    run("analyze", made)
    (kept,) = (made.parent / FOLDER).glob("*.report")
    assert b"hunter2" not in kept.read_bytes()


def test_a_folder_that_cannot_be_written_to_is_no_error(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no message, and the result is the same."""

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("nsyswrap.report_cache.files.Path.mkdir", refused)
    result = run("analyze", made)
    assert (result.exit_code, result.stderr) == (0, "")
    assert not (made.parent / FOLDER).exists()


def test_a_capture_that_changes_while_it_is_read_is_not_kept(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = report.report_of

    def touched(*arguments: object, **named: object) -> object:
        found = original(*arguments, **named)  # type: ignore[arg-type]
        os.utime(made, (1, 1))
        return found

    monkeypatch.setattr(report, "report_of", touched)
    run("analyze", made)
    assert not (made.parent / FOLDER).exists()


def test_an_export_that_is_written_again_is_an_error_as_before(made: Path) -> None:
    run("analyze", made)
    Path(f"{made}-journal").touch()
    result = run("analyze", made)
    assert result.exit_code == 1
    assert "is locked" in result.stderr


def test_a_new_run_in_the_folder_removes_what_was_kept(capture: Path) -> None:
    run("analyze", capture)
    (capture.parent / ".run").mkdir()
    shutil.copy(capture, capture.parent / ".run" / "capture.sqlite")
    publish(capture.parent)
    assert capture.is_file()
    assert not (capture.parent / FOLDER).exists()


def test_a_redacted_export_does_not_inherit_what_was_kept_for_its_name(made: Path) -> None:
    shared = Path(shutil.copy(made, made.with_name("shared.sqlite")))
    run("analyze", shared)
    assert run("redact", made, "-o", shared, "--force").exit_code == 0
    assert list((made.parent / FOLDER).glob("*.report")) == []


def test_a_failed_analysis_keeps_nothing(tmp_path: Path) -> None:
    path = tmp_path / "empty.sqlite"
    path.write_bytes(b"")
    assert run("analyze", path).exit_code == 1
    assert not (tmp_path / FOLDER).exists()


def test_a_recording_is_exported_once(
    made: Path, analyses: Analyses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The export that nsys makes of a .nsys-rep is temporary; another nsys may make another one."""
    recording = tmp_path / "run.nsys-rep"
    recording.write_bytes(b"recording")

    @contextmanager
    def exported(*_: object) -> Iterator[Path]:
        yield made

    monkeypatch.setattr("nsyswrap.capture_file.exported", exported)
    first = run("analyze", recording).stdout
    assert first
    assert run("analyze", recording).stdout == first
    assert analyses.count == 1
    monkeypatch.setenv("NSYSWRAP_NSYS", "/another/nsys")
    run("analyze", recording)
    assert analyses.count == 2


def test_without_a_command_nothing_is_kept(capture: Path) -> None:
    """A program that calls these functions gets its report; there is no end at which to keep it."""
    wanted = kept_reports.Wanted(capture, "", (), with_timeline=False)
    assert kept_reports.made_and_kept(wanted, lambda: "report") == "report"  # type: ignore[arg-type, return-value, comparison-overlap]
    assert not (capture.parent / FOLDER).exists()
