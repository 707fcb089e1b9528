"""`nsyswrap ranks`: which files are reports of ranks, and the one report of them."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import commands
import pytest
from host_records import recorded
from made_ranks import job

from nsyswrap.base.errors import UsageError
from nsyswrap.cli.rank_reports import find_reports, rank_in_name

RUN = {"schema": "nsyswrap.run/1", "environment": {"names": [], "values": {"RANK": "1", "WORLD_SIZE": "2"}}}


def of_process(source: Path, pid: int, target: Path) -> Path:
    """Write the part of an export that belongs to one process."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(source.read_bytes())
    with closing(sqlite3.connect(target)) as database:
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            columns = {row[1] for row in database.execute(f'PRAGMA table_info("{table}")')}
            owner = next((name for name in ("globalPid", "globalTid") if name in columns), None)
            if owner:
                database.execute(f'DELETE FROM "{table}" WHERE ({owner} >> 24) & 16777215 != ?', (pid,))  # noqa: S608 - ours
        database.commit()
    return target


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the results of two ranks; rank 1 is late."""
    whole = job(2, 12, {1: 400_000}).session().write(tmp_path / "whole.sqlite")
    for rank in range(2):
        export = of_process(whole, 5000 + rank, tmp_path / "job" / f"rank-{rank}" / "capture.sqlite")
        record = {**RUN, "environment": {"names": [], "values": {"RANK": str(rank), "WORLD_SIZE": "2"}}}
        (export.parent / "run.json").write_text(json.dumps(record))
    return tmp_path / "job"


def run(*words: object) -> tuple[int, str, str]:
    """Run the command; return exit code, stdout and stderr."""
    done = commands.run("ranks", *words)
    return done.exit_code, done.stdout, done.stderr


def test_a_folder_of_ranks_is_one_report(folder: Path) -> None:
    code, out, _ = run(folder, "--format", "json")
    report = json.loads(out)
    assert code == 0
    assert [(gpu["device_id"], gpu["rank"]) for gpu in report["gpus"]] == [(0, 0), (1, 1)]
    late = next(each for each in report["findings"] if each["rule"] == "ranks/late")
    assert (late["rank"], late["headline"]) == (1, "Rank 1 is late by 400 µs a step: its data loader; rank 0 waits.")
    assert report["notes"][-1].startswith("The clocks of the reports were joined by UTC")


def test_samples_of_the_host_and_the_cost_of_recording_are_read(folder: Path) -> None:
    """Both lie beside the captures, as `profile` leaves them."""
    calls = {"launch": {"low_ns": 1.0, "usual_ns": 2.0, "high_ns": 3.0, "alone_ns": 4.0}}
    for rank in range(2):
        place = folder / f"rank-{rank}"
        samples = recorded([0, 8_000_000, 16_000_000], spent_ns=500_000)
        (place / "host.json").write_text(json.dumps(samples))
        record = json.loads((place / "run.json").read_text())
        (place / "run.json").write_text(json.dumps({**record, "profiler_cost": {"calls": calls}}))
    sections = json.loads(run(folder, "--format", "json")[1])["sections"]
    assert sections["machine"]["facts"]["allowed_cores"]["value"] == 2
    assert sections["machine"]["facts"]["sampling_share"]["value"] == 2 * 0.5 / 16
    assert sections["profiler_cost"]["tables"]["calls"][0]["usual_ns"] == 2


def test_one_rank_of_two_says_what_still_holds(folder: Path) -> None:
    code, out, _ = run(folder / "rank-0" / "capture.sqlite", "--format", "markdown")
    assert code == 0
    assert "1 of 2 ranks are here" in out


def test_a_rank_that_is_there_twice_is_refused(folder: Path, tmp_path: Path) -> None:
    again = tmp_path / "again" / "rank-1" / "capture.sqlite"
    again.parent.mkdir(parents=True)
    again.write_bytes((folder / "rank-1" / "capture.sqlite").read_bytes())
    code, _, error = run(folder, again)
    assert code == 2
    assert "are both of rank 1" in error


def test_ranks_that_were_interrupted_are_named(folder: Path) -> None:
    """Their captures can be finished."""
    (folder / "rank-2" / ".run").mkdir(parents=True)
    (folder / "rank-2" / ".run" / "capture.nsys-rep").touch()
    code, _, error = run(folder, "--format", "json")
    assert code == 0
    assert f"warning: rank-2 was interrupted: run 'nsyswrap resume {folder}' first\n" in error


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("job/rank-3/capture.sqlite", 3),
        ("rank_12.sqlite", 12),
        ("r7.nsys-rep", 7),
        ("x-r2.sqlite", 2),
        ("bar2.sqlite", None),
    ],
)
def test_the_rank_in_a_name(name: str, rank: int | None) -> None:
    assert rank_in_name(Path(name)) == rank


def test_files_of_a_folder_are_captures_in_order(tmp_path: Path) -> None:
    """An export comes before the report that it was made from."""
    for name in ("rank1.sqlite", "rank0.nsys-rep", "rank0.sqlite", "notes.txt"):
        (tmp_path / name).touch()
    assert [path.name for path in find_reports([tmp_path])] == ["rank0.sqlite", "rank1.sqlite"]


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), lambda path: path.touch()])
def test_what_is_no_capture_is_refused(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "other.txt")
    with pytest.raises(UsageError):
        find_reports([tmp_path / "other.txt"])
