"""What must hold for any export: it is refused with our own error, or all forms of its report are sound.

::

    export -> trace -> report -> text, page, JSON, CSV, Markdown -> report again -> comparison with itself
"""

import json
import random
import traceback
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from fuzz_cases import fuzz_case

from nsyswrap.base.errors import NsyswrapError
from nsyswrap.compare.reports import compare_reports
from nsyswrap.loop.context import TraceContext, find_context
from nsyswrap.model import Report
from nsyswrap.render import FORMS, documents, render
from nsyswrap.render.json_reader import parse_report
from nsyswrap.render.parquet_tables import arrow_tables
from nsyswrap.render.perfetto_trace import pieces
from nsyswrap.report import ALL, report_of
from nsyswrap.sections.ledger import ROWS
from nsyswrap.timeline.event_frames import event_frames
from nsyswrap.trace.load import load_export
from nsyswrap.trace.tables import SPECS, Trace

# Columns that no sound table has below 0, by the end of their names.
_NEVER_NEGATIVE = ("total_ns", "idle_ns", "window_ns", "count", "exposed_ns", "lost_ns")
_WINDOWS = ("", "", ALL, "0:1")


# A report costs ten times as much as reading does.
WHOLE_EVERY = 12


class Outcome(StrEnum):
    """What became of a case."""

    READ = "read"
    REPORT = "report"
    REFUSED = "refused"
    FAILED = "failed"


class Result(NamedTuple):
    """The outcome of a case and, where it was refused or failed, why."""

    outcome: Outcome
    reason: str = ""


class UnsoundError(Exception):
    """A report contradicts itself."""


def examine(number: int, folder: Path, *, every: int = WHOLE_EVERY) -> Result:
    """Write a case, read it, and check what follows from it.

    Args:
        number: Number of the case.
        folder: Where its export is written.
        every: One of so many cases is checked whole; the others are only read.
    """
    try:
        examine_strictly(number, folder, is_whole=number % every == 0)
    except NsyswrapError as error:
        return Result(Outcome.REFUSED, error.message)
    except Exception as error:  # noqa: BLE001 - whatever a case raises is what the fuzzer looks for
        return Result(Outcome.FAILED, f"{type(error).__name__}: {str(error)[:200]} at {_place(error)}")
    return Result(Outcome.REPORT if number % every == 0 else Outcome.READ)


def examine_strictly(number: int, folder: Path, *, is_whole: bool = True) -> None:
    """Do what ``examine`` does, but let every exception through.

    Raises:
        NsyswrapError: The case was refused.
        UnsoundError: Its report contradicts itself.
    """
    path = fuzz_case(number).write(folder / "fuzz.sqlite")
    drawn = random.Random(f"form {number}")  # noqa: S311 - a case must be the same every time
    form = drawn.choice(list(FORMS))
    trace = load_export(path)
    check_trace(trace)
    context = find_context(trace)
    if is_whole:
        report = report_of(context, drawn.choice(_WINDOWS), with_timeline=form == "html")
        check_report(report)
        render(form, report)
        if drawn.random() < 0.2:
            _check_events(context, report)
        check_written(report)


def check_trace(trace: Trace) -> None:
    """Check the types and the order of a trace, and that the lengths of its events add up within int64.

    Raises:
        UnsoundError: They are wrong.
    """
    for spec in SPECS:
        frame = trace[spec]
        if {name: str(dtype) for name, dtype in frame.dtypes.items()} != dict(spec.columns):
            raise UnsoundError(f"table {spec.name} has other types than its contract")
        if "end" in spec.columns:
            lengths = [end - start for start, end in zip(frame["start"].tolist(), frame["end"].tolist(), strict=True)]
            if any(each < 0 for each in lengths) or not frame["start"].is_monotonic_increasing:
                raise UnsoundError(f"table {spec.name} has events that end before they start, or out of order")
            if sum(lengths) >= 1 << 63:
                raise UnsoundError(f"the lengths of table {spec.name} go beyond int64")


def check_report(report: Report) -> None:
    """Check that the ledger adds up, and that no sum went beyond the end of its type.

    Raises:
        UnsoundError: They do not.
    """
    ledger, idle = report.section("ledger"), report.section("idle")
    if ledger is not None and idle is not None:
        devices, pieces = ledger.tables["devices"], idle.tables["attribution"]
        for row in devices.to_dict("records"):
            parts = sum(int(row[each]) for each in ROWS)
            of_idle = sum(map(int, pieces.loc[pieces["device_id"] == row["device_id"], "idle_ns"]))
            if not parts == int(row["window_ns"]) == report.window.length_ns or of_idle != int(row["idle_ns"]):
                raise UnsoundError(f"the ledger of GPU {row['device_id']} does not add up")
    for section in report.sections:
        for name, table in section.tables.items():
            _check_table(f"{section.key}.{name}", table)
    for finding in report.findings:
        if finding.lost_ns < 0:
            raise UnsoundError(f"finding {finding.rule} lost {finding.lost_ns} ns")


def _check_table(place: str, table: pd.DataFrame) -> None:
    for column in map(str, table.columns):
        numeric = pd.api.types.is_numeric_dtype(table[column])
        if column.endswith(_NEVER_NEGATIVE) and numeric and (table[column].dropna() < 0).any():
            raise UnsoundError(f"{place}.{column} is negative")


def _check_events(context: TraceContext, report: Report) -> None:
    """Write all events for other programs, as `nsyswrap export` does."""
    idle = report.section("idle")
    frames = event_frames(context, None if idle is None else idle.tables["gaps"])
    json.loads("".join(pieces(report, frames)))
    arrow_tables(report, frames)


def check_written(report: Report) -> None:
    """Check that report.json is read back as it was, and that the report can be compared with itself.

    Raises:
        UnsoundError: They do not.
        NsyswrapError: The comparison cannot tell.
    """
    text = render("json", report)
    try:
        again = parse_report(text, "report.json")
    except NsyswrapError as error:
        raise UnsoundError(f"our own {error.message}") from error
    if render("json", again) != text:
        raise UnsoundError("report.json is read back as another report")
    compared = compare_reports([report], [again], ("base", "new"))
    for form in documents.FORMS:
        documents.render("comparison", form, compared)


def _place(error: BaseException) -> str:
    """Return the innermost lines of nsyswrap on the way to an error, so that equal faults have equal names."""
    stack = [each for each in traceback.extract_tb(error.__traceback__) if "nsyswrap" in each.filename]
    return " < ".join(f"{Path(each.filename).name}:{each.name}" for each in reversed(stack[-2:]))
