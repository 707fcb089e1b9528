"""Many runs: a history of runs in a database, SQLite or PostgreSQL, and what is read from it.

::

    history = nsyswrap.runs.open()                 the history of this project, or open("postgresql://host/db")
    history.add(run)                               a `Run` of `run_from_report(report, record)`; twice changes nothing
    history.runs(limit=20)                         the newest first, as `RunRow`
    history.frame("runs")                          pandas: also "accounts", "findings", "facts"
    history.series(program, "main~10..main")       the runs of one program in order of their commits, for a gate

``nsyswrap.runs.run`` has the types: ``Program`` says which runs, ``SeriesRun`` is a run with its steps and accounts.

Runs come in order of commit time, then of start; runs without a commit by their start. ``revisions`` is a range of git
("main~10..main", "v1.2.."), resolved in ``folder``; empty for all runs. Dirty runs of a commit count as runs of it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nsyswrap.runs.history import History


def open(url: str | None = None) -> "History":  # noqa: A001 - as in `nsyswrap.runs.open`
    """Open the history of runs.

    Args:
        url: The path of an SQLite file or a URL of PostgreSQL; None for that in ``NSYSWRAP_DB``, else
            ``.nsyswrap/history.sqlite`` in the project.

    Raises:
        HistoryError: It cannot be opened, or was written by a newer nsyswrap.
    """
    from nsyswrap.runs.history import open_history  # noqa: PLC0415 - loads SQLAlchemy

    return open_history(url)
