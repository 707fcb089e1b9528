"""The history on SQLite and on PostgreSQL: adding, removing, reading, and many writers; both behave the same."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import hand_made
import pandas as pd
import postgres_server
import pyarrow.parquet as pq
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from made_runs import IDENTITY, MS, STEPS, made_run
from sqlalchemy import func, inspect, select, text

from nsyswrap.model import Report
from nsyswrap.runs.database import HistoryError, connect, database_url, reading, writing
from nsyswrap.runs.frames import COLUMNS, write_parquet
from nsyswrap.runs.from_report import run_from_report
from nsyswrap.runs.history import Added, History, open_history
from nsyswrap.runs.migrate import migrate, scripts
from nsyswrap.runs.run import Program, Run, RunFact
from nsyswrap.runs.tables import ACCOUNTS, FACTS, FINDINGS, HEAD, METADATA, RUNS

ROOT = Path(__file__).resolve().parents[2]
WRITERS = ROOT / "tests" / "support" / "history_writers.py"


def whole(found: History, run: Run) -> bool:
    """Whether the history has a run with every one of its rows."""
    row = found.find(run.row.run_id)
    accounts = {one._replace(step_ns=None) for one in found.accounts(row)}
    findings = tuple(one._replace(lost_step_ns=None) for one in found.findings(row))
    facts = tuple(sorted(run.facts, key=lambda one: one[:2]))
    same = row._replace(added_utc="") == run.row and accounts == set(run.accounts)
    return same and findings == run.findings and found.facts(row) == facts


def all_whole(found: History) -> bool:
    """Whether each run of a history has as many rows of each kind as a made run."""
    one, runs = made_run(0), found.frame("runs")
    counts = {"accounts": len(one.accounts), "findings": len(one.findings), "facts": len(one.facts)}
    for name, count in counts.items():
        rows = found.frame(name).groupby("run_id").size()
        if set(rows.index) != set(runs["run_id"]) or not (rows == count).all():
            return False
    return True


def writers(address: str, *arguments: int, stdout: int = subprocess.PIPE) -> "subprocess.Popen[str]":
    """Start writers in processes of their own."""
    path = os.pathsep.join([str(WRITERS.parent), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, str(WRITERS), address, *map(str, arguments)]
    return subprocess.Popen(command, stdout=stdout, text=True, env=environment, start_new_session=True)


def test_a_run_that_is_added_comes_back_with_every_row(history: History) -> None:
    run = made_run(1, commit="c0ffee", committed_s=1_700_000_000)
    assert history.add(run) is Added.NEW
    assert whole(history, run)


def test_adding_a_run_twice_changes_nothing(history: History) -> None:
    history.add(made_run(1))
    before = history.runs()
    assert history.add(made_run(1)) is Added.SAME
    assert history.runs() == before
    assert len(history.frame("accounts")) == len(made_run(1).accounts)


def test_other_numbers_of_a_run_are_taken_only_where_it_is_replaced(history: History) -> None:
    """A capture that is analyzed again stays one run."""
    history.add(made_run(1, step_ms=10.0))
    again = made_run(1, step_ms=11.0)
    assert history.add(again) is Added.OTHER
    assert whole(history, made_run(1, step_ms=10.0))
    assert history.add(again, replace=True) is Added.REPLACED
    assert whole(history, again)
    assert history.count() == 1


def test_runs_are_listed_the_newest_first_and_by_program(history: History) -> None:
    for number in (2, 1, 3):
        history.add(made_run(number))
    other = made_run(4)
    history.add(Run(other.row._replace(program="tools/other.py"), *list_of(other)))
    assert [row.run_id[:8] for row in history.runs()] == ["00000004", "00000003", "00000002", "00000001"]
    assert [row.run_id[:8] for row in history.runs(limit=2)] == ["00000004", "00000003"]
    assert history.count(Program("train.py")) == 3
    assert [row.program for row in history.runs(Program("other.py"))] == ["tools/other.py"]
    assert history.count(Program("ther.py")) == 0
    assert history.count(IDENTITY) == 3
    assert history.count(IDENTITY._replace(arguments="--epochs 2")) == 0


def list_of(run: Run) -> tuple[Any, ...]:
    """Return the fields of a run after its row."""
    return (run.content, run.accounts, run.findings, run.facts)


def test_a_run_is_found_by_the_first_digits_of_its_id(history: History) -> None:
    history.add(made_run(0x12345678))
    history.add(made_run(0x12345679))
    assert history.find("12345678").run_id.startswith("12345678")
    for name, words in (("1234567", "several runs"), ("ffff", "no run ffff"), ("12", "not the id"), ("%%%%", "not")):
        with pytest.raises(HistoryError, match=words):
            history.find(name)


def test_a_removed_run_leaves_no_row(history: History) -> None:
    for number in (1, 2):
        history.add(made_run(number))
    assert history.remove([made_run(1).row.run_id, "f" * 64]) == 1
    assert [row.run_id for row in history.runs()] == [made_run(2).row.run_id]
    assert whole(history, made_run(2))
    with reading(history.engine) as connection:
        assert connection.execute(select(func.count()).select_from(FACTS)).scalar() == len(made_run(2).facts)


def test_a_series_is_in_order_of_commits_and_then_of_starts(history: History) -> None:
    """Not of when runs were made: an old commit may be measured today. Runs without a commit come first."""
    for number, committed_s in ((1, 300), (2, 100), (3, None), (4, 100)):
        history.add(made_run(number, commit=f"{number:040x}" if committed_s else "", committed_s=committed_s))
    found = history.series(IDENTITY)
    assert [int(one.row.run_id[:8], 16) for one in found] == [3, 2, 4, 1]


def test_last_runs_are_those_of_each_program_in_order(history: History) -> None:
    """The limit holds for each program, fields match exactly, and the accounts of a run are in order of their names."""
    other = IDENTITY._replace(arguments="--other")
    for number in range(1, 7):
        run = made_run(number, commit=f"{number:040x}", committed_s=1000 - number)
        row = run.row._replace(arguments=other.arguments or "") if number % 2 else run.row
        history.add(Run(row, run.content, run.accounts, run.findings, run.facts))
    found = history.last_runs([other, IDENTITY], 2)
    ids = {program: [int(one.row.run_id[:8], 16) for one in runs] for program, runs in found.items()}
    assert ids == {other: [3, 1], IDENTITY: [4, 2]}
    assert all(one.accounts == tuple(sorted(one.accounts)) for runs in found.values() for one in runs)
    assert history.last_runs([], 2) == {}


def test_a_series_has_times_per_step(history: History) -> None:
    """The time per step is the mean over steps and GPUs, and the ledger's parts of it add up to the step."""
    run = made_run(1, step_ms=8.0)
    history.add(run)
    (found,) = history.series(Program("train.py"))
    assert (found.row.step_count, found.row.mean_ns) == (STEPS, 8e6)
    ledger = [one for one in found.accounts if one.kind == "ledger"]
    assert sum(one.step_ns or 0 for one in ledger) == pytest.approx(8e6)
    assert len(found.accounts) == len(run.accounts)


def test_a_series_of_a_range_has_the_runs_of_its_commits(history: History, tmp_path: Path) -> None:
    """The range is resolved by git; the first commit and a commit of nowhere are outside of it."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    commits = []
    for number in range(3):
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", str(number)], check=True)
        done = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
        commits.append(done.stdout.strip())
    for number, commit in enumerate((*commits, "f" * 40)):
        history.add(made_run(number, commit=commit, committed_s=number))
    found = history.series(IDENTITY, "HEAD~2..HEAD", tmp_path)
    assert [one.row.commit for one in found] == commits[1:]


def test_frames_have_their_columns_and_types(history: History) -> None:
    """Also without a run: whole numbers stay whole where values are missing."""
    empty = {name: history.frame(name) for name in COLUMNS}
    history.add(made_run(1))
    for name, described in COLUMNS.items():
        found = history.frame(name)
        assert list(found.columns) == list(described) == list(empty[name].columns)
        assert found.dtypes.to_dict() == empty[name].dtypes.to_dict()
    runs = history.frame("runs")
    assert isinstance(runs["committed_s"].dtype, pd.Int64Dtype)
    assert runs["committed_s"].isna().all()
    findings = history.frame("findings")
    assert findings["lost_step_ns"].tolist() == [one.lost_ns / STEPS for one in made_run(1).findings]
    assert findings["saving_low_ns"].isna().tolist() == [False, True]
    with pytest.raises(HistoryError, match="no frame 'steps'"):
        history.frame("steps")


def test_a_frame_has_only_what_is_wanted(history: History) -> None:
    """Columns in the order that is given, and rows with the values that are given, also of a column that is a sum."""
    for number in range(3):
        history.add(made_run(number))
    whole = history.frame("accounts")
    found = history.frame("accounts", columns=("name", "step_ns"), kind="ledger", phase="")
    kept = whole[(whole["kind"] == "ledger") & (whole["phase"] == "")]
    assert found.to_dict("list") == kept[["name", "step_ns"]].to_dict("list")
    assert len(history.frame("accounts", name="idle_ns")) == 3
    assert len(history.frame("accounts", step_ns=float(whole["step_ns"].iloc[0]))) == 3
    assert history.frame("facts", section="nowhere", columns=("value",)).dtypes.to_dict() == {"value": "float64"}
    with pytest.raises(HistoryError, match="'accounts' has no column 'label'"):
        history.frame("accounts", label="x")


def test_parquet_has_the_rows_of_the_frames(history: History, tmp_path: Path) -> None:
    for number in range(5):
        history.add(made_run(number))
    written = write_parquet(history.engine, tmp_path, IDENTITY)
    for name in COLUMNS:
        table = pq.read_table(tmp_path / f"{name}.parquet")
        assert table.num_rows == written[name] == len(history.frame(name))
        field = table.schema.field(0)
        assert field.metadata[b"description"].decode() == COLUMNS[name][field.name]


def test_the_migrations_make_the_tables_that_the_code_uses(history: History) -> None:
    """Alembic finds no difference, and the version in the code is the last one."""
    assert scripts().get_current_head() == HEAD
    with reading(history.engine) as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []


def test_a_history_of_the_first_version_gets_the_points_of_its_savings(database: str) -> None:
    """Its rows stay as they are; a finding without a prediction has no point either."""
    engine, steps, run = connect(database_url(database)), scripts(), made_run(1)
    with writing(engine) as connection:
        context = MigrationContext.configure(connection)
        with Operations.context(context):
            for change in reversed(list(steps.iterate_revisions("0001", "base"))):
                change.module.upgrade()
        context.stamp(steps, "0001")
        values = {**run.row._asdict(), "content": run.content}
        of_run = {"number": connection.execute(RUNS.insert().returning(RUNS.c.number), values).scalar_one()}
        for table, rows in ((ACCOUNTS, run.accounts), (FINDINGS, run.findings), (FACTS, run.facts)):
            names = {each["name"] for each in inspect(connection).get_columns(table.name)}
            written = [{name: value for name, value in row._asdict().items() if name in names} for row in rows]
            assert all("saving_point_ns" not in each for each in written)
            connection.execute(table.insert(), [{**of_run, **each} for each in written])
    found = open_history(database)
    assert whole(found, run)
    points = [(each.saving_low_ns, each.saving_point_ns, each.saving_high_ns) for each in found.findings(run.row)]
    assert points == [(75 * MS, 112_500_000, 150 * MS), (None, None, None)]
    assert found.add(made_run(2))


def test_a_history_of_a_newer_nsyswrap_is_refused(database: str) -> None:
    found = open_history(database)
    with writing(found.engine) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(HistoryError, match="version 9999, which this nsyswrap does not know"):
        open_history(database)


def test_a_migration_that_fails_leaves_nothing(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one makes the tables."""
    engine = connect(database_url(database))
    with monkeypatch.context() as patch:
        patch.setattr(Operations, "create_index", property(lambda _self: 1 / 0))
        with pytest.raises(ZeroDivisionError):
            migrate(engine)
    with reading(engine) as connection:
        assert inspect(connection).get_table_names() == []
    migrate(engine)
    assert History(engine, "").count() == 0


@pytest.mark.slow
def test_ten_writers_at_once_lose_nothing(database: str) -> None:
    """They make the tables at the same time, too. The run that all of them add is there once."""
    with writers(database, 10, 2) as process:
        lines = list(process.stdout or ())
    assert process.returncode == 0
    assert len(lines) == 30
    found = open_history(database)
    assert {row.run_id for row in found.runs()} == {made_run(number).row.run_id for number in range(21)}
    assert all_whole(found)


@pytest.mark.slow
def test_writers_that_are_killed_lose_nothing_that_was_acknowledged(database: str) -> None:
    """Each run in the history is whole, nothing blocks the next writer, and SQLite finds no fault in its file."""
    with writers(database, 3, 5000) as process:
        acknowledged = [line.split()[1] for line, _ in zip(process.stdout or (), range(12), strict=False)]
        os.killpg(process.pid, signal.SIGKILL)
        # A writer may still end a commit. The pipe ends when the last one is gone.
        list(process.stdout or ())
    assert len(acknowledged) == 12
    found = open_history(database)
    rows = found.runs()
    assert set(acknowledged) <= {row.run_id for row in rows}
    assert all_whole(found)
    assert found.add(made_run(0x7FFFFFFF)) is Added.NEW
    if found.engine.dialect.name == "sqlite":
        with reading(found.engine) as connection:
            assert connection.execute(text("PRAGMA integrity_check")).scalar() == "ok"


@pytest.mark.slow
def test_a_writer_that_is_killed_inside_a_transaction_leaves_no_part_of_it(database: str) -> None:
    found = open_history(database)
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException), writing(connect(database_url(database))) as connection:
            row = made_run(1).row._asdict()
            connection.execute(RUNS.insert().values({**row, "content": "0" * 64}))
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    assert found.runs() == []
    assert found.add(made_run(1)) is Added.NEW


@pytest.mark.slow
def test_a_full_disk_is_an_error_and_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """The limit of a file's size stands for the disk. After it is gone, the writer goes on where it was."""
    address = str(tmp_path / "history.sqlite")
    open_history(address)
    with writers(address, 1, 500, 200_000) as process:
        lines = list(process.stdout or ())
    assert process.returncode == 0
    added, last = lines[:-1], lines[-1]
    assert last.startswith("failed cannot write the history")
    found = open_history(address)
    assert {line.split()[1] for line in added} == {row.run_id for row in found.runs()}
    assert all_whole(found)
    assert found.add(made_run(0x7FFFFFFF)) is Added.NEW


@pytest.mark.slow
def test_a_full_disk_of_the_server_is_an_error_and_loses_nothing_that_was_acknowledged() -> None:
    """The limit of a file's size stands for the disk, as with SQLite; the server ends at once and recovers."""
    binaries = postgres_server.programs()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
    added: list[int] = []
    with postgres_server.full_then_roomy(binaries, 1_200_000) as (full, roomy):
        with full() as url:
            history = open_history(url)
            with pytest.raises(HistoryError, match="cannot write the history"):
                add_all(history, added)
        assert added
        with roomy() as url:
            found = open_history(url)
            assert [row.run_id for row in found.runs()] == [made_run(each).row.run_id for each in reversed(added)]
            assert all(whole(found, with_many_facts(number)) for number in added)
            assert found.add(with_many_facts(100)) is Added.NEW


def add_all(history: History, added: list[int]) -> None:
    """Add runs, and note the number of each one that the history acknowledges."""
    for number in range(100):
        assert history.add(with_many_facts(number)) is Added.NEW
        added.append(number)


def with_many_facts(number: int) -> Run:
    """Return a made run with two thousand more facts."""
    run = made_run(number)
    facts = (RunFact("section", f"fact_{at:04}", float(at), None, "count") for at in range(2000))
    return replace(run, facts=(*run.facts, *facts))


@pytest.mark.parametrize("made", [hand_made.hostile_report, hand_made.two_gpu_report, hand_made.no_gpu_report])
def test_any_report_can_be_added(made: Callable[[], Report], history: History) -> None:
    run = run_from_report(made())
    assert history.add(run) is Added.NEW
    assert whole(history, run)
    assert all(len(history.frame(name)) >= 0 for name in COLUMNS)
