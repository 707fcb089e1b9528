"""`nsyswrap profile --record`: the result of a run is in the history, and a run is not lost where that fails."""

import importlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from capture_fixtures import fake_nsys
from click.testing import CliRunner, Result

from nsyswrap.base.errors import CaptureError
from nsyswrap.capture.locate import Nsys
from nsyswrap.cli import cli
from nsyswrap.cli.recording import record_result, recorded_run
from nsyswrap.render.json_reader import read_report
from nsyswrap.runs.history import open_history

__all__ = ["fake_nsys"]

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "reports" / "samples" / "mnist-1-worker"


@pytest.fixture
def profile(fake_nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Return a function that runs `nsyswrap profile --record` with the fake nsys.

    The fake nsys records no GPU work, so the report of its capture is replaced by that of a real one.
    """
    assert fake_nsys.version
    module = importlib.import_module("nsyswrap.cli.profile")
    monkeypatch.setattr(module, "report_of_capture", lambda *_, **__: read_report(SAMPLE / "report.json"))
    monkeypatch.chdir(tmp_path)

    def run(database: Path, *options: str) -> Result:
        words = ["profile", "-q", "--no-profiler-cost", *options, "-o", "out", "--", "sh", "-c", "exit 3"]
        before = os.umask(0o022)
        try:
            return CliRunner().invoke(cli, words, env={"NSYSWRAP_DB": str(database)})
        finally:
            os.umask(before)

    return run


def test_a_profiled_run_is_in_the_history(profile: Callable[..., Result], tmp_path: Path) -> None:
    """With the exit code of the program, which stays that of the command."""
    done = profile(tmp_path / "history.sqlite", "--record")
    assert done.exit_code == 3, done.output
    (row,) = open_history(str(tmp_path / "history.sqlite")).runs()
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert (row.program, row.arguments, row.exit_code) == ("sh", "-c 'exit 3'", 3)
    assert (row.host, row.nsyswrap) == (record["machine"], record["versions"]["nsyswrap"])


def test_a_series_without_the_history_is_an_error_before_the_run(
    profile: Callable[..., Result], tmp_path: Path
) -> None:
    done = profile(tmp_path / "history.sqlite", "--series", "nightly")
    assert (done.exit_code, "give --record" in done.stderr) == (2, True)
    assert not (tmp_path / "out").exists()


def test_a_history_that_cannot_be_opened_is_found_before_the_run(
    profile: Callable[..., Result], tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("no database\n" * 100)
    done = profile(tmp_path / "notes.txt", "--record")
    assert (done.exit_code, "not a database" in done.stderr) == (125, True)
    assert not (tmp_path / "out").exists()


def test_a_run_that_cannot_be_added_is_complete_and_can_be_added_later(tmp_path: Path) -> None:
    history = open_history(str(tmp_path / "history.sqlite"))
    shutil.copytree(SAMPLE, tmp_path / "out", ignore=shutil.ignore_patterns("capture.*"))
    with history.engine.begin() as connection:
        connection.exec_driver_sql("CREATE TRIGGER full BEFORE INSERT ON facts BEGIN SELECT RAISE(ABORT, 'full'); END")
    for series, option in (("", ""), ("two words", "--series 'two words' ")):
        with pytest.raises(CaptureError, match="the run is not in the history") as caught:
            record_result(history, tmp_path / "out", series)
        assert caught.value.exit_code == 125
        assert caught.value.hint == f"add it later: nsyswrap history add {option}{tmp_path / 'out'}"
    assert history.count() == 0
    with history.engine.begin() as connection:
        connection.exec_driver_sql("DROP TRIGGER full")
    record_result(history, tmp_path / "out")
    assert history.find(recorded_run(tmp_path / "out").row.run_id).step_count == 58


def test_without_a_history_nothing_is_recorded(tmp_path: Path) -> None:
    record_result(None, tmp_path / "missing")
    assert list(tmp_path.iterdir()) == []
