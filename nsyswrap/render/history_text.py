"""Runs of the history as text, JSON and CSV: a list of them, and one run."""

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from nsyswrap import units
from nsyswrap.render.escape import escape_in_json, visible
from nsyswrap.rules import cause_name, rule_name
from nsyswrap.runs.run import Account, ListedRun, RunFact, RunFinding, RunRow
from nsyswrap.work_names import LEDGER_NAMES

SCHEMA = "nsyswrap.history/1"
# Enough digits to name a run: two of a million runs begin with the same ten digits in one of two cases.
ID_DIGITS = 10
_COMMIT_DIGITS = 8
_HEAD = ("run", "started (UTC)", "commit", "step", "p05 to p95", "program", "limited by")


def list_as_text(rows: Sequence[RunRow | ListedRun]) -> str:
    """Return one line for each run, under a line of headings; empty without runs."""
    if not rows:
        return ""
    lines = [_HEAD, *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    widths[-1] = 0
    return "\n".join("  ".join(map(str.ljust, cells, widths)).rstrip() for cells in lines)


def _cells(row: RunRow | ListedRun) -> tuple[str, ...]:
    """Return the cells of a run, in the order of the headings."""
    spread = "" if row.p05_ns is None or row.p95_ns is None else units.duration_range(row.p05_ns, row.p95_ns)
    step = units.duration(row.median_ns) if row.median_ns is not None else "no steps"
    program = visible(f"{row.program} {row.arguments}".strip())
    limit = rule_name(row.verdict_rule) if row.verdict_rule else ""
    return (row.run_id[:ID_DIGITS], _time(row.started_utc), commit_of(row), step, spread, program, limit)


def _time(iso: str) -> str:
    return visible(iso[:16].replace("T", " "))


def commit_of(row: RunRow | ListedRun) -> str:
    """Return the first digits of a run's commit, with a star where files differed from it."""
    return visible(row.commit[:_COMMIT_DIGITS]) + ("*" if row.is_dirty else "")


def list_as_json(rows: Sequence[RunRow]) -> str:
    """Return the runs with all their fields as JSON, one run a line."""
    encode = json.JSONEncoder(ensure_ascii=False).encode
    lines = ",\n".join(encode(row._asdict()) for row in rows)
    return escape_in_json(f'{{"schema": "{SCHEMA}", "runs": [\n{lines}\n]}}\n')


def list_as_csv(rows: Sequence[RunRow]) -> str:
    """Return the runs with all their fields as CSV; a text that a spreadsheet would run gets an apostrophe."""
    from nsyswrap.render.csv_report import safe  # noqa: PLC0415 - loads pandas, which the other forms do not need

    target = io.StringIO()
    writer = csv.writer(target)
    writer.writerow(RunRow._fields)
    writer.writerows([safe(value) for value in row] for row in rows)
    return target.getvalue()


# Those of all fields; a list as text needs fewer.
LISTS = {"json": list_as_json, "csv": list_as_csv}


def run_as_json(
    row: RunRow, accounts: Sequence[Account], findings: Sequence[RunFinding], facts: Sequence[RunFact]
) -> str:
    """Return a run with all its rows as JSON."""
    tree: dict[str, Any] = {
        "schema": SCHEMA,
        "run": row._asdict(),
        "accounts": [each._asdict() for each in accounts],
        "findings": [each._asdict() for each in findings],
        "facts": [each._asdict() for each in facts],
    }
    return escape_in_json(json.dumps(tree, ensure_ascii=False, indent=1) + "\n")


def run_as_text(
    row: RunRow, accounts: Sequence[Account], findings: Sequence[RunFinding], facts: Sequence[RunFact]
) -> str:
    """Return a run as text: what ran, its steps, where the time went, and its findings."""
    lines = [row.run_id, "", *_pairs(_about(row)), "", visible(row.verdict)]
    for kind, title in (("ledger", "GPU time"), ("idle", "Idle time"), ("wait", "Waiting for other ranks")):
        shown = [each for each in accounts if each.kind == kind and each.total_ns]
        if shown:
            total = sum(each.total_ns for each in shown)
            basis = "a step, mean over GPUs" if shown[0].step_ns is not None else "in the window, sum over GPUs"
            lines += ["", f"{title} ({basis})", *_table([_account(each, total) for each in shown])]
    if findings:
        lines += ["", "Findings", *(f"  {each.severity:8} {visible(each.headline)}" for each in findings)]
    return "\n".join([*lines, "", f"{units.count(len(facts))} facts: --format json shows them."])


def _about(row: RunRow) -> list[tuple[str, str]]:
    """Return what a run is, as pairs of a label and a value; what is unknown has an empty value."""
    gpus = units.times(row.gpu_count, row.gpu) if row.gpu else "none"
    step = "" if row.step is None else f"{units.duration(row.step.median_ns)} (median of {units.count(row.step.count)})"
    mean = "" if row.step is None else f"{units.duration(row.step.mean_ns)} (mean, start to start)"
    spread = "" if row.stddev_ns is None else f"standard deviation {units.duration(row.stddev_ns)}"
    versions = (f"{name} {getattr(row, name)}" for name in ("torch", "cuda", "driver", "nsys", "python"))
    known = [each for each in versions if not each.endswith(" ")]
    rank = f"{row.rank} of {row.ranks}" if row.rank else str(row.ranks) if row.ranks > 1 else ""
    return [
        ("program", f"{row.program} {row.arguments}".strip()),
        ("started", f"{_time(row.started_utc)} UTC" if row.started_utc else ""),
        ("commit", commit_of(row)),
        ("GPUs", gpus),
        ("ranks", rank),
        ("machine", row.host),
        ("versions", ", ".join(known)),
        ("window", row.window),
        ("step", step),
        ("time per step", mean),
        ("noise", spread),
        ("report", row.folder),
    ]


def _pairs(pairs: Sequence[tuple[str, str]]) -> list[str]:
    return [f"{label:14}{visible(value)}" for label, value in pairs if value]


def _account(account: Account, total: int) -> tuple[str, str, str]:
    """Return time, share and name of an account."""
    amount = account.total_ns if account.step_ns is None else account.step_ns
    name = LEDGER_NAMES.get(account.name, account.name)
    if account.kind == "idle":
        name = f"{cause_name(account.name)}{_where(account)}"
    elif account.kind == "wait":
        name = f"for rank {account.name}{_where(account)}" if account.name else "unknown"
    return units.duration(amount), units.share_of(account.total_ns, total), visible(name)


def _where(account: Account) -> str:
    """Return the phase and the rule of an account as the end of a line."""
    phase = f" in {account.phase}" if account.phase not in {"", "none"} else ""
    return f"{phase}: {rule_name(account.rule)}" if account.rule else phase


def _table(rows: Sequence[tuple[str, str, str]]) -> list[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(2)]
    return [f"  {row[0]:>{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]}" for row in rows]
