"""The history of runs as an object."""

import datetime as dt
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection, Engine, Select, and_, delete, func, select, tuple_
from sqlalchemy.dialects import postgresql, sqlite

from nsyswrap.capture.git_history import commits_in
from nsyswrap.runs.database import (
    VARIABLE,
    HistoryError,
    check_owner,
    connect,
    database_url,
    exists,
    reading,
    rows_of,
    shown,
    writing,
)
from nsyswrap.runs.migrate import migrate
from nsyswrap.runs.run import (
    KINDS,
    Account,
    ListedProgram,
    Program,
    Run,
    RunFact,
    RunFinding,
    RunRow,
    SeriesRun,
    per_step,
)
from nsyswrap.runs.tables import (
    ACCOUNT_COLUMNS,
    ACCOUNTS,
    FACT_COLUMNS,
    FACTS,
    FINDING_COLUMNS,
    FINDINGS,
    RUN_COLUMNS,
    RUNS,
    is_of,
)

if TYPE_CHECKING:
    import pandas as pd

Value = TypeVar("Value")

# Shorter prefixes of an id are likely to have several runs, and one may be a mistyped number.
LEAST_DIGITS = 4
# Values in one query. Source: https://www.sqlite.org/limits.html, at most 32766.
_AT_ONCE = 10_000
_IDENTITY = [RUNS.c[field] for field in Program._fields]
_NUMBERED = (RUNS.c.number, *RUN_COLUMNS)
# The reverse order of a series.
_LAST_COMMIT = (
    RUNS.c.committed_s.is_(None),
    RUNS.c.committed_s.desc(),
    RUNS.c.started_utc.desc(),
    RUNS.c.run_id.desc(),
)


class Added(StrEnum):
    """The result of adding a run to the history."""

    NEW = "added"
    SAME = "is in the history already"
    OTHER = "is in the history already, with other numbers or in another series"
    REPLACED = "replaced"


class History:
    """The runs in a database. Each method is one transaction; processes may use the same database at once.

    A method that cannot read or write raises ``HistoryError``, and the history is as it was.

    Args:
        engine: The database, with its tables.
        place: Where it is, without a password.
    """

    def __init__(self, engine: Engine, place: str) -> None:
        self.engine = engine
        self.place = place

    def add(self, run: Run, *, replace: bool = False) -> Added:
        """Add a run, unless it is there. When this returns, the run is on the disk."""
        with writing(self.engine) as connection:
            if _inserted(connection, run):
                return Added.NEW
            if not replace:
                known = connection.execute(select(RUNS.c.content).where(RUNS.c.run_id == run.row.run_id)).scalar()
                return Added.SAME if known == run.content else Added.OTHER
            connection.execute(delete(RUNS).where(RUNS.c.run_id == run.row.run_id))
            # It is there again where another process has replaced it in the same moment.
            return Added.REPLACED if _inserted(connection, run) else Added.OTHER

    def remove(self, run_ids: Collection[str]) -> int:
        """Remove runs by their whole ids, all of them or none, and return how many were there."""
        with writing(self.engine) as connection:
            return connection.execute(delete(RUNS).where(RUNS.c.run_id.in_(run_ids))).rowcount

    def runs(self, program: Program | None = None, limit: int | None = None) -> list[RunRow]:
        """Return runs, the newest first.

        Args:
            program: Which runs; None for all. An argument, such as "train.py", also finds "src/train.py".
            limit: How many at most; None for all.
        """
        query = select(*RUN_COLUMNS).where(is_of(program)).limit(limit)
        with reading(self.engine) as connection:
            rows = rows_of(connection, query.order_by(RUNS.c.started_utc.desc(), RUNS.c.run_id.desc()))
        return [RunRow(*row) for row in rows]

    def count(self, program: Program | None = None) -> int:
        """Return the number of runs: of all, or of those of a program."""
        with reading(self.engine) as connection:
            return int(connection.execute(select(func.count()).select_from(RUNS).where(is_of(program))).scalar_one())

    def find(self, name: str) -> RunRow:
        """Return the run with an id, or with the one id that begins so.

        Raises:
            HistoryError: There is none, or more than one.
        """
        if not re.fullmatch(rf"[0-9a-f]{{{LEAST_DIGITS},64}}", name):
            message = f"{name!r} is not the id of a run: at least {LEAST_DIGITS} hexadecimal digits"
            raise HistoryError(message, hint="give the digits that 'nsyswrap history list' shows")
        query = select(*RUN_COLUMNS).where(RUNS.c.run_id >= name, RUNS.c.run_id < f"{name}g").limit(2)
        with reading(self.engine) as connection:
            runs = [RunRow(*row) for row in rows_of(connection, query)]
        if not runs:
            raise HistoryError(f"the history has no run {name}", hint="see 'nsyswrap history list'")
        if len(runs) > 1:
            raise HistoryError(f"several runs begin with {name}", hint="give more digits")
        return runs[0]

    def accounts(self, run: RunRow) -> tuple[Account, ...]:
        """Return the accounts of a run, the most time of each kind first; kinds of another version come last."""
        rows = [Account(*row) for row in self._rows_of_run(ACCOUNT_COLUMNS, run)]
        accounts = (one._replace(step_ns=per_step(one.total_ns, run)) for one in rows)
        place = {kind: at for at, kind in enumerate(KINDS)}
        return tuple(sorted(accounts, key=lambda one: (place.get(one.kind, len(KINDS)), -one.total_ns, one[:4])))

    def findings(self, run: RunRow) -> tuple[RunFinding, ...]:
        """Return the findings of a run, in the order of its report."""
        found = sorted(RunFinding(*row) for row in self._rows_of_run(FINDING_COLUMNS, run))
        steps = run.step_count
        return tuple(one._replace(lost_step_ns=one.lost_ns / steps if steps else None) for one in found)

    def facts(self, run: RunRow) -> tuple[RunFact, ...]:
        """Return the facts of a run by section and label."""
        return tuple(sorted((RunFact(*row) for row in self._rows_of_run(FACT_COLUMNS, run)), key=lambda one: one[:2]))

    def _rows_of_run(self, columns: Sequence[Any], run: RunRow) -> Sequence[Any]:
        with reading(self.engine) as connection:
            return rows_of(connection, select(*columns).join(RUNS).where(RUNS.c.run_id == run.run_id), run.run_id)

    def series(
        self, program: Program, revisions: str = "", folder: Path | None = None, limit: int | None = None
    ) -> tuple[SeriesRun, ...]:
        """Return the runs of one program in order of their commits, then of their start.

        Args:
            program: What was run, and on what.
            revisions: A range of git, such as "main~10..main"; empty for all runs.
            folder: A folder of the repository; None for the working folder.
            limit: Only the last ones in this order, at most so many; None for all.

        Raises:
            HistoryError: The history cannot be read.
            UsageError: Git does not know the range.
        """
        wanted = is_of(program)
        filters = [wanted]
        if revisions:
            filters = [
                and_(wanted, RUNS.c.commit.in_(some)) for some in _parts(commits_in(revisions, folder or Path()))
            ]
        queries = [select(*_NUMBERED).where(each).order_by(*_LAST_COMMIT).limit(limit) for each in filters]
        with reading(self.engine) as connection:
            return tuple(_with_accounts(connection, queries, limit))

    def programs(self, name: str = "") -> list[ListedProgram]:
        """Return what was run and on what, each once with its number of runs, the last one that ran first."""
        last = func.max(RUNS.c.started_utc)
        query = select(*_IDENTITY, func.count(), last).where(is_of(Program(name))).group_by(*_IDENTITY)
        with reading(self.engine) as connection:
            rows = rows_of(connection, query.order_by(last.desc(), *_IDENTITY))
        return [ListedProgram(Program(*row[:-2]), row[-2], row[-1]) for row in rows]

    def last_runs(self, programs: Sequence[Program], limit: int) -> dict[Program, tuple[SeriesRun, ...]]:
        """Return the last runs of exactly these programs, in the order of ``series``.

        One query sorts the runs of all programs, so that the server reads its table once.
        """
        place = func.row_number().over(partition_by=_IDENTITY, order_by=_LAST_COMMIT).label("place")
        # Only numbers are kept: rows are long.
        placed = select(RUNS.c.number, place).where(tuple_(*_IDENTITY).in_(programs)).subquery()
        last = select(placed.c.number).where(placed.c.place <= limit)
        by_program: dict[Program, list[SeriesRun]] = {program: [] for program in programs}
        with reading(self.engine) as connection:
            for run in _with_accounts(connection, [select(*_NUMBERED).where(RUNS.c.number.in_(last))]):
                by_program[run.row.identity].append(run)
        return {program: tuple(runs) for program, runs in by_program.items()}

    def values(self, rows: Sequence[RunRow], section: str, label: str) -> dict[str, float | None]:
        """Return the number of one fact by the id of the run, for the runs among ``rows`` that have it."""
        query = select(RUNS.c.run_id, FACTS.c.value).join_from(RUNS, FACTS)
        return self._by_run(query.where(FACTS.c.section == section, FACTS.c.label == label), rows)

    def with_finding(self, rows: Sequence[RunRow], rule: str) -> frozenset[str]:
        """Return the ids of the runs among ``rows`` that have a finding of a rule."""
        query = select(RUNS.c.run_id, FINDINGS.c.position).join_from(RUNS, FINDINGS)
        return frozenset(self._by_run(query.where(FINDINGS.c.rule == rule), rows))

    def _by_run(self, query: Select[Any], rows: Sequence[RunRow]) -> dict[str, Any]:
        """Return the second column of a query by its first one, the id of the run."""
        with reading(self.engine) as connection:
            parts = _parts([row.run_id for row in rows])
            pairs = [row for some in parts for row in rows_of(connection, query.where(RUNS.c.run_id.in_(some)))]
        return {run_id: value for run_id, value in pairs}  # noqa: C416 - rows are no pairs for mypy

    def frame(
        self, name: str, /, program: Program | None = None, columns: Sequence[str] = (), **equal: str | float | None
    ) -> "pd.DataFrame":
        """Return a data frame, the oldest run first. The database leaves out what is not wanted.

        Args:
            name: "runs", "accounts", "findings" or "facts".
            program: Which runs; None for all.
            columns: Names of its columns; empty for all.
            equal: Values that its columns have, such as ``section="steps", label="median_ns"``.

        Raises:
            HistoryError: The history cannot be read, or has no such frame or column.
        """
        from nsyswrap.runs.frames import COLUMNS, frame  # noqa: PLC0415 - loads pandas

        if name not in COLUMNS:
            raise HistoryError(f"the history has no frame {name!r}", hint=f"it has {', '.join(COLUMNS)}")
        return frame(self.engine, name, program, columns, equal)

    def __repr__(self) -> str:
        return f"<nsyswrap history {self.place}>"


def _inserted(connection: Connection, run: Run) -> bool:
    """Insert a run with its rows, unless it is there."""
    insert: Any = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}[connection.dialect.name]
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    values = {**run.row._asdict(), "added_utc": now.removesuffix("+00:00"), "content": run.content}
    statement = insert(RUNS).values(values).on_conflict_do_nothing(index_elements=["run_id"])
    number: int | None = connection.execute(statement.returning(RUNS.c.number)).scalar()
    if number is None:
        return False
    for table, rows in ((ACCOUNTS, run.accounts), (FINDINGS, run.findings), (FACTS, run.facts)):
        names = [column.name for column in table.columns if column.name != "number"]
        of_rows = [{"number": number, **{name: getattr(row, name) for name in names}} for row in rows]
        if of_rows:
            connection.execute(table.insert(), of_rows)
    return True


def _parts(values: Sequence[Value]) -> Iterator[Sequence[Value]]:
    """Yield values in parts that each fit into one query."""
    return (values[start : start + _AT_ONCE] for start in range(0, len(values), _AT_ONCE))


def _with_accounts(
    connection: Connection, queries: Sequence[Select[Any]], limit: int | None = None
) -> Iterator[SeriesRun]:
    """Yield what queries for ``_NUMBERED`` find in the order of a series; runs without a commit come first."""
    found = [(row[0], RunRow(*row[1:])) for query in queries for row in rows_of(connection, query)]
    found.sort(
        key=lambda one: (one[1].committed_s is not None, one[1].committed_s or 0, one[1].started_utc, one[1].run_id)
    )
    of_number = dict(found[-limit:] if limit else found)
    accounts: dict[int, list[Account]] = defaultdict(list)
    for some in _parts(list(of_number)):
        query = select(ACCOUNTS.c.number, *ACCOUNT_COLUMNS).where(ACCOUNTS.c.number.in_(some))
        # One fetch of all rows, and an order made here, each take less time than one row after the other in order.
        for number, kind, name, rule, phase, total_ns in rows_of(connection, query):
            step_ns = per_step(total_ns, of_number[number])
            accounts[number].append(Account(kind, name, rule, phase, total_ns, step_ns))
    return (SeriesRun(row, tuple(sorted(accounts[number]))) for number, row in of_number.items())


def open_history(url: str | None = None, *, create: bool = True) -> History:
    """Open a history; its tables are made, or brought to this version of nsyswrap.

    Args:
        url: The path of an SQLite file or a URL of PostgreSQL; None for that in ``NSYSWRAP_DB``, else
            ``.nsyswrap/history.sqlite`` in the project.
        create: Whether to make a file that does not exist.

    Raises:
        HistoryError: It cannot be opened, does not exist, or was written by a newer nsyswrap or another program.
    """
    found = database_url(url)
    if not create and not exists(found):
        hint = f"add a run: nsyswrap history add reports/FOLDER; or set {VARIABLE} to another history"
        raise HistoryError(f"there is no history at {shown(found)}", hint=hint)
    check_owner(found)
    engine = connect(found)
    migrate(engine)
    return History(engine, shown(found))
