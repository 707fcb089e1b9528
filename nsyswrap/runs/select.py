"""Reads runs of a history: lists, one run, and the series of one program in order of its commits."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Engine, Select, and_, func, or_, select, true, tuple_

from nsyswrap.capture.git_history import commits_in
from nsyswrap.runs.checked_rows import rows_of
from nsyswrap.runs.database import HistoryError, reading
from nsyswrap.runs.run import (
    KINDS,
    Account,
    ListedProgram,
    ListedRun,
    Program,
    Run,
    RunFact,
    RunFinding,
    RunRow,
    SeriesRun,
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
)

Value = TypeVar("Value")

# Shorter prefixes of an id are likely to have several runs, and one may be a mistyped number.
LEAST_DIGITS = 4
# Values in one query. Source: https://www.sqlite.org/limits.html, at most 32766.
_AT_ONCE = 10_000


def list_runs(engine: Engine, program: Program | None = None, limit: int | None = None) -> list[RunRow]:
    """Return runs, the newest first.

    Args:
        engine: The database.
        program: Which runs; None for all. An argument, such as "train.py", also finds "src/train.py".
        limit: How many at most; None for all.

    Raises:
        HistoryError: The history cannot be read.
    """
    query = select(*RUN_COLUMNS).where(is_of(program)).order_by(*_NEWEST).limit(limit)
    with reading(engine) as connection:
        return [RunRow(*row) for row in rows_of(connection, query)]


def list_lines(engine: Engine, program: Program | None = None, limit: int | None = None) -> list[ListedRun]:
    """Return the same runs as ``list_runs`` with the fields that a line has.

    Raises:
        HistoryError: The history cannot be read.
    """
    columns = [RUNS.c[name] for name in ListedRun._fields]
    query = select(*columns).where(is_of(program)).order_by(*_NEWEST).limit(limit)
    with reading(engine) as connection:
        return [ListedRun(*row) for row in rows_of(connection, query)]


_NEWEST = (RUNS.c.started_utc.desc(), RUNS.c.run_id.desc())


def count_runs(engine: Engine, program: Program | None = None) -> int:
    """Return the number of runs.

    Raises:
        HistoryError: The history cannot be read.
    """
    with reading(engine) as connection:
        return int(connection.execute(select(func.count()).select_from(RUNS).where(is_of(program))).scalar_one())


def find_run(engine: Engine, name: str) -> RunRow:
    """Return the run with an id, or with the one id that begins so.

    Raises:
        HistoryError: There is no such run, or more than one.
    """
    if not re.fullmatch(rf"[0-9a-f]{{{LEAST_DIGITS},64}}", name):
        hint = "give the digits that 'nsyswrap history list' shows"
        raise HistoryError(f"{name!r} is not the id of a run: at least {LEAST_DIGITS} hexadecimal digits", hint=hint)
    query = select(*RUN_COLUMNS).where(RUNS.c.run_id >= name, RUNS.c.run_id < f"{name}g").limit(2)
    with reading(engine) as connection:
        runs = [RunRow(*row) for row in rows_of(connection, query)]
    if not runs:
        raise HistoryError(f"the history has no run {name}", hint="see 'nsyswrap history list'")
    if len(runs) > 1:
        raise HistoryError(f"several runs begin with {name}", hint="give more digits")
    return runs[0]


def accounts_of(engine: Engine, run: RunRow) -> tuple[Account, ...]:
    """Return the accounts of a run, the most time of each kind first.

    Raises:
        HistoryError: The history cannot be read.
    """
    query = select(*ACCOUNT_COLUMNS).join(RUNS).where(RUNS.c.run_id == run.run_id)
    with reading(engine) as connection:
        rows = [Account(*row) for row in rows_of(connection, query, run.run_id)]
    accounts = (one._replace(step_ns=per_step(one.total_ns, run)) for one in rows)
    return tuple(sorted(accounts, key=lambda one: (_place(one.kind), -one.total_ns, one[:4])))


def _place(kind: str) -> int:
    """Return where accounts of a kind come; those of an unknown one, which another version may write, come last."""
    return KINDS.index(kind) if kind in KINDS else len(KINDS)


def findings_of(engine: Engine, run: RunRow) -> tuple[RunFinding, ...]:
    """Return the findings of a run, in the order of its report.

    Raises:
        HistoryError: The history cannot be read.
    """
    query = select(*FINDING_COLUMNS).join(RUNS).where(RUNS.c.run_id == run.run_id).order_by(FINDINGS.c.position)
    with reading(engine) as connection:
        findings = [RunFinding(*row) for row in rows_of(connection, query, run.run_id)]
    return tuple(
        one._replace(lost_step_ns=one.lost_ns / run.step_count if run.step_count else None) for one in findings
    )


def facts_of(engine: Engine, run: RunRow) -> tuple[RunFact, ...]:
    """Return the facts of a run by section and label.

    Raises:
        HistoryError: The history cannot be read.
    """
    query = select(*FACT_COLUMNS).join(RUNS).where(RUNS.c.run_id == run.run_id)
    with reading(engine) as connection:
        return tuple(sorted((RunFact(*row) for row in rows_of(connection, query, run.run_id)), key=lambda one: one[:2]))


def list_programs(engine: Engine, name: str = "") -> list[ListedProgram]:
    """Return what was run and on what, each once with its number of runs, the last one that ran first.

    Args:
        engine: The database.
        name: Only this script, such as "train.py"; empty for all.

    Raises:
        HistoryError: The history cannot be read.
    """
    identity = [RUNS.c[field] for field in Program._fields]
    last = func.max(RUNS.c.started_utc)
    query = select(*identity, func.count(), last).where(is_of(Program(name))).group_by(*identity)
    with reading(engine) as connection:
        rows = rows_of(connection, query.order_by(last.desc(), *identity))
    return [ListedProgram(Program(*row[:-2]), row[-2], row[-1]) for row in rows]


def last_runs(engine: Engine, programs: Sequence[Program], limit: int) -> dict[Program, tuple[SeriesRun, ...]]:
    """Return the last runs of each program in the order of ``series``; the fields of a program all match exactly.

    One query sorts the runs of all programs, so that the server reads its table once.

    Raises:
        HistoryError: The history cannot be read.
    """
    identity = [RUNS.c[field] for field in Program._fields]
    place = func.row_number().over(partition_by=identity, order_by=_LAST_COMMIT).label("place")
    # Only numbers are kept: rows are long.
    placed = select(RUNS.c.number, place).where(tuple_(*identity).in_(programs)).subquery()
    by_program: dict[Program, list[SeriesRun]] = {program: [] for program in programs}
    with reading(engine) as connection:
        last = select(placed.c.number).where(placed.c.place <= limit)
        rows = _numbered(connection, [select(*_NUMBERED).where(RUNS.c.number.in_(last))])
        for run in _with_accounts(connection, rows):
            by_program[run.row.identity].append(run)
    return {program: tuple(runs) for program, runs in by_program.items()}


def series(
    engine: Engine, program: Program, revisions: str = "", folder: Path | None = None, limit: int | None = None
) -> tuple[SeriesRun, ...]:
    """Return the runs of one program in order of their commits, then of their start.

    Args:
        engine: The database.
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
        commits = commits_in(revisions, folder or Path())
        filters = [and_(wanted, RUNS.c.commit.in_(some)) for some in _parts(commits)]
    with reading(engine) as connection:
        queries = [select(*_NUMBERED).where(each).order_by(*_LAST_COMMIT).limit(limit) for each in filters]
        numbered = _numbered(connection, queries)
        return tuple(_with_accounts(connection, numbered[-limit:] if limit else numbered))


_NUMBERED = (RUNS.c.number, *RUN_COLUMNS)
# The reverse order of `_by_commit`.
_LAST_COMMIT = (
    RUNS.c.committed_s.is_(None),
    RUNS.c.committed_s.desc(),
    RUNS.c.started_utc.desc(),
    RUNS.c.run_id.desc(),
)


def in_series(run: Run) -> SeriesRun:
    """Return a run, which need not be in the history, as a series has it."""
    accounts = tuple(each._replace(step_ns=per_step(each.total_ns, run.row)) for each in run.accounts)
    return SeriesRun(run.row, run.row.step, accounts)


def values_of(engine: Engine, rows: Sequence[RunRow], section: str, label: str) -> dict[str, float | None]:
    """Return the number of one fact by the id of the run, for runs that have the fact.

    Raises:
        HistoryError: The history cannot be read.
    """
    wanted = select(RUNS.c.run_id, FACTS.c.value).join_from(RUNS, FACTS)
    of_fact = wanted.where(FACTS.c.section == section, FACTS.c.label == label)
    return _by_run(engine, of_fact, rows)


def with_finding(engine: Engine, rows: Sequence[RunRow], rule: str) -> frozenset[str]:
    """Return the ids of the runs that have a finding of a rule.

    Raises:
        HistoryError: The history cannot be read.
    """
    wanted = select(RUNS.c.run_id, FINDINGS.c.position).join_from(RUNS, FINDINGS).where(FINDINGS.c.rule == rule)
    return frozenset(_by_run(engine, wanted, rows))


def _by_run(engine: Engine, query: Select[Any], rows: Sequence[RunRow]) -> dict[str, Any]:
    """Return the second column of a query by its first one, the id of the run."""
    with reading(engine) as connection:
        parts = _parts([row.run_id for row in rows])
        pairs = [row for some in parts for row in rows_of(connection, query.where(RUNS.c.run_id.in_(some)))]
    return {run_id: value for run_id, value in pairs}  # noqa: C416 - rows are no pairs for mypy


def _by_commit(row: RunRow) -> tuple[bool, int, str, str]:
    """Return the sort key of a series: runs without a commit come first, by their start."""
    return (row.committed_s is not None, row.committed_s or 0, row.started_utc, row.run_id)


def is_of(program: Program | None) -> ColumnElement[bool]:
    """Return the condition that a run is of a program."""
    if program is None:
        return true()
    named = or_(RUNS.c.program == program.program, RUNS.c.program.endswith(f"/{program.program}", autoescape=True))
    given = {name: value for name, value in program._asdict().items() if name != "program" and value is not None}
    return and_(named if program.program else true(), *(RUNS.c[name] == value for name, value in given.items()))


def _parts(values: Sequence[Value]) -> Iterator[Sequence[Value]]:
    """Yield values in parts that each fit into one query."""
    return (values[start : start + _AT_ONCE] for start in range(0, len(values), _AT_ONCE))


def _numbered(connection: Connection, queries: Sequence[Select[Any]]) -> list[tuple[int, RunRow]]:
    """Return what queries for ``_NUMBERED`` find in the order of a series: the number of each run, and the run."""
    numbered = [(row[0], RunRow(*row[1:])) for query in queries for row in rows_of(connection, query)]
    return sorted(numbered, key=lambda one: _by_commit(one[1]))


def _with_accounts(connection: Connection, rows: Sequence[tuple[int, RunRow]]) -> Iterator[SeriesRun]:
    """Yield numbered runs in the order given, with their accounts in order of their names."""
    accounts: dict[int, list[Account]] = defaultdict(list)
    of_number = dict(rows)
    for some in _parts(list(of_number)):
        query = select(ACCOUNTS.c.number, *ACCOUNT_COLUMNS).where(ACCOUNTS.c.number.in_(some))
        # One fetch of all rows, and an order made here, each take less time than one row after the other in order.
        for number, kind, name, rule, phase, total_ns in rows_of(connection, query):
            step_ns = per_step(total_ns, of_number[number])
            accounts[number].append(Account(kind, name, rule, phase, total_ns, step_ns))
    return (SeriesRun(row, row.step, tuple(sorted(accounts[number]))) for number, row in rows)


def per_step(total_ns: int, run: RunRow) -> float | None:
    """Return the mean over GPUs of a time per step; None without steps or GPUs."""
    shares = run.step_count * run.gpu_count
    return total_ns / shares if shares else None
