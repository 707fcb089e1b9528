"""The history of runs as an object."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Engine

from nsyswrap.runs import select, store
from nsyswrap.runs.database import VARIABLE, HistoryError, check_owner, connect, database_url, exists, shown
from nsyswrap.runs.migrate import migrate
from nsyswrap.runs.run import Account, ListedProgram, ListedRun, Program, Run, RunFact, RunFinding, RunRow, SeriesRun
from nsyswrap.runs.store import Added

if TYPE_CHECKING:
    import pandas as pd


class History:
    """The runs in a database. Each method is one transaction; processes may use the same database at once.

    Args:
        engine: The database, with its tables.
        place: Where it is, without a password.
    """

    def __init__(self, engine: Engine, place: str) -> None:
        self.engine = engine
        self.place = place

    def add(self, run: Run, *, replace: bool = False) -> Added:
        """Add a run. A run that is there is not added twice; ``replace`` takes its new numbers.

        Raises:
            HistoryError: It cannot be written; the history is as it was.
        """
        return store.add_run(self.engine, run, replace=replace)

    def remove(self, run_ids: Collection[str]) -> int:
        """Remove runs by their whole ids, and return how many were there.

        Raises:
            HistoryError: It cannot be written; the history is as it was.
        """
        return store.remove_runs(self.engine, run_ids)

    def runs(self, program: Program | None = None, limit: int | None = None) -> list[RunRow]:
        """Return runs, the newest first; all, or those of a program.

        Raises:
            HistoryError: The history cannot be read.
        """
        return select.list_runs(self.engine, program, limit)

    def lines(self, program: Program | None = None, limit: int | None = None) -> list[ListedRun]:
        """Return runs as ``runs`` does, with the fields that a line of a list has: many are read in less time.

        Raises:
            HistoryError: The history cannot be read.
        """
        return select.list_lines(self.engine, program, limit)

    def count(self, program: Program | None = None) -> int:
        """Return the number of runs: of all, or of those of a program.

        Raises:
            HistoryError: The history cannot be read.
        """
        return select.count_runs(self.engine, program)

    def find(self, name: str) -> RunRow:
        """Return the run whose id begins so.

        Raises:
            HistoryError: There is none, or more than one.
        """
        return select.find_run(self.engine, name)

    def accounts(self, run: RunRow) -> tuple[Account, ...]:
        """Return the accounts of a run.

        Raises:
            HistoryError: The history cannot be read.
        """
        return select.accounts_of(self.engine, run)

    def findings(self, run: RunRow) -> tuple[RunFinding, ...]:
        """Return the findings of a run, in the order of its report.

        Raises:
            HistoryError: The history cannot be read.
        """
        return select.findings_of(self.engine, run)

    def facts(self, run: RunRow) -> tuple[RunFact, ...]:
        """Return the facts of a run.

        Raises:
            HistoryError: The history cannot be read.
        """
        return select.facts_of(self.engine, run)

    def series(
        self, program: Program, revisions: str = "", folder: Path | None = None, limit: int | None = None
    ) -> tuple[SeriesRun, ...]:
        """Return the runs of one program in order of their commits, as ``series`` does; the last ones with a limit.

        Raises:
            HistoryError: The history cannot be read.
            UsageError: Git does not know the range.
        """
        return select.series(self.engine, program, revisions, folder, limit)

    def programs(self, name: str = "") -> list[ListedProgram]:
        """Return what was run and on what, each once, the last one that ran first; all, or one script.

        Raises:
            HistoryError: The history cannot be read.
        """
        return select.list_programs(self.engine, name)

    def last_runs(self, programs: Sequence[Program], limit: int) -> dict[Program, tuple[SeriesRun, ...]]:
        """Return the last runs of exactly these programs, in the order of ``series``.

        Raises:
            HistoryError: The history cannot be read.
        """
        return select.last_runs(self.engine, programs, limit)

    def values(self, rows: Sequence[RunRow], section: str, label: str) -> dict[str, float | None]:
        """Return the number of one fact by the id of the run, for the runs among ``rows`` that have it.

        Raises:
            HistoryError: The history cannot be read.
        """
        return select.values_of(self.engine, rows, section, label)

    def with_finding(self, rows: Sequence[RunRow], rule: str) -> frozenset[str]:
        """Return the ids of the runs among ``rows`` that have a finding of a rule.

        Raises:
            HistoryError: The history cannot be read.
        """
        return select.with_finding(self.engine, rows, rule)

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
        from nsyswrap.runs.frames import COLUMNS, FrameQuery, frame  # noqa: PLC0415 - loads pandas

        if name not in COLUMNS:
            raise HistoryError(f"the history has no frame {name!r}", hint=f"it has {', '.join(COLUMNS)}")
        return frame(self.engine, name, FrameQuery(program, columns, equal))

    def __repr__(self) -> str:
        return f"<nsyswrap history {self.place}>"


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
