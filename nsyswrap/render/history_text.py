"""A list of runs of the history as text, JSON and CSV; a list may hold a hundred thousand of them."""

import csv
import io
import json
from collections.abc import Sequence

from nsyswrap.base import units
from nsyswrap.render.escape import escape_in_json, visible
from nsyswrap.render.run_document import SCHEMA, commit_of, spread, started
from nsyswrap.rules import rule_name
from nsyswrap.runs.run import RunRow

# Enough digits to name a run: two of a million runs begin with the same ten digits in one of two cases.
ID_DIGITS = 10
_HEAD = ("run", "started (UTC)", "commit", "step", "p05 to p95", "program", "limited by")


def list_as_text(rows: Sequence[RunRow]) -> str:
    """Return one line for each run, under a line of headings; empty without runs."""
    if not rows:
        return ""
    lines = [_HEAD, *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    widths[-1] = 0
    return "\n".join("  ".join(map(str.ljust, cells, widths)).rstrip() for cells in lines)


def _cells(row: RunRow) -> tuple[str, ...]:
    """Return the cells of a run, in the order of the headings."""
    step = units.duration(row.median_ns) if row.median_ns is not None else "no steps"
    program = visible(f"{row.program} {row.arguments}".strip())
    limit = rule_name(row.verdict_rule) if row.verdict_rule else ""
    return (row.run_id[:ID_DIGITS], visible(started(row)), commit_of(row), step, spread(row), program, limit)


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


LISTS = {"text": list_as_text, "json": list_as_json, "csv": list_as_csv}
