"""`nsyswrap history`: each command, its output and its exit codes."""

import csv
import json
import shlex
import shutil
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import click
import commands
import pyarrow.parquet as pq
import pytest

from nsyswrap.cli.history import history

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "reports" / "samples"
NAMES = ("mnist-1-worker", "mnist-8-workers")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project with two real results, and make it the working folder."""
    monkeypatch.delenv("NSYSWRAP_DB", raising=False)
    (tmp_path / ".git").mkdir()
    for name in NAMES:
        (tmp_path / "reports" / name).mkdir(parents=True)
        for file in ("report.json", "run.json"):
            shutil.copy(SAMPLES / name / file, tmp_path / "reports" / name / file)
    monkeypatch.chdir(tmp_path)
    return tmp_path


run = partial(commands.run, "history")


def added(*arguments: str) -> list[str]:
    """Add results, and return the ids that were printed."""
    done = run("add", *(f"reports/{name}" for name in NAMES), *arguments)
    assert done.exit_code == 0, done.output
    return [line.split()[0] for line in done.stdout.splitlines()]


def test_runs_are_added_once(project: Path) -> None:
    """Whether as a folder or as a file; each has a line of output."""
    first = run("add", "reports/mnist-1-worker")
    again = run("add", "reports/mnist-1-worker/report.json")
    assert first.stdout.endswith("reports/mnist-1-worker was added\n")
    assert again.stdout.endswith("report.json is in the history already\n")
    assert "1 of 1 run " in run("list").stderr
    assert (project / ".nsyswrap" / "history.sqlite").is_file()


@pytest.mark.usefixtures("project")
def test_the_list_has_the_newest_first_in_each_form() -> None:
    ids = added()
    text, tree = run("list").stdout, json.loads(run("list", "--format", "json").stdout)
    rows = list(csv.DictReader(run("list", "--format", "csv").stdout.splitlines()))
    newest = [row["run_id"][:10] for row in tree["runs"]]
    assert sorted(newest) == sorted(ids)
    assert [line.split()[0] for line in text.splitlines()[1:]] == newest
    assert [row["run_id"][:10] for row in rows] == newest
    assert [row["folder"] for row in rows] == [row["folder"] for row in tree["runs"]]
    assert {row["folder"] for row in rows} == {f"reports/{name}" for name in NAMES}
    assert tree["runs"] == sorted(tree["runs"], key=lambda row: row["started_utc"], reverse=True)


@pytest.mark.usefixtures("project")
def test_the_list_is_cut_and_says_so() -> None:
    added()
    done = run("list", "-n", "1")
    assert len(done.stdout.splitlines()) == 2
    assert "1 of 2 runs" in done.stderr
    assert "--limit 0 lists all" in done.stderr
    assert "2 of 2 runs" in run("list", "--limit", "0").stderr
    assert run("list", "--program", "other.py").stdout.strip() == ""


@pytest.mark.usefixtures("project")
def test_a_run_is_shown_with_its_account_and_findings() -> None:
    ids = added()
    text = " ".join(run("show", ids[0][:8]).stdout.split())
    tree = json.loads(run("show", ids[0], "--format", "json").stdout)
    assert "workloads/mnist.py --workers 1 --steps 60" in text
    assert "GPU TIME a step, mean over GPUs" in text
    assert tree["findings"][0]["headline"] in text
    idle = next(one for one in tree["accounts"] if one["name"] == "idle_ns")
    assert sum(one["total_ns"] for one in tree["accounts"] if one["kind"] == "idle") == idle["total_ns"]


@pytest.mark.usefixtures("project")
def test_runs_are_removed_all_or_none() -> None:
    ids = added()
    assert run("rm", ids[0], "ffffffff").exit_code == 1
    assert "2 of 2 runs" in run("list").stderr
    assert run("rm", *ids).exit_code == 0
    assert "0 of 0 runs" in run("list").stderr


def test_the_export_is_a_folder_of_parquet(project: Path) -> None:
    added()
    assert run("export", "-o", "out").exit_code == 0
    assert pq.read_table(project / "out" / "runs.parquet").num_rows == 2
    assert sorted(path.name for path in (project / "out").iterdir()) == [
        f"{name}.parquet" for name in ("accounts", "facts", "findings", "runs")
    ]
    refused = run("export", "-o", "out")
    assert (refused.exit_code, "exists already" in refused.stderr) == (2, True)
    assert run("export", "-o", "out", "--force").exit_code == 0


def test_commands_that_read_need_a_history(project: Path) -> None:
    """They make none; the hint says how to begin one."""
    for arguments in (["list"], ["page"], ["show", "ffffffff"], ["rm", "ffffffff"], ["export", "-o", "out"]):
        done = run(*arguments)
        assert done.exit_code == 1
        assert "there is no history" in done.stderr
        assert "nsyswrap history add" in done.stderr
    assert not (project / ".nsyswrap").exists()
    assert not (project / "out").exists()


@pytest.mark.parametrize(
    ("name", "words"), [("empty", "holds no report.json"), ("capture.sqlite", "is no report.json")]
)
def test_what_is_no_report_is_named(name: str, words: str, project: Path) -> None:
    (project / "empty").mkdir()
    done = run("add", name)
    assert (done.exit_code, words in done.stderr) == (2, True)


def test_another_history_is_given_by_option_or_variable(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("--db", "one.sqlite", "add", "reports/mnist-1-worker")
    monkeypatch.setenv("NSYSWRAP_DB", str(project / "one.sqlite"))
    assert "1 of 1 run " in run("list").stderr
    assert not (project / ".nsyswrap").exists()


def test_the_examples_of_the_help_can_be_parsed() -> None:
    lines = [line.split(None, 2)[2] for line in (history.help or "").splitlines() if "nsyswrap history" in line]
    assert len(lines) >= 4
    for line in lines:
        name, *arguments = shlex.split(line)
        history.commands[name].make_context(name, arguments, parent=click.Context(history))


def test_the_joint_report_of_a_job_takes_the_record_of_its_first_rank(project: Path) -> None:
    """Without the number of that rank, since the report is about all of them."""
    folder = project / "reports" / NAMES[0]
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").unlink()
    for rank in (10, 2):
        (folder / f"rank-{rank}").mkdir()
        launch = {"launch": {"rank": rank, "size": 12, "recorded": [2, 10]}, "command": ["python", f"rank{rank}.py"]}
        (folder / f"rank-{rank}" / "run.json").write_text(json.dumps({**record, **launch}))
    added()
    (row,) = (row for row in json.loads(run("list", "--format", "json").stdout)["runs"] if "rank" in row["program"])
    assert (row["program"], row["ranks"], row["rank"]) == ("rank2.py", 12, "")


def test_good_reports_are_added_beside_a_bad_one(project: Path) -> None:
    """The bad one is named, and the exit code is 4."""
    (project / "bad.json").write_text("{")
    done = run("add", "bad.json", "reports/mnist-1-worker", "missing.json", "reports/mnist-8-workers")
    assert done.exit_code == 4
    assert len(done.stdout.splitlines()) == 2
    assert "2 of 4 reports could not be added: bad.json is " in done.stderr
    assert "; cannot read missing.json: " in done.stderr
    assert "2 of 2 runs" in run("list").stderr


def test_a_run_moves_to_a_series_where_that_is_wanted(project: Path) -> None:
    """Without --replace a run that is there under its program stays where it is."""
    assert project
    run("add", "reports/mnist-1-worker")
    add = "add", "reports/mnist-1-worker", "--series", "nightly"
    assert "or in another series; --replace takes those of now" in run(*add).stdout
    assert "was replaced" in run(*add, "--replace").stdout
    assert [row["program"] for row in json.loads(run("list", "--format", "json").stdout)["runs"]] == ["nightly"]


def test_the_database_of_another_program_is_left_as_it_is(project: Path) -> None:
    """It is refused by each command, and not a byte of it changes."""
    foreign = project / "photos.sqlite"
    with closing(sqlite3.connect(foreign)) as connection:
        connection.execute("CREATE TABLE photos (name TEXT)")
        connection.commit()
    before = foreign.read_bytes()
    for words in (("add", "reports/mnist-1-worker"), ("list",), ("page", "-o", "x.html")):
        done = commands.run("history", "--db", foreign, *words)
        assert done.exit_code == 1
        assert "photos.sqlite is no history: another program keeps its tables there (photos)" in done.stderr
    assert foreign.read_bytes() == before
    assert sorted(each.name for each in project.glob("photos*")) == ["photos.sqlite"]
