# ruff: noqa: INP001 - a part of tools/gallery.py, not a package
"""What committed reports of the gallery say: cut to what is read, and read."""

import ast
import contextlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gallery_cases import CASES, Case

ROOT = Path(__file__).resolve().parent.parent
GALLERY = ROOT / "reports" / "gallery"
WORKLOADS = ROOT / "workloads"
REPORT = "report.json"
# What the program printed when it was profiled, and when it ran on the CPU without a profiler.
SAID, SAID_ON_CPU = "said.txt", "said-cpu.txt"
# Variables whose values may be read by all.
SHARED = frozenset({
    *("PATH", "PWD", "OLDPWD", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "SHLVL", "_", "TERM", "TMPDIR"),
    *("PYTHONPATH", "PYTHONUNBUFFERED", "CUDA_VISIBLE_DEVICES", "NCCL_NVLS_ENABLE", "TOKENIZERS_PARALLELISM"),
    *("NSYSWRAP_NSYS",),
})  # fmt: skip
# Rows of a table that stay; they are the largest, for tables are in that order.
ROWS = 20
WHOLE = {("idle", "causes"), ("phases", "phases"), ("step_breakdown", "mean")}
# Times of steps and operations in order of their start, of which twenty say nothing.
DROPPED = {
    *(("steps", "steps"), ("idle", "gaps"), ("step_breakdown", "steps")),
    *(("ranges", "kernels"), ("ranges", "projection")),
}


def cut(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report.json without the rows that no page of the gallery reads."""
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
    """Return a text of a run without what is only the machine's: where the data and Python lie, names of variables."""
    text = text.replace(str(data), "data").replace(sys.executable, "python")
    if not text.startswith("{"):
        return text
    run = json.loads(text)
    run["environment"].pop("names", None)
    return json.dumps(run, indent=2) + "\n"


def strangers(processes: Path = Path("/proc")) -> list[str]:
    """Return variables of processes seen here that are not for all to read: nsys puts them into each capture."""
    names: set[str] = set()
    for path in processes.glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            names |= {each.partition("=")[0] for each in path.read_text(errors="replace").split("\0") if each}
    return sorted(names - SHARED)


@dataclass(frozen=True, slots=True)
class Result:
    """One case, its report.json, and what its program printed."""

    case: Case
    report: Mapping[str, Any]
    said: tuple[str, ...] = ()

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
        """The rules of the findings, the most costly first, each once."""
        return list(dict.fromkeys(each["rule"] for each in self.report["findings"]))

    @property
    def steps(self) -> int:
        """How many measured steps the window holds, at least 1."""
        return int(self.fact("steps", "measured_steps") or 1)

    @property
    def ledger(self) -> dict[str, int]:
        """Time of the window, in ns, by what the first GPU did; its parts add up to `window_ns`."""
        rows = self.rows("ledger", "devices")
        return {name: value for name, value in rows[0].items() if name != "device_id"} if rows else {}

    @property
    def limit(self) -> str:
        """What limits the program: the GPU's own work, or the cause of its idle time that lasts longest."""
        ledger = self.ledger
        if not ledger:
            return "unknown"
        causes: dict[str, int] = {}
        for row in self.rows("idle", "causes"):
            causes[row["cause"]] = causes.get(row["cause"], 0) + row["idle_ns"]
        parts = {"compute": ledger["compute_ns"], "copies": ledger["copy_exposed_ns"], **causes}
        return max(parts, key=lambda name: parts[name])


def results(folder: Path = GALLERY) -> list[Result]:
    """Return the cases whose reports are there, in the gallery's order."""
    return [
        Result(case, json.loads((folder / case.name / REPORT).read_text()), _said(folder / case.name))
        for case in CASES
        if (folder / case.name / REPORT).exists()
    ]


def _said(folder: Path) -> tuple[str, ...]:
    files = (folder / SAID, folder / SAID_ON_CPU)
    return tuple(line for path in files if path.exists() for line in path.read_text().splitlines() if line.strip())


def expects(program: str, folder: Path = WORKLOADS) -> dict[str, tuple[str, ...]]:
    """Return EXPECTS of a workload: options -> rules that a profile must find, the first one on top."""
    for node in ast.parse((folder / f"{program}.py").read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "EXPECTS":
            told: dict[str, tuple[str, ...]] = ast.literal_eval(node.value)
            return told
    return {}


def broken(result: Result, told: Mapping[str, tuple[str, ...]]) -> str:
    """Return what a report lacks of what its program expects; nothing where all is there.

    What stands in EXPECTS for some options holds for every case with these options, and steps, epochs or a batch size.
    """
    words = result.case.options.split()
    neutral = {"--steps", "--epochs", "--batch-size"}
    plain = [each for at, each in enumerate(words) if not ({words[at - 1]} if at else set()) & neutral]
    chosen = " ".join(each for each in plain if each not in neutral)
    wanted = told.get(result.case.options, told.get(chosen, ()))
    if wanted and result.rules[:1] != [wanted[0]]:
        return f"{result.case.name}: {wanted[0]} is not on top of {result.rules}"
    missing = [rule for rule in wanted if rule not in result.rules]
    return f"{result.case.name}: no {', '.join(missing)} in {result.rules}" if missing else ""
