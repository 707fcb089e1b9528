"""From a report and its run.json to a run of the history."""

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from nsyswrap.base.privacy import ANYBODY, Cleaner
from nsyswrap.base.program_name import program_and_arguments, working_words
from nsyswrap.capture.recorded_run import SIZE_VARIABLES
from nsyswrap.compare.step_times import KERNEL_ROWS, LEDGER_ROWS, step_times
from nsyswrap.model import Fact, Report
from nsyswrap.runs.run import Account, Run, RunFact, RunFinding, RunRow

_QUANTILES = {"median_ns": 0.5, "p05_ns": 0.05, "p25_ns": 0.25, "p75_ns": 0.75, "p95_ns": 0.95}
# What a run is about, but not what was measured: a run that was moved is the same run.
_NOT_CONTENT = ("run_id", "added_utc", "committed_s", "folder")

Tree = Mapping[str, Any]


class RunOrigin(NamedTuple):
    """Where a run comes from, as far as its report does not say.

    Attributes:
        committed_s: When its commit was made, seconds since 1970 in UTC; None if unknown.
        folder: Folder of the report, relative to that of the project; empty where it is elsewhere.
        series: A name that stands for the program and its arguments; empty for these.
    """

    committed_s: int | None = None
    folder: str = ""
    series: str = ""


def run_from_report(
    report: Report, record: Tree | None = None, place: RunOrigin | None = None, cleaner: Cleaner = ANYBODY
) -> Run:
    """Return the run that a report is about.

    Every text is cleaned once more, since the report may come from anywhere.
    """
    texts = _Texts(cleaner)
    each_fact = (_fact(section.key, fact, texts) for section in report.sections for fact in section.facts)
    facts = tuple({(fact.section, fact.label): fact for fact in each_fact}.values())
    findings = tuple(
        RunFinding(
            position,
            texts(each.rule),
            each.severity.value,
            texts(each.headline),
            each.device_id,
            each.lost_ns,
            *(each.saving.in_order if each.saving else (None, None, None)),
        )
        for position, each in enumerate(report.findings)
    )
    accounts = tuple(sorted(accounts_of(report, texts)))
    row = _row(report, record or {}, place or RunOrigin(), texts)
    kept = {name: value for name, value in row._asdict().items() if name not in _NOT_CONTENT}
    content = _digest([kept, *accounts, *findings, *sorted(facts, key=lambda one: one[:2])])
    # A capture is known by its start, its length in nanoseconds and its GPUs. Where these are unknown, only equal
    # reports are one run.
    session = report.session
    known = session.started_utc and session.duration_ns
    gpus = [(gpu.device_id, gpu.name, gpu.rank) for gpu in report.gpus]
    run_id = _digest([session.started_utc, session.duration_ns, gpus, row.rank, "" if known else content])
    return Run(row._replace(run_id=run_id), content, accounts, findings, facts)


class _Texts:
    """Makes texts fit for a database: without what is private, and without what PostgreSQL cannot hold."""

    def __init__(self, cleaner: Cleaner) -> None:
        self._cleaner = cleaner

    def __call__(self, value: object) -> str:
        """Return a value as a cleaned text; empty for a missing one."""
        text = "" if value is None else str(value)
        return self._storable(self._cleaner.text(text))

    def command(self, words: object) -> tuple[str, ...]:
        """Return the cleaned words of a command; none for anything that is no list of texts."""
        given = words if isinstance(words, list | tuple) else ()
        return tuple(map(self._storable, self._cleaner.command(tuple(map(str, given)))))

    @staticmethod
    def _storable(text: str) -> str:
        return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


def _row(report: Report, record: Tree, place: RunOrigin, texts: _Texts) -> RunRow:
    """Return the row of a run, still without its id."""
    session, versions = report.session, _tree(record, "versions")
    program, arguments = program_and_arguments(working_words(texts.command(record.get("command") or session.command)))
    if place.series:
        program, arguments = texts(place.series), ""
    git, launch = _tree(record, "git"), _tree(record, "launch")
    gpus = {gpu.rank for gpu in report.gpus if gpu.rank is not None}
    named = _tree(_tree(record, "environment"), "values")
    sizes = (str(named.get(name)) for name in SIZE_VARIABLES)
    is_dirty = git.get("dirty")
    return RunRow(
        run_id="",
        started_utc=texts(session.started_utc),
        added_utc="",
        program=program,
        arguments=arguments,
        gpu=texts(", ".join(sorted({gpu.name for gpu in report.gpus}))),
        gpu_count=len(report.gpus),
        ranks=max(
            1,
            len(gpus),
            _whole(launch.get("size")) or 0,
            *(int(size) for size in sizes if size.isascii() and size.isdigit()),
        ),
        rank=texts(launch.get("rank")),
        host=texts(record.get("machine")),
        commit=texts(git.get("commit")),
        committed_s=place.committed_s,
        is_dirty=is_dirty if isinstance(is_dirty, bool) else None,
        driver=texts(session.driver_version),
        cuda=texts(session.cuda_version),
        nsys=texts(session.nsys_version or versions.get("nsys")),
        torch=texts(versions.get("torch")),
        python=texts(versions.get("python")),
        nsyswrap=texts(versions.get("nsyswrap")),
        window=texts(report.window.label),
        window_ns=report.window.length_ns,
        verdict=texts(report.verdict),
        verdict_rule=texts(report.verdict_rule),
        exit_code=_whole(record.get("exit_code")),
        wall_ns=_whole(record.get("wall_ns")),
        folder=texts(place.folder),
        **_steps(report),
    )


def _steps(report: Report) -> dict[str, Any]:
    """Return the columns of a run about its measured steps; none without steps."""
    steps = step_times(report)
    if steps.count < (report.step.count or 0):
        return _shortened(report)
    if not steps.count:
        return {}
    quantiles = dict(zip(_QUANTILES, np.quantile(steps.length, list(_QUANTILES.values())).tolist(), strict=True))
    spread = float(steps.length.std(ddof=1)) if steps.count > 1 else 0.0
    found = {"step_count": steps.count, "mean_ns": float(steps.period.mean()), **quantiles}
    return {**found, "stddev_ns": spread, "cpu_share": steps.cpu_share}


def _shortened(report: Report) -> dict[str, Any]:
    """Return the columns of steps where the report lists only some of them: its facts are about all."""
    count, median = report.step.count, report.step.recorded_ns
    section = report.section("steps")
    if not count or median is None or section is None or not report.window.is_of_steps:
        return {}
    low, high = (fact.value if (fact := section.fact(name)) else None for name in ("p05_ns", "p95_ns"))
    devices = _rows(report, "ledger", "devices")
    window = sum(row["window_ns"] for row in devices)
    kernels = sum(row[name] for row in devices for name in KERNEL_ROWS)
    return {
        "step_count": count,
        "mean_ns": report.step.mean_in(report.window),
        "median_ns": float(median),
        "p05_ns": None if low is None else float(low),
        "p95_ns": None if high is None else float(high),
        "cpu_share": 1 - kernels / window if window else 1.0,
    }


def accounts_of(report: Report, texts: Callable[[object], str] = str) -> list[Account]:
    """Return the accounts of a report: rows of one name, rule and phase are added."""
    sums: dict[tuple[str, str, str, str], int] = {}

    def add(key: tuple[str, str, str, str], amount: int) -> None:
        sums[key] = sums.get(key, 0) + int(amount)

    for row in _rows(report, "ledger", "devices"):
        for name in LEDGER_ROWS:
            add(("ledger", name, "", ""), row[name])
    for row in _rows(report, "idle", "attribution"):
        add(("idle", texts(row["cause"]), texts(row["rule"]), texts(row["phase"])), row["idle_ns"])
    for row in _rows(report, "communication", "waits"):
        late = _whole(row.get("late_rank"))
        add(("wait", texts(late), texts(row.get("rule")), texts(row.get("phase"))), row.get("wait_ns", 0))
    return [Account(*key, total) for key, total in sums.items()]


def _rows(report: Report, section: str, table: str) -> list[dict[Any, Any]]:
    frame = report.rows(section, table)
    return [] if frame is None else frame.to_dict("records")


def _fact(section: str, fact: Fact, texts: _Texts) -> RunFact:
    """Return a fact; a number that is missing or not finite has neither number nor text."""
    place = texts(section), texts(fact.label)
    if isinstance(fact.value, str):
        return RunFact(*place, None, texts(fact.value), fact.unit)
    number = None if fact.value is None or pd.isna(fact.value) else float(fact.value)
    return RunFact(*place, number if number is not None and math.isfinite(number) else None, None, fact.unit)


def _digest(value: object) -> str:
    """Return 64 hexadecimal digits that are the same for equal values."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _tree(record: Tree, name: str) -> Tree:
    value = record.get(name)
    return value if isinstance(value, Mapping) else {}


def _whole(value: object) -> int | None:
    """Return a whole number as Python's own; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        return None
    return int(value)
