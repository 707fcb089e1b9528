# ruff: noqa: INP001, T201 - a program for the terminal
"""Time the history with many runs: list, page, gate, show, add, a series, and data frames, on SQLite and PostgreSQL.

python bench/bench_history.py 100000

Each run has the accounts, findings and facts of a real one, from reports/gallery. PostgreSQL is a server of its own in
a temporary folder, with its usual settings except fsync; where it is not installed, only SQLite is measured.
"""

import argparse
import hashlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import ColumnElement, insert, literal_column, select, text, update

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

import postgres_server  # noqa: E402 - beside the tests

from nsyswrap.cli.recording import recorded_run  # noqa: E402 - after the folder above
from nsyswrap.runs.database import writing  # noqa: E402
from nsyswrap.runs.frames import COLUMNS  # noqa: E402
from nsyswrap.runs.history import History, open_history  # noqa: E402
from nsyswrap.runs.run import Program, RunRow  # noqa: E402
from nsyswrap.runs.tables import ACCOUNTS, FACTS, FINDINGS, RUNS  # noqa: E402

AT_ONCE = 5_000
# Each program has this many runs of each commit.
RUNS_OF_COMMIT = 5
# The last runs of one program have commits of a real repository, for the gate.
COMMITS = 20
PROGRAM = """
import sys, time
from nsyswrap.runs import open
h, t = open(sys.argv[1]), time.monotonic()
{}
print(time.monotonic() - t)
"""


def fill(history: History, count: int) -> None:
    """Add the real runs, and copies of them up to a number of runs; each copy has an id and a start of its own."""
    for folder in sorted((ROOT / "reports" / "gallery").iterdir()):
        if (folder / "report.json").is_file():
            history.add(recorded_run(folder))
    real = history.runs()
    made = [_copy(real[number % len(real)]._asdict(), number) for number in range(len(real), count)]
    with writing(history.engine) as connection:
        for start in range(0, len(made), AT_ONCE):
            connection.execute(insert(RUNS), made[start : start + AT_ONCE])
        # Numbers of runs begin with 1, and a copy has the rows of the run that it is a copy of.
        same: ColumnElement[int] = literal_column(f"1 + (runs.number - 1) % {len(real)}")
        for table in (ACCOUNTS, FINDINGS, FACTS):
            names = [column.name for column in table.columns]
            rows = select(RUNS.c.number, *(table.c[name] for name in names[1:])).join_from(
                RUNS, table, table.c.number == same
            )
            connection.execute(insert(table).from_select(names, rows.where(RUNS.c.number > len(real))))
    with history.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE"))


def _copy(row: dict[str, object], number: int) -> dict[str, object]:
    """Return the row of another run of a program."""
    digest = hashlib.sha256(str(number).encode()).hexdigest()
    day, second = divmod(number * 61, 86_400)
    started = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(1_780_000_000 + day * 86_400 + second))
    commit = hashlib.sha256(str(number // 43 // RUNS_OF_COMMIT).encode()).hexdigest()[:40]
    return {**row, "run_id": digest, "content": digest, "started_utc": started, "commit": commit, "committed_s": number}


def with_commits(history: History, row: RunRow, folder: Path) -> None:
    """Make a repository, and give its commits to the last runs of a program, some to each."""
    git = ["git", "-C", str(folder), "-c", "user.name=bench", "-c", "user.email=bench@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)  # noqa: S603 - git
    for number in range(COMMITS):
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", str(number)], check=True)  # noqa: S603 - git
    listed = subprocess.run([*git, "rev-list", "--reverse", "HEAD"], check=True, capture_output=True, text=True)  # noqa: S603
    runs = history.last_runs([row.identity], COMMITS * RUNS_OF_COMMIT)[row.identity]
    with writing(history.engine) as connection:
        for at, one in enumerate(runs):
            commit = listed.stdout.split()[at // RUNS_OF_COMMIT]
            connection.execute(update(RUNS).where(RUNS.c.run_id == one.row.run_id).values(commit=commit))


def command(*arguments: str, folder: Path | None = None) -> Callable[[str], tuple[float, float]]:
    """Return a function that times a command from start to end: wall and CPU seconds."""

    def timed(address: str) -> tuple[float, float]:
        words = [sys.executable, "-m", "nsyswrap", *arguments, "--db", address]
        if arguments[0] == "history":
            words = [sys.executable, "-m", "nsyswrap", "history", "--db", address, *arguments[1:]]
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        done = subprocess.run(words, check=False, cwd=folder, capture_output=True, text=True, env=_environment())  # noqa: S603
        # A gate that cannot tell is a result, too.
        if done.returncode not in {0, 3}:
            raise RuntimeError(done.stderr)
        wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return timed


def call(code: str) -> Callable[[str], tuple[float, float]]:
    """Return a function that times Python code on an open history ``h``, in a process of its own."""

    def timed(address: str) -> tuple[float, float]:
        words = [sys.executable, "-c", PROGRAM.format(code), address]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(words, check=True, capture_output=True, text=True, env=_environment())  # noqa: S603
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return float(done.stdout), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return timed


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def measured(address: str, count: int) -> None:
    """Fill a history and print what each use takes."""
    began = time.monotonic()
    history = open_history(address)
    fill(history, count)
    print(f"{history.count()} runs in {history.engine.dialect.name}, made in {time.monotonic() - began:.0f} s")
    row = history.runs(Program("mnist.py"), limit=1)[0]
    folder = str(ROOT / "reports" / "samples" / "mnist-1-worker")
    place = Path(tempfile.mkdtemp(prefix="nsyswrap-bench-"))
    with_commits(history, row, place)
    name = f"{row.program} {row.arguments}"
    program = f"from nsyswrap.runs.run import Program; p = Program({row.program!r}, {row.arguments!r})"
    uses = {
        "list": command("history", "list"),
        "list --limit 0": command("history", "list", "--limit", "0"),
        "list --program mnist.py": command("history", "list", "--program", "mnist.py"),
        "page": command("history", "page", "-o", str(place / "page.html")),
        "gate --against": command("gate", "--against", f"HEAD~{COMMITS - 1}..", "--program", name, folder=place),
        "show": command("history", "show", row.run_id[:12]),
        "add": command("history", "add", folder),
        "series of a program": call(f"{program}; h.series(p)"),
        "frame of one fact": call('h.frame("facts", section="tensor_cores", label="share_low")'),
        "frame of two columns": call('h.frame("runs", columns=("started_utc", "median_ns"))'),
        **{f"frame {name}": call(f"h.frame({name!r})") for name in COLUMNS},
    }
    for name, use in uses.items():
        wall, cpu = use(address)
        print(f"  {name:26} {wall:7.2f} s   (CPU time of the process {cpu:.2f} s)", flush=True)
    shutil.rmtree(place)


@contextmanager
def addresses() -> Iterator[list[str]]:
    """Yield the addresses of an empty SQLite file and, where it is installed, of a PostgreSQL server."""
    binaries = postgres_server.programs()
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/history.sqlite"
        if binaries is None:
            print("PostgreSQL is not installed")
            yield [file]
            return
        with postgres_server.server(binaries) as url:
            yield [file, url]


def main() -> None:
    """Measure both databases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=int, nargs="?", default=100_000)
    parser.add_argument("--only", choices=["sqlite", "postgresql"], help="Measure one database.")
    options = parser.parse_args()
    with addresses() as found:
        for address in found:
            kind = "postgresql" if "://" in address else "sqlite"
            if options.only in {None, kind}:
                measured(address, options.runs)


if __name__ == "__main__":
    main()
