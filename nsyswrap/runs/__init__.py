"""Many runs: a history of runs in a database, SQLite or PostgreSQL, and what is read from it.

::

    history = nsyswrap.runs.open()                 the history of this project, or open("postgresql://host/db")
    history.add(run)                               a `Run` of `run_from_report(report, record)`; twice changes nothing
    history.runs(limit=20)                         the newest first, as `RunRow`
    history.frame("runs")                          pandas: also "accounts", "findings", "facts"
    series(history, program, "main~10..main")      the runs of one program in order of their commits, for a gate

What a gate reads::

    def series(
        history: History, program: Program, revisions: str = "", folder: Path | None = None
    ) -> tuple[SeriesRun, ...]

    class Program(NamedTuple)       None in a field means any
        program: str                as "train.py"; the arguments are not part of it
        arguments: str | None       as a shell writes them, "--epochs 1"
        gpu: str | None             "NVIDIA H200"; empty for a run without a GPU
        gpu_count: int | None
        ranks: int | None           1 for a run of one rank
        rank: str | None            empty for a whole job, "3" for a report of rank 3 alone
        host: str | None            the kind of the machine: processor, cores, memory; empty if unknown

    class SeriesRun(NamedTuple)
        row: RunRow                 .run_id .started_utc .commit .committed_s .is_dirty and the fields of `Program`
        step: StepSummary | None    .count .mean_ns (time per step, start to start) and, of the lengths of steps,
                                    .median_ns .p05_ns .p25_ns .p75_ns .p95_ns .stddev_ns; .cpu_share. As in `compare`,
                                    step k is the mean over ranks. None without steps.
        accounts: tuple[Account, ...]

    class Account(NamedTuple)       time of one part, summed over GPUs, exact to the nanosecond
        kind: str                   "ledger" (adds up to the window of each GPU), "idle" (adds up to the ledger's
                                    idle_ns) or "wait" (adds up to communication_wait_ns, where ranks are joined)
        name: str                   row of the ledger as "compute_ns"; cause of idle time as "data_wait"; for a wait
                                    the late rank as "3"
        rule: str                   rule of its finding as "idle/data_wait"; empty in the ledger
        phase: str                  empty in the ledger
        total_ns: int               in the window
        step_ns: float | None       mean over GPUs of the time per step: total_ns / gpus / steps; None without steps

Runs come in order of commit time, then of start; runs without a commit by their start. ``revisions`` is a range of git
("main~10..main", "v1.2.."), resolved in ``folder``; empty for all runs. Dirty runs of a commit count as runs of it.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nsyswrap.runs.history import History
    from nsyswrap.runs.run import Program, SeriesRun


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


def series(
    history: "History", program: "Program", revisions: str = "", folder: Path | None = None
) -> "tuple[SeriesRun, ...]":
    """Return the runs of one program in order of their commits, then of their start.

    Args:
        history: The history.
        program: What was run, and on what.
        revisions: A range of git, such as "main~10..main"; empty for all runs.
        folder: A folder of the repository; None for the working folder.

    Raises:
        HistoryError: The history cannot be read.
        UsageError: Git does not know the range.
    """
    return history.series(program, revisions, folder)
