# ruff: noqa: INP001, T201 - a program for the terminal, not a package
"""List the numbers that differ between two folders of report.json, as a Markdown page with a place for reasons.

    python tools/report_differences.py OLD NEW [-o PAGE.md] [--expect FIELD]...

A folder holds `<capture>.json` or `<capture>/report.json`. Reports of version 1 are read under the names of version 2.
The page has one heading for each field, such as `ledger/idle_ns`. Reasons that were written there are kept when the
page is written again. Exit code: 0 if each number agrees or belongs to an expected field, 1 if not.
"""

import argparse
import fnmatch
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Tree = Mapping[str, Any]
Value = float | str | None
# The value of an item of a field, as ("ledger/idle_ns", "GPU 0") -> 12.
Values = dict[tuple[str, str], Value]

VERSIONS = ("nsyswrap.report/1", "nsyswrap.report/2")
SECTIONS = {"breakdown": "step_breakdown", "memory": "device_memory", "graphs": "cuda_graphs", "replay": "prediction"}
CAUSES = {
    "input_wait": "data_wait",
    "input_work": "data_work",
    "host": "cpu",
    "descheduled": "off_cpu",
    "blind": "not_traced",
}
LEDGER = {
    "window_ns": ("window_ns",),
    "compute_ns": ("compute_ns",),
    "communication_ns": ("communication_exposed_ns", "communication_wait_ns", "communication_transfer_ns"),
    "copy_exposed_ns": ("copy_exposed_ns",),
    "memset_exposed_ns": ("memset_exposed_ns", "fill_exposed_ns"),
    "idle_ns": ("idle_ns",),
}
TENSOR = ("kernel_ns", "tensor_ns", "unknown_ns", "simt_eligible_ns", "not_eligible_ns", "share_low", "share_high")
STEPS = {"count": ("measured_steps", "steady_steps"), "median_ns": ("median_ns",)}
FINDINGS = {
    "lost_ns": ("lost_ns", "cost_ns"),
    "saving_low_ns": ("saving_low_ns", "gain_low_ns"),
    "saving_high_ns": ("saving_high_ns", "gain_high_ns"),
}
# Table -> the columns that name a row, and those that are compared. A section has its main table as `summary`.
TABLES = {
    ("phases", "phases"): (("phase",), ("count", "host_ns", "gpu_ns", "idle_ns", "kernel_count")),
    ("kernels", "summary"): (("name",), ("count", "total_ns")),
    ("copies", "summary"): (("kind", "source_memory", "target_memory"), ("count", "total_ns", "bytes")),
    ("host_calls", "summary"): (("name",), ("count", "total_ns")),
}
TEXTS = frozenset({"verdict/text"})
REASON = "Reason:"


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that differs.

    Attributes:
        field: Section and value, as `ledger/idle_ns`.
        capture: Name of the capture.
        item: The row, as `GPU 0`; empty for facts.
        old: Value of the first folder; None if it has none.
        new: Value of the second folder; None if it has none.
    """

    field: str
    capture: str
    item: str
    old: Value
    new: Value


def reports(folder: Path) -> dict[str, Tree]:
    """Return the reports of a folder by capture.

    Raises:
        ValueError: A file is not a report.json of version 1 or 2.
    """
    files = {path.stem: path for path in folder.glob("*.json")}
    files |= {path.parent.name: path for path in folder.glob("*/report.json")}
    found: dict[str, Tree] = {}
    for name, path in sorted(files.items()):
        report = json.loads(path.read_text())
        if not isinstance(report, dict) or report.get("schema") not in VERSIONS:
            raise ValueError(f"{path}: not a report.json of version 1 or 2")
        found[name.replace("-mended", "-fixed")] = report
    return found


def values(report: Tree) -> Values:
    """Return the compared values of a report, under the names of version 2; values of one item are added up."""
    sections = {SECTIONS.get(key, key): section for key, section in report["sections"].items()}
    found: Values = {("verdict/text", ""): report["verdict"]}
    for field, item, value in (
        *_ledger(_rows(sections, "ledger", "devices")),
        *_facts(sections),
        *_idle(_rows(sections, "idle", "attribution") or _rows(sections, "idle", "causes")),
        *_tables(sections),
        *_findings(report["findings"]),
    ):
        before = found.get((field, item))
        if isinstance(before, int | float) and isinstance(value, int | float):
            found[field, item] = before + value
        else:
            found[field, item] = value
    return found


def _rows(sections: Tree, key: str, table: str) -> Sequence[Tree]:
    rows: Sequence[Tree] = sections.get(key, {}).get("tables", {}).get(table, ())
    return rows


def _first(row: Tree, names: Sequence[str]) -> float | None:
    """Return the sum of the named values that a row has; None if it has none of them."""
    there = [row[name] for name in names if row.get(name) is not None]
    return sum(there) if there else None


def _gpu(row: Tree) -> str:
    return "" if row.get("device_id") is None else f"GPU {row['device_id']}"


def _ledger(rows: Sequence[Tree]) -> Iterator[tuple[str, str, float | None]]:
    for row in rows:
        yield from ((f"ledger/{name}", _gpu(row), _first(row, columns)) for name, columns in LEDGER.items())


def _facts(sections: Tree) -> Iterator[tuple[str, str, float | None]]:
    def fact(key: str, names: Sequence[str]) -> float | None:
        facts = sections.get(key, {}).get("facts", {})
        return _first({name: fact["value"] for name, fact in facts.items()}, names)

    yield from ((f"tensor_cores/{name}", "", fact("tensor_cores", (name,))) for name in TENSOR)
    yield from ((f"steps/{name}", "", fact("steps", names)) for name, names in STEPS.items())


def _idle(rows: Sequence[Tree]) -> Iterator[tuple[str, str, float | None]]:
    for row in rows:
        cause = CAUSES.get(row["cause"], row["cause"])
        yield "idle/total_ns", _gpu(row), row["idle_ns"]
        yield "idle/cause_ns", f"{_gpu(row)} {cause}", row["idle_ns"]


def _tables(sections: Tree) -> Iterator[tuple[str, str, float | None]]:
    for (key, table), (named_by, columns) in TABLES.items():
        for row in _rows(sections, key, table):
            item = " ".join(str(row[name]) for name in named_by if row[name] != "").replace("Fill", "Memset")
            yield from ((f"{key}/{column}", item, row.get(column)) for column in columns)


def _findings(findings: Sequence[Tree]) -> Iterator[tuple[str, str, float | None]]:
    for each in findings:
        group, _, name = each["rule"].partition("/")
        rule = f"idle/{CAUSES.get(name, name)}" if group == "idle" else each["rule"]
        item = f"{rule} {_gpu(each)}".strip()
        yield from ((f"findings/{field}", item, _first(each, names)) for field, names in FINDINGS.items())


def differences(old: Mapping[str, Tree], new: Mapping[str, Tree]) -> list[Difference]:
    """Return the values that differ, by field, capture and item; a capture that only one folder holds also counts."""
    found = [
        Difference("capture", name, "", *("there" if name in side else None for side in (old, new)))
        for name in old.keys() ^ new.keys()
    ]
    for name in old.keys() & new.keys():
        before, after = values(old[name]), values(new[name])
        found += [
            Difference(field, name, item, before.get((field, item)), after.get((field, item)))
            for field, item in before.keys() | after.keys()
            if not _equal(before.get((field, item)), after.get((field, item)))
        ]
    return sorted(found, key=lambda each: (each.field, each.capture, each.item))


def _equal(old: Value, new: Value) -> bool:
    if isinstance(old, float) and isinstance(new, int | float):
        return math.isclose(old, new, rel_tol=1e-9)
    return old == new


def unexpected(found: Sequence[Difference], expected: Sequence[str]) -> list[Difference]:
    """Return the differing numbers whose field matches no expected pattern, as `findings/*`; texts do not count."""
    return [
        each
        for each in found
        if each.field not in TEXTS and not any(fnmatch.fnmatchcase(each.field, pattern) for pattern in expected)
    ]


def page(found: Sequence[Difference], compared: int, reasons: Mapping[str, str]) -> str:
    """Return the Markdown page: a heading, a reason and a table for each field.

    Args:
        found: The differences, sorted by field.
        compared: How many captures both folders have.
        reasons: Field -> the reason that was written before.
    """
    fields = list(dict.fromkeys(each.field for each in found))
    lines = ["# Differences between two sets of reports", "", f"{compared} captures, {len(found)} differences.", ""]
    for field in fields:
        lines += [f"## {field}", "", f"{REASON} {reasons.get(field, '')}".strip(), ""]
        lines += ["| capture | item | old | new | difference |", "|---|---|---:|---:|---:|"]
        lines += [_line(each) for each in found if each.field == field]
        lines.append("")
    return "\n".join(lines)


def _line(each: Difference) -> str:
    change = ""
    if isinstance(each.old, int | float) and isinstance(each.new, int | float):
        change = f"{each.new - each.old:+g}"
    cells = (each.capture, each.item, *("-" if side is None else str(side) for side in (each.old, each.new)), change)
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def written_reasons(text: str) -> dict[str, str]:
    """Return field -> reason from a page; a reason reaches to the next empty line."""
    found = {}
    for part in text.split("\n## ")[1:]:
        field, _, rest = part.partition("\n")
        reason = rest.partition(REASON)[2].partition("\n\n")[0].strip()
        if reason:
            found[field.strip()] = reason
    return found


def main(arguments: list[str] | None = None) -> int:
    """Compare two folders and write the page; return 1 if a number differs that was not expected."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, metavar="OLD")
    parser.add_argument("new", type=Path, metavar="NEW")
    parser.add_argument("-o", "--output", type=Path, metavar="PAGE.md", help="write the page there (stdout)")
    parser.add_argument("--expect", action="append", default=[], metavar="FIELD", help="allow differences in a field")
    chosen = parser.parse_args(arguments)
    old, new = reports(chosen.old), reports(chosen.new)
    found = differences(old, new)
    reasons = written_reasons(chosen.output.read_text()) if chosen.output and chosen.output.exists() else {}
    text = page(found, len(old.keys() & new.keys()), reasons)
    if chosen.output:
        chosen.output.write_text(text)
    else:
        print(text)
    wrong = unexpected(found, chosen.expect)
    for each in wrong:
        print(f"{each.field}: {each.capture} {each.item}: {each.old} -> {each.new}", file=sys.stderr)
    return 1 if wrong or not old.keys() & new.keys() else 0


if __name__ == "__main__":
    sys.exit(main())
