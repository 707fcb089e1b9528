"""The committed reports of the gallery: cut to the tables that its pages read, and read back."""

import contextlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fault_programs import constants
from gallery_cases import CASES, Case

ROOT = Path(__file__).resolve().parent.parent
GALLERY = ROOT / "reports" / "gallery"
WORKLOADS = ROOT / "workloads"
REPORT = "report.json"
# Output of the program under nsys, and on the CPU without a profiler.
PRINTED, PRINTED_ON_CPU = "output.txt", "output-cpu.txt"
# Environment variables whose values may be public. Python itself sets LC_CTYPE where no locale is set (PEP 538).
SHARED = frozenset({
    *("PATH", "PWD", "OLDPWD", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "SHLVL", "_", "TERM", "TMPDIR"),
    *("PYTHONPATH", "PYTHONUNBUFFERED", "CUDA_VISIBLE_DEVICES", "NCCL_NVLS_ENABLE", "TOKENIZERS_PARALLELISM"),
    *("NSYSWRAP_NSYS",),
})  # fmt: skip
# Rows of a table that are kept. Tables are sorted, so they are the largest.
ROWS = 20
WHOLE = {("idle", "attribution"), ("phases", "phases"), ("step_breakdown", "mean")}
# Tables in order of time: their first twenty rows are of no use.
DROPPED = {
    *(("steps", "steps"), ("idle", "gaps"), ("step_breakdown", "steps")),
    *(("ranges", "kernels"), ("ranges", "projection"), ("occupancy", "kernels")),
}


def written(report: Mapping[str, Any]) -> str:
    """Return the text of a committed report.json: one value a line, so that changes are seen."""
    return json.dumps(report, indent=0) + "\n"


def cut(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report.json without the rows that the pages of the gallery do not read."""
    sections = {}
    for key, section in report["sections"].items():
        tables = {
            name: rows if (key, name) in WHOLE else rows[:ROWS]
            for name, rows in section["tables"].items()
            if (key, name) not in DROPPED
        }
        sections[key] = {**section, "tables": tables}
    return {**report, "sections": sections}


def plain(text: str, data: Path) -> str:
    """Return the text of a run without what belongs to the machine: folders of data and Python, names of variables."""
    text = text.replace(str(data), "data").replace(sys.executable, "python")
    if not text.startswith("{"):
        return text
    run = json.loads(text)
    run["environment"].pop("names", None)
    return json.dumps(run, indent=2) + "\n"


def private_variables(processes: Path = Path("/proc")) -> list[str]:
    """Return the private environment variables of all processes that are visible here.

    nsys copies them into each capture.
    """
    names: set[str] = set()
    for path in processes.glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            names |= {each.partition("=")[0] for each in path.read_text(errors="replace").split("\0") if each}
    return sorted(names - SHARED)


@dataclass(frozen=True, slots=True)
class Result:
    """One case, its report.json, and the output of its program by lines."""

    case: Case
    report: Mapping[str, Any]
    printed: tuple[str, ...] = ()

    def fact(self, section: str, name: str) -> Any:  # noqa: ANN401 - facts are numbers, texts or nothing
        """Return the value of a fact; None where the report has none."""
        facts = self.report["sections"].get(section, {}).get("facts", {})
        return facts.get(name, {}).get("value")

    def rows(self, section: str, table: str) -> list[dict[str, Any]]:
        """Return the rows of a table; none where the report has no such table."""
        found: list[dict[str, Any]] = self.report["sections"].get(section, {}).get("tables", {}).get(table, [])
        return found

    @property
    def rules(self) -> list[str]:
        """The rules of the findings in the report's order, each once."""
        return list(dict.fromkeys(each["rule"] for each in self.report["findings"]))

    @property
    def steps(self) -> int:
        """How many measured steps the window holds, at least 1."""
        return int(self.fact("steps", "measured_steps") or 1)

    @property
    def ledger(self) -> dict[str, int]:
        """The row of the first GPU in the ledger, in ns; its parts add up to `window_ns`."""
        rows = self.rows("ledger", "devices")
        return {name: value for name, value in rows[0].items() if name not in {"device_id", "rank"}} if rows else {}

    @property
    def limit(self) -> str:
        """What takes most of the window: compute, exposed copies, or one cause of idle time."""
        ledger = self.ledger
        if not ledger:
            return "unknown"
        causes: dict[str, int] = {}
        for row in self.rows("idle", "attribution"):
            causes[row["cause"]] = causes.get(row["cause"], 0) + row["idle_ns"]
        parts = {"compute": ledger["compute_ns"], "copies": ledger["copy_exposed_ns"], **causes}
        return max(parts, key=lambda name: parts[name])


def results(folder: Path = GALLERY) -> list[Result]:
    """Return the cases that have a report, in the gallery's order."""
    return [
        Result(case, json.loads((folder / case.name / REPORT).read_text()), _printed(folder / case.name))
        for case in CASES
        if (folder / case.name / REPORT).exists()
    ]


def _printed(folder: Path) -> tuple[str, ...]:
    files = (folder / PRINTED, folder / PRINTED_ON_CPU)
    return tuple(line for path in files if path.exists() for line in path.read_text().splitlines() if line.strip())


def expects(program: str, folder: Path = WORKLOADS) -> dict[str, tuple[str, ...]]:
    """Return EXPECTS of a workload: options -> rules that a profile must find, the first one as first finding."""
    expected: dict[str, tuple[str, ...]] = constants(folder / f"{program}.py").get("EXPECTS", {})
    return expected


def broken(result: Result, expected: Mapping[str, tuple[str, ...]]) -> str:
    """Return which expected findings a report lacks, as one line; an empty text if it has all.

    An entry of EXPECTS applies to each case with its options. Steps, epochs and the batch size do not count as options.
    "a or b" stands for either: the loader sets the pace of a small network on one machine, its launches on another.
    """
    words = result.case.options.split()
    neutral = {"--steps", "--epochs", "--batch-size"}
    plain = [each for at, each in enumerate(words) if not ({words[at - 1]} if at else set()) & neutral]
    chosen = " ".join(each for each in plain if each not in neutral)
    wanted = expected.get(result.case.options, expected.get(chosen, ()))
    if wanted and not set(result.rules[:1]) & set(wanted[0].split(" or ")):
        return f"{result.case.name}: {wanted[0]} is not the first of {result.rules}"
    missing = [rule for rule in wanted if not set(rule.split(" or ")) & set(result.rules)]
    return f"{result.case.name}: no {', '.join(missing)} in {result.rules}" if missing else ""
