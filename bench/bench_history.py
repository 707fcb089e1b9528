# ruff: noqa: INP001, T201 - a program for the terminal
"""Time the history with many runs: list, page, gate, show, add, a series, and data frames, on SQLite and PostgreSQL.

python bench/bench_history.py 100000

Each run has the accounts, findings and facts of a real one, from reports/gallery. Its step time is that of the real run
times a factor: noise of 2 %, and by program no change, changes of level, a drift, or load that lasts. PostgreSQL is a
server of its own in a temporary folder, with its usual settings except fsync; where it is not installed, only SQLite is
measured. CPU time of the server is that of all its processes while a use lasts.
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Double,
    Insert,
    Table,
    cast,
    func,
    insert,
    join,
    literal_column,
    select,
    text,
    update,
)

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

import postgres_server  # noqa: E402 - beside the tests

from nsyswrap.cli.recording import recorded_run  # noqa: E402 - after the folder above
from nsyswrap.runs.database import writing  # noqa: E402
from nsyswrap.runs.frames import COLUMNS  # noqa: E402
from nsyswrap.runs.history import (  # noqa: E402
    Added,
    History,
    open_history,
)
from nsyswrap.runs.run import Program, RunRow  # noqa: E402
from nsyswrap.runs.tables import ACCOUNTS, FACTS, FINDINGS, RUNS  # noqa: E402

AT_ONCE = 5_000
# Each program has this many runs of each commit.
RUNS_OF_COMMIT = 5
# The last runs of a program of each kind have commits of a real repository, for the gate: it reads 200 earlier runs.
COMMITS = 41
# What the step times of a program do; programs take turns.
KINDS = ("noise", "levels", "drift", "load")
NOISE = 0.02
# Runs of one level, the largest change from one to the next, and the drift of a run.
LEVEL_RUNS, LEVEL, DRIFT = 40, 0.05, 0.0005
# The times of a step that a run keeps.
STEP_TIMES = ("mean_ns", "median_ns", "p05_ns", "p25_ns", "p75_ns", "p95_ns", "stddev_ns")
# How much of the load of a run is left in the next one.
LASTS = 0.8
PROGRAM = """
import sys, time
from nsyswrap.runs import open
h, t = open(sys.argv[1]), time.monotonic()
{}
print(time.monotonic() - t)
"""

Times = npt.NDArray[np.float64]


class Timed(NamedTuple):
    """What a use takes, in seconds: wall time, CPU time of its process, and that of the server."""

    wall_s: float
    cpu_s: float
    server_s: float


def fill(history: History, count: int) -> list[RunRow]:
    """Add the real runs, and copies of them up to a number of runs; return a real run of a program of each kind.

    Each copy has an id and a start of its own.
    """
    folders = sorted(each.parent for each in (ROOT / "reports" / "gallery").glob("*/report.json"))
    real = [run.row for run in map(recorded_run, folders) if history.add(run) is Added.NEW]
    factors = [_factors(KINDS[each % len(KINDS)], count // len(real) + 1, each) for each in range(len(real))]
    made = [
        _copy(real[number % len(real)]._asdict(), number, float(factors[number % len(real)][number // len(real)]))
        for number in range(len(real), count)
    ]
    with writing(history.engine) as connection:
        for start in range(0, len(made), AT_ONCE):
            connection.execute(insert(RUNS), made[start : start + AT_ONCE])
        for table in (ACCOUNTS, FINDINGS, FACTS):
            connection.execute(_copied_rows(table, len(real)))
    # A server does this by itself a minute later, and would do it while a use is timed.
    with history.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE" if history.engine.dialect.name == "sqlite" else "VACUUM ANALYZE"))
    return real[: len(KINDS)]


def _copied_rows(table: Table, real_count: int) -> Insert:
    """Return the statement that gives each copy the rows of its run; times of accounts follow its step time."""
    # Numbers of runs begin with 1, and a copy has the rows of the run that it is a copy of.
    same: ColumnElement[int] = literal_column(f"1 + (runs.number - 1) % {real_count}")
    values: dict[str, ColumnElement[Any]] = {column.name: column for column in table.columns}
    real = RUNS.alias("real")
    rows = join(RUNS, table, table.c.number == same).join(real, real.c.number == same)
    if table is ACCOUNTS:
        factor = func.coalesce(RUNS.c.mean_ns / real.c.mean_ns, 1.0)
        values["total_ns"] = cast(cast(table.c.total_ns, Double) * factor, BigInteger)
    chosen = select(*{**values, "number": RUNS.c.number}.values()).select_from(rows)
    return insert(table).from_select(list(values), chosen.where(RUNS.c.number > real_count))


def _factors(kind: str, count: int, seed: int) -> Times:
    """Return the step time of each run of a program, as a factor, shape (count,)."""
    generator = np.random.default_rng(seed)
    noise = NOISE * generator.standard_normal(count)
    if kind == "levels":
        levels = generator.uniform(-LEVEL, LEVEL, count // LEVEL_RUNS + 1)
        noise += np.repeat(levels, LEVEL_RUNS)[:count]
    elif kind == "drift":
        noise += DRIFT * np.arange(count)
    elif kind == "load":
        for at in range(1, count):
            noise[at] += LASTS * noise[at - 1]
    return np.exp(noise)


def _copy(row: dict[str, Any], number: int, factor: float) -> dict[str, Any]:
    """Return the row of another run of a program, whose steps take a multiple of the time."""
    digest = hashlib.sha256(str(number).encode()).hexdigest()
    day, second = divmod(number * 61, 86_400)
    started = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(1_780_000_000 + day * 86_400 + second))
    commit = hashlib.sha256(str(number // 43 // RUNS_OF_COMMIT).encode()).hexdigest()[:40]
    times = {name: row[name] and row[name] * factor for name in STEP_TIMES}
    of_copy = {"run_id": digest, "content": digest, "started_utc": started, "commit": commit, "committed_s": number}
    return {**row, **times, **of_copy}


def with_commits(history: History, programs: Sequence[Program], folder: Path) -> None:
    """Make a repository, and give its commits to the last runs of some programs, some to each."""
    git = ["git", "-C", str(folder), "-c", "user.name=bench", "-c", "user.email=bench@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)  # noqa: S603 - git
    for number in range(COMMITS):
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", str(number)], check=True)  # noqa: S603 - git
    listed = subprocess.run([*git, "rev-list", "--reverse", "HEAD"], check=True, capture_output=True, text=True)  # noqa: S603
    commits = listed.stdout.split()
    last = history.last_runs(programs, COMMITS * RUNS_OF_COMMIT)
    with writing(history.engine) as connection:
        for at, one in ((at, one) for runs in last.values() for at, one in enumerate(runs)):
            commit = commits[at // RUNS_OF_COMMIT]
            connection.execute(update(RUNS).where(RUNS.c.run_id == one.row.run_id).values(commit=commit))


def command(*arguments: str, folder: Path | None = None) -> Callable[[str], Timed]:
    """Return a function that times a command from start to end."""

    def timed(address: str) -> Timed:
        words = [sys.executable, "-m", "nsyswrap", *arguments, "--db", address]
        if arguments[0] == "history":
            words = [sys.executable, "-m", "nsyswrap", "history", "--db", address, *arguments[1:]]
        began = time.monotonic()
        # A gate that fails or cannot tell is a result, too.
        cpu_s, server_s, _ = _run(words, address, {0, 1, 3}, folder)
        return Timed(time.monotonic() - began, cpu_s, server_s)

    return timed


def call(code: str) -> Callable[[str], Timed]:
    """Return a function that times Python code on an open history ``h``, in a process of its own."""

    def timed(address: str) -> Timed:
        cpu_s, server_s, printed = _run([sys.executable, "-c", PROGRAM.format(code), address], address, {0}, None)
        return Timed(float(printed), cpu_s, server_s)

    return timed


def _run(words: Sequence[str], address: str, allowed: set[int], folder: Path | None) -> tuple[float, float, str]:
    """Run a program, and return its CPU seconds, those of the server, and what it printed."""
    before, of_server = resource.getrusage(resource.RUSAGE_CHILDREN), server_s(address)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, check=False, cwd=folder, capture_output=True, text=True, env=environment)  # noqa: S603
    if done.returncode not in allowed or "Traceback" in done.stderr:
        raise RuntimeError(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu_s, server_s(address) - of_server, done.stdout


def server_s(address: str) -> float:
    """Return the CPU seconds of the server's processes so far, with those that have ended; 0 for a file."""
    if "://" not in address:
        return 0.0
    main = (Path(address.partition("host=")[2]) / "data" / "postmaster.pid").read_text(encoding="utf-8").split()[0]
    found = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # Fields after the name, which is in brackets: proc(5).
            fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
            if stat.parent.name == main:
                found += sum(map(int, fields[11:15]))
            elif fields[1] == main:
                found += sum(map(int, fields[11:13]))
    return found / os.sysconf("SC_CLK_TCK")


def measured(address: str, count: int) -> None:
    """Fill a history and print what each use takes."""
    began = time.monotonic()
    history = open_history(address)
    rows = fill(history, count)
    print(f"{history.count()} runs in {history.engine.dialect.name}, made in {time.monotonic() - began:.0f} s")
    place = Path(tempfile.mkdtemp(prefix="nsyswrap-bench-"))
    for name, use in uses_of(history, rows, place).items():
        took = use(address)
        both = f"CPU {took.cpu_s:.2f} s" + (f", server {took.server_s:.2f} s" if "://" in address else "")
        print(f"  {name:26} {took.wall_s:7.2f} s   ({both}; load {os.getloadavg()[0]:.1f})", flush=True)
    shutil.rmtree(place)


def uses_of(history: History, rows: Sequence[RunRow], place: Path) -> dict[str, Callable[[str], Timed]]:
    """Return the uses by name; a repository for the gate is made in a folder.

    Args:
        history: The history.
        rows: A run of a program of each kind.
        place: The folder.
    """
    with_commits(history, [row.identity for row in rows], place)
    row = rows[0]
    program = f"from nsyswrap.runs.run import Program; p = Program({row.program!r}, {row.arguments!r})"
    since = f"HEAD~{COMMITS - 1}.."
    return {
        "list": command("history", "list"),
        "list --limit 0": command("history", "list", "--limit", "0"),
        "list --program mnist.py": command("history", "list", "--program", "mnist.py"),
        "page": command("history", "page", "-o", str(place / "page.html")),
        **{
            f"gate, {kind}": command("gate", "--against", since, "--program", _name(row), folder=place)
            for kind, row in zip(KINDS, rows, strict=True)
        },
        "show": command("history", "show", row.run_id[:12]),
        "add": command("history", "add", str(ROOT / "reports" / "samples" / "mnist-1-worker")),
        "series of a program": call(f"{program}; h.series(p)"),
        "frame of one fact": call('h.frame("facts", section="tensor_cores", label="share_low")'),
        "frame of two columns": call('h.frame("runs", columns=("started_utc", "median_ns"))'),
        **{f"frame {name}": call(f"h.frame({name!r})") for name in COLUMNS},
    }


def _name(row: RunRow) -> str:
    return f"{row.program} {row.arguments}"


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
