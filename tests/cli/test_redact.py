"""`nsyswrap redact`: its file, its messages and its exit codes."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import commands
import pytest
from click.testing import CliRunner
from export_builder import ExportBuilder

from nsyswrap.capture.recorded_run import COPY_RATES, PROFILER_COST, recorded_rank, recorded_value
from nsyswrap.cli import cli
from nsyswrap.hardware.link_rates import read_rates
from nsyswrap.hardware.profiler_cost import read_cost
from nsyswrap.trace.load import load_export

SECRET = "v4lue-of-a-secret"  # noqa: S105 - planted to be looked for


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """Write an export that holds a secret."""
    return ExportBuilder().environment({"A": "b", "MY_TOKEN": SECRET}).kernel(1, 2).write(tmp_path / "whole.sqlite")


run = partial(commands.run, "redact")


def test_it_writes_an_export_without_the_secret(whole: Path, tmp_path: Path) -> None:
    assert run(whole, "-o", tmp_path / "shared.sqlite").exit_code == 0
    assert SECRET.encode() in whole.read_bytes()
    assert SECRET.encode() not in (tmp_path / "shared.sqlite").read_bytes()
    assert len(load_export(tmp_path / "shared.sqlite").frames["kernels"]) == 1


def test_stderr_says_what_was_left_out(whole: Path, tmp_path: Path) -> None:
    """Stdout is for results, and the result is the file."""
    result = run(whole, "-o", tmp_path / "shared.sqlite")
    assert result.stdout == ""
    assert f"wrote {tmp_path / 'shared.sqlite'}: " in result.stderr
    assert "left out: " in result.stderr
    assert SECRET not in result.stderr


@pytest.fixture
def recorded(captures: Callable[[str], Path], tmp_path: Path) -> Path:
    """Return a capture with the run.json of a rank beside it, which holds a secret in each place."""
    folder = tmp_path / SECRET
    folder.mkdir()
    shutil.copyfile(captures("cnn_amp"), folder / "capture.sqlite")
    cost = {"launch": {"low_ns": 2000, "usual_ns": 3000, "high_ns": 5000, "alone_ns": 4000, SECRET: SECRET}}
    rates = {"Host-to-Device": {"low_bytes_per_second": 5e9, "high_bytes_per_second": 6e9}, SECRET: {"low": 1}}
    record = {
        "schema": "nsyswrap.run/1",
        "command": [SECRET],
        "environment": {"values": {"RANK": "1", "WORLD_SIZE": "2", "X": SECRET}, "names": [SECRET]},
        "pinned_copy_rates": rates,
        "profiler_cost": {
            "calls": cost,
            "pace": {"fastest_ns": 10_000, "slowest_ns": 15_000},
            "conditions": {"cpu": SECRET},
        },
    }
    (folder / "run.json").write_text(json.dumps(record))
    return folder / "capture.sqlite"


def read(capture: Path, target: Path) -> dict[str, Any]:
    """Return the report.json of a capture without what names files: their folders are left out of a redacted export."""
    arguments = ["analyze", str(capture), "--format", "json", "-o", str(target)]
    assert CliRunner().invoke(cli, arguments).exit_code == 0
    found: dict[str, Any] = json.loads(target.read_text())
    del found["capture"], found["session"], found["sections"]["capture_check"]
    return found


@pytest.mark.slow
def test_its_report_is_that_of_the_capture_with_what_profile_measured(recorded: Path, tmp_path: Path) -> None:
    """The profiler's own cost, the rates of copies and the rank are kept; redacting again changes nothing."""
    shared, again = tmp_path / "shared.sqlite", tmp_path / "again.sqlite"
    assert run(recorded, "-o", shared).exit_code == 0
    assert SECRET.encode() not in shared.read_bytes()
    whole = read(recorded, tmp_path / "whole.json")
    assert whole["step"]["alone"]
    assert read(shared, tmp_path / "shared.json") == whole
    assert recorded_rank(shared) == recorded_rank(recorded) == (1, 2)
    assert recorded_value(shared, COPY_RATES) == {
        "Host-to-Device": {"low_bytes_per_second": 5e9, "high_bytes_per_second": 6e9}
    }
    assert run(shared, "-o", again).exit_code == 0
    assert again.read_bytes() == shared.read_bytes()


@pytest.mark.parametrize("value", ["{", "[]", "7", '{"calls": 3}', "null", "[" * 100_000])
def test_a_damaged_table_of_measurements_is_ignored(whole: Path, value: str) -> None:
    with closing(sqlite3.connect(whole)) as database, database:
        database.execute("create table NSYSWRAP_RUN (name text, value text)")
        names = ("profiler_cost", "pinned_copy_rates", "environment")
        database.executemany("insert into NSYSWRAP_RUN values (?, ?)", [(each, value) for each in names])
    assert read_cost(recorded_value(whole, PROFILER_COST)) is None
    assert read_rates(recorded_value(whole, COPY_RATES)) == {}
    assert recorded_rank(whole) == (None, None)


def test_an_existing_file_is_a_usage_error(whole: Path, tmp_path: Path) -> None:
    (tmp_path / "there.sqlite").write_text("mine")
    result = run(whole, "-o", tmp_path / "there.sqlite")
    assert result.exit_code == 2
    assert "is there already\nhint: give another file, or --force to replace it\n" in result.stderr
    assert (tmp_path / "there.sqlite").read_text() == "mine"
