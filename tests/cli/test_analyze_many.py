"""`nsyswrap analyze-many`: one page and one JSON; broken captures are rows; a second call reads no capture."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from changed_captures import Change, write_changed
from click.testing import CliRunner, Result
from export_builder import ExportBuilder
from made_steps import made_loop

from nsyswrap.cli import cli
from nsyswrap.cli.many_results import Engine


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with three captures, one of them twice, a broken one, and the results of the command on them."""
    place = tmp_path_factory.mktemp("many")
    (place / "runs").mkdir()
    builder = made_loop(builder=ExportBuilder().gpu())
    builder.row("TARGET_INFO_SYSTEM_ENV", name="CpuCores", value="8").row(
        "TARGET_INFO_SESSION_START_TIME", utcTime="2026-11-01T10:00:00"
    )
    source = builder.write(place / "source.sqlite")
    for number in range(3):
        change = Change(1_000_000 + 100 * number, f"2026-11-0{number + 1}", f"node-{number % 2}")
        write_changed(source, place / "runs" / f"{number}.sqlite", change)
    (place / "runs" / "again.sqlite").write_bytes((place / "runs" / "1.sqlite").read_bytes())
    (place / "runs" / "bad.sqlite").write_bytes(b"")
    done = call(place, "-o", str(place / "one.html"), "-o", str(place / "one.json"), "--processes", "1")
    assert done.exit_code == 0, done.output
    (place / "stderr.txt").write_text(done.stderr)
    return place


def call(place: Path, *options: str) -> Result:
    """Run the command on the folder."""
    return CliRunner().invoke(cli, ["analyze-many", str(place / "runs"), "--cache", str(place / "cache"), *options])


@pytest.fixture
def many(place: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((place / "one.json").read_text())
    return found


def test_captures_are_counted_once_and_broken_ones_named(many: dict[str, Any]) -> None:
    assert [each["name"] for each in many["captures"]] == ["0.sqlite", "1.sqlite", "2.sqlite"]
    assert many["failed"] == [{"name": "bad.sqlite", "error": "it is empty"}]
    assert many["repeated"] == [{"name": "again.sqlite", "same_as": "1.sqlite"}] or many["repeated"] == [
        {"name": "1.sqlite", "same_as": "again.sqlite"}
    ]


def test_progress_and_failures_are_on_stderr(place: Path) -> None:
    words = (place / "stderr.txt").read_text()
    assert "nsyswrap: analyzed 4 of 4 captures" in words
    assert "warning: 1 of 4 captures could not be read, such as bad.sqlite: it is empty" in words


@pytest.fixture
def without_engine(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder without the broken capture, where nothing may be read."""

    def refuse(_engine: Engine, _tasks: object) -> object:
        raise AssertionError("a capture is read again")

    monkeypatch.setattr(Engine, "answers", refuse)
    bad = place / "runs" / "bad.sqlite"
    bad.rename(place / "bad")
    yield place
    (place / "bad").rename(bad)


def test_a_second_call_reads_no_capture(without_engine: Path) -> None:
    """The text goes to stdout, and is the same each time."""
    first, second = (call(without_engine) for _ in range(2))
    assert first.exit_code == 0, first.stderr
    assert "3 captures were analyzed before" in first.stderr
    assert first.stdout == second.stdout
    assert "3 captures hold" in first.stdout


def test_fresh_reads_all_again(without_engine: Path) -> None:
    assert "read again" in str(call(without_engine, "--fresh").exception)


def test_other_options_are_other_results(without_engine: Path) -> None:
    assert "read again" in str(call(without_engine, "--window", "all").exception)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--scheduler", "tcp://x:1", "--processes", "2"), "--processes"),
        (("--format", "json", "-o", "a.html", "-o", "b.json"), "--format"),
        (("--phase", "wrong"), "--phase"),
    ],
)
def test_wrong_options_end_before_anything_is_read(without_engine: Path, options: tuple[str, ...], words: str) -> None:
    done = call(without_engine, *options)
    assert (done.exit_code, words in done.stderr) == (2, True)


def test_a_file_that_exists_is_kept(place: Path) -> None:
    done = call(place, "-o", str(place / "one.html"))
    assert (done.exit_code, "exists already" in done.stderr) == (2, True)


def test_nothing_readable_is_an_error(tmp_path: Path) -> None:
    """No process is started for files that are not there."""
    (tmp_path / "list.txt").write_text("gone.sqlite\n")
    done = CliRunner().invoke(cli, ["analyze-many", str(tmp_path / "list.txt"), "--cache", str(tmp_path / "cache")])
    assert done.exit_code == 1
    assert "no capture can be read; gone.sqlite: it does not exist" in done.stderr


def test_a_full_disk_loses_no_result(place: Path, tmp_path: Path) -> None:
    """One warning names a cache that cannot be written, and the totals are the same."""
    (tmp_path / "file").touch()
    out = tmp_path / "two.json"
    done = CliRunner().invoke(
        cli,
        [
            "analyze-many",
            str(place / "runs"),
            "--cache",
            str(tmp_path / "file" / "x"),
            "-o",
            str(out),
            "--processes",
            "1",
        ],
    )
    assert done.exit_code == 0, done.output
    assert done.stderr.count("results cannot be kept") == 1
    assert out.read_bytes() == (place / "one.json").read_bytes()
