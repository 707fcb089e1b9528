"""One run of the history: what ran, its steps, where the time went, and its findings."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from nsyswrap.base import units
from nsyswrap.base.json_codec import Tree
from nsyswrap.render.document import Column, Document, DocumentSection, Entries, Entry, Lines, Table
from nsyswrap.rules import cause_name, rule_name
from nsyswrap.rules.work_names import LEDGER_NAMES
from nsyswrap.runs.run import Account, RunFact, RunFinding, RunRow

SCHEMA = "nsyswrap.history/1"
_COMMIT_DIGITS = 8
_KINDS = {"ledger": "GPU time", "idle": "Idle time", "wait": "Waiting for other ranks"}


class KeptRun(NamedTuple):
    """A run with all its rows."""

    row: RunRow
    accounts: Sequence[Account]
    findings: Sequence[RunFinding]
    facts: Sequence[RunFact]


def tree(run: KeptRun) -> Tree:
    """Return a run as nested dictionaries and lists of plain Python values."""
    return {
        "schema": SCHEMA,
        "run": run.row._asdict(),
        **{name: [each._asdict() for each in getattr(run, name)] for name in ("accounts", "findings", "facts")},
    }


def document(run: KeptRun) -> Document:
    """Return a run as a document."""
    entries = tuple(Entry(each.severity, headline=each.headline, severity=each.severity) for each in run.findings)
    facts = f"{units.count(len(run.facts))} facts: --format json shows them."
    return Document(
        command="history show",
        title=run.row.run_id,
        about=tuple((label, value) for label, value in _about(run.row) if value),
        verdict=run.row.verdict,
        sections=(
            *_accounts(run.accounts),
            DocumentSection("findings", "Findings", "", (Entries(entries, "findings", (len(entries),) * 2),)),
            DocumentSection("facts", "Facts", "", (Lines((facts,), "fine"),)),
        ),
    )


def _accounts(accounts: Sequence[Account]) -> Iterator[DocumentSection]:
    """Yield where the time went; the shares of a table add up to 100 %."""
    for kind, title in _KINDS.items():
        shown = [each for each in accounts if each.kind == kind and each.total_ns]
        if not shown:
            continue
        whole, in_step = sum(each.total_ns for each in shown), shown[0].step_ns is not None
        columns = (
            Column("account", "account", "text", [_name(each) for each in shown]),
            Column(
                "time_ns", "time", "ns", [each.total_ns if each.step_ns is None else each.step_ns for each in shown]
            ),
            Column("share", "share", "share", [each.total_ns / whole for each in shown]),
        )
        of = "a step, mean over GPUs" if in_step else "in the window, sum over GPUs"
        yield DocumentSection(kind, title, of, (Table(kind, title, columns, most={"text": len(shown)}),))


def _about(row: RunRow) -> list[tuple[str, str]]:
    """Return what a run is, as pairs of a label and a value; what is unknown has an empty value."""
    gpus = units.times(row.gpu_count, row.gpu) if row.gpu else "none"
    step, mean = (units.duration(ns or 0) if row.has_steps else "" for ns in (row.median_ns, row.mean_ns))
    spread = "" if row.stddev_ns is None else f"standard deviation {units.duration(row.stddev_ns)}"
    versions = (f"{name} {getattr(row, name)}" for name in ("torch", "cuda", "driver", "nsys", "python"))
    known = [each for each in versions if not each.endswith(" ")]
    rank = f"{row.rank} of {row.ranks}" if row.rank else str(row.ranks) if row.ranks > 1 else ""
    return [
        ("program", f"{row.program} {row.arguments}".strip()),
        ("started", f"{started(row)} UTC" if row.started_utc else ""),
        ("commit", commit_of(row)),
        ("GPUs", gpus),
        ("ranks", rank),
        ("machine", row.host),
        ("versions", ", ".join(known)),
        ("window", row.window),
        ("step", step and f"{step} (median of {units.count(row.step_count)})"),
        ("time per step", mean and f"{mean} (mean, start to start)"),
        ("noise", spread),
        ("report", row.folder),
    ]


def started(row: RunRow) -> str:
    """Return when a run was started, in UTC."""
    return row.started_utc[:16].replace("T", " ")


def spread(row: RunRow) -> str:
    """Return the range that nine of ten steps of a run are in; empty where it is unknown."""
    return "" if row.p05_ns is None or row.p95_ns is None else units.duration_range(row.p05_ns, row.p95_ns)


def commit_of(row: RunRow) -> str:
    """Return the first digits of a run's commit, with a star where files differed from it."""
    return row.commit[:_COMMIT_DIGITS] + ("*" if row.is_dirty else "")


def _name(account: Account) -> str:
    if account.kind == "idle":
        return f"{cause_name(account.name)}{_where(account)}"
    if account.kind == "wait":
        return f"for rank {account.name}{_where(account)}" if account.name else "unknown"
    return LEDGER_NAMES.get(account.name, account.name)


def _where(account: Account) -> str:
    """Return the phase and the rule of an account as the end of a line."""
    phase = f" in {account.phase}" if account.phase not in {"", "none"} else ""
    return f"{phase}: {rule_name(account.rule)}" if account.rule else phase
