"""The types of the history: a run with its facts, accounts and findings, and rows of it.

Times are ns, sizes bytes, ratios shares of 1, as in a report. Texts hold no secret, no host and no home folder.
"""

from dataclasses import dataclass
from typing import NamedTuple

# Kinds of accounts: they add up to the window, to its idle time, and to its waits for other ranks.
KINDS = ("ledger", "idle", "wait")


class Program(NamedTuple):
    """What is run, and on what: runs of one program can be compared. None in a field means any.

    Attributes:
        program: The script, such as "train.py", or the program where there is none.
        arguments: The other words of the command as a shell writes them, with those of a launcher.
        gpu: Name of the GPUs, such as "NVIDIA H200"; empty without a GPU.
        rank: The rank that the report is about; empty for all of a job.
        host: Kind of the machine: processor, cores and memory; empty if unknown.
    """

    program: str
    arguments: str | None = None
    gpu: str | None = None
    gpu_count: int | None = None
    ranks: int | None = None
    rank: str | None = None
    host: str | None = None


class ListedProgram(NamedTuple):
    """A program of the history.

    Attributes:
        program: What was run, and on what; every field is known.
        last_started_utc: Start of the last one, ISO 8601 in UTC; empty if unknown.
    """

    program: Program
    run_count: int
    last_started_utc: str


class RunRow(NamedTuple):
    """One run without its accounts, findings and facts; ``tables.RUNS`` says what each field holds."""

    run_id: str
    started_utc: str
    added_utc: str
    program: str
    arguments: str
    gpu: str
    gpu_count: int
    ranks: int
    rank: str
    host: str
    commit: str
    committed_s: int | None
    is_dirty: bool | None
    driver: str
    cuda: str
    torch: str
    python: str
    nsys: str
    nsyswrap: str
    window: str
    window_ns: int
    verdict: str
    verdict_rule: str
    exit_code: int | None
    wall_ns: int | None
    folder: str
    step_count: int = 0
    mean_ns: float | None = None
    median_ns: float | None = None
    p05_ns: float | None = None
    p25_ns: float | None = None
    p75_ns: float | None = None
    p95_ns: float | None = None
    stddev_ns: float | None = None
    cpu_share: float | None = None

    @property
    def identity(self) -> Program:
        """Return what was run, and on what."""
        return Program(*(getattr(self, name) for name in Program._fields))

    @property
    def has_steps(self) -> bool:
        """Return whether its steps were measured."""
        return bool(self.step_count) and None not in (self.mean_ns, self.median_ns, self.cpu_share)


class Account(NamedTuple):
    """Time of one part of a run, summed over its GPUs; ``tables.ACCOUNTS`` says what each field holds.

    Attributes:
        step_ns: Mean over GPUs of the time per step; None without steps.
    """

    kind: str
    name: str
    rule: str
    phase: str
    total_ns: int
    step_ns: float | None = None


class RunFinding(NamedTuple):
    """One finding of a run; ``tables.FINDINGS`` says what each field holds.

    Attributes:
        lost_step_ns: Time lost per step; None without steps.
    """

    position: int
    rule: str
    severity: str
    headline: str
    device_id: int | None
    lost_ns: int
    saving_low_ns: int | None
    saving_point_ns: int | None
    saving_high_ns: int | None
    lost_step_ns: float | None = None


class RunFact(NamedTuple):
    """One fact of a section: a number with its unit, or a text; ``tables.FACTS`` says what each field holds."""

    section: str
    label: str
    value: float | None
    text: str | None
    unit: str


@dataclass(frozen=True, slots=True)
class Run:
    """A run with all that the history keeps of it.

    Attributes:
        row: The run; ``added_utc`` is set when it is added.
        content: Digest of all that is kept; equal for equal runs.
    """

    row: RunRow
    content: str
    accounts: tuple[Account, ...]
    findings: tuple[RunFinding, ...]
    facts: tuple[RunFact, ...]


class SeriesRun(NamedTuple):
    """One run of a series.

    Attributes:
        accounts: Its accounts, with ``step_ns``.
    """

    row: RunRow
    accounts: tuple[Account, ...]


def per_step(total_ns: int, run: RunRow) -> float | None:
    """Return the mean over GPUs of a time per step; None without steps or GPUs."""
    shares = run.step_count * run.gpu_count
    return total_ns / shares if shares else None


def in_series(run: Run) -> SeriesRun:
    """Return a run, which need not be in the history, as a series has it."""
    accounts = tuple(each._replace(step_ns=per_step(each.total_ns, run.row)) for each in run.accounts)
    return SeriesRun(run.row, accounts)
