"""Judge programs that no rule was written with, and healthy ones, by captures of them: reports/held_out.json.

::

    tools/held_out.py FOLDER...                  judge them, and write the results
    tools/judge_faults.py --again                write docs/faults.md with them

A folder holds NAME.sqlite.xz and, of programs with a fault, NAME-fixed.sqlite.xz; the first that has all of a program
counts. Where a capture was too large to keep, the report of its run does: a line of JSON with ``program``, ``step`` and
``findings`` in a file ``*.txt``.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import fault_captures
import fault_programs

from nsyswrap.capture_file import with_recorded
from nsyswrap.loop.context import Settings
from nsyswrap.render.json_report import render
from nsyswrap.report import build_report
from nsyswrap.trace.load import load_export

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "workloads" / "faults" / "held_out.py"
RESULTS = ROOT / "reports" / "held_out.json"
HEALTHY = "healthy_"
# Two runs differ by such a share of the step, so a fix that saves less saves nothing.
LEAST_SHARE = 0.02
# Times from 100 ms on are written without decimals.
WHOLE_NS = 100_000_000
# Predictions are near within this share of what was saved.
NEAR = 0.15
ABOUT = """## Programs that no rule was written with

Programs of `workloads/faults/held_out.py` came after the rules. `tools/held_out.py` judges them. They ran on an H200
whose CPU other programs shared; four healthy ones ran on an H100. Steps are medians without nsys. **first**: "-" where
the fix saves less than 2 % of the step, and a report without that warning is right.

| program | first | predicted, ms | saved, ms |
|---|---|---|---|
"""
REMARKS = (
    "`text_by_text` is judged by the report of its run; the rule has changed since. The CPU set the pace of",
    "`casts_of_trainer`, and slowed `norms_of_qwen` and `checkpoints_of_timm`. `activation_of_timm` has no fixed",
    "run. The warnings on `healthy_roberta` are right: PyTorch computes its attention by parts, in FP32. What",
    "`healthy_patches` saves is measured: its compiled chains take a quarter to a half of the time.",
)


def summaries(folder: Path, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the reports of some programs in a folder, by program and form."""
    found: dict[str, dict[str, Any]] = {}
    for path in folder.glob("*.txt"):
        rows = (json.loads(line) for line in path.read_text().splitlines())
        found |= {row["program"]: row for row in rows if "step" in row and row["program"] in names}
    for name in names:
        if (packed := folder / f"{name}.sqlite.xz").exists():
            found[name] = reported(packed)
    for each in found.values():  # a line of a run's report holds findings as lists
        keys = ("rule", "severity", "headline", "saving")
        rows = (row if isinstance(row, dict) else dict(zip(keys, row, strict=False)) for row in each["findings"])
        each["findings"] = [{key: row[key] for key in keys} for row in rows]
    return found


def reported(packed: Path) -> dict[str, Any]:
    """Return the report of a packed capture as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        export = fault_captures.unpack(packed, Path(folder))
        trace, settings = with_recorded(load_export(export), export, Settings())
        found: dict[str, Any] = json.loads(render(build_report(trace, settings=settings)))
    return found


def step_ns(summary: Mapping[str, Any]) -> int:
    """Return the typical step: the median without nsys, or the recorded mean where there is none."""
    step = summary["step"]
    return int(step["alone"]["point_ns"] if step["alone"] else step["recorded_ns"])


def raised(summary: Mapping[str, Any]) -> list[str]:
    """Return the rules of warnings and problems, the first one first."""
    return list(dict.fromkeys(each["rule"] for each in summary["findings"] if each["severity"] != "note"))


def judged(name: str, rule: str, faulty: Mapping[str, Any], fixed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result for one program with a fault; times in ns a step."""
    mine = next((each["saving"] for each in faulty["findings"] if each["rule"] == rule), None)
    steps = faulty["step"]["count"]
    predicted = None if mine is None else {key: round(mine[key] / steps) for key in ("low_ns", "point_ns", "high_ns")}
    step, after = step_ns(faulty), step_ns(fixed)
    return {"name": name, "rule": rule, "raised": raised(faulty), "fixed": raised(fixed)} | {
        "predicted": predicted,
        "saved_ns": step - after,
        "step_ns": step,
    }


def results(folders: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """Yield the results of all programs that the folders hold."""
    of_faults = fault_programs.constants(PROGRAMS)["HELD_OUT"]
    rules = {name: rule for name, (rule, *_) in of_faults.items()}
    healthy = {path.name.split(".")[0] for each in folders for path in each.glob(f"{HEALTHY}*")}
    for name, rule in [*rules.items(), *((each, "") for each in sorted(healthy))]:
        forms = (name, f"{name}-fixed") if rule else (name,)
        found = next((its for each in folders if len(its := summaries(each, forms)) == len(forms)), None)
        if found is not None and rule:
            yield judged(name, rule, *(found[form] for form in forms))
        elif found is not None:
            yield {"name": name, "raised": raised(found[name]), "step_ns": step_ns(found[name])}


def section(path: Path) -> str:
    """Return the part of a page on these programs."""
    rows = json.loads(path.read_text())
    faults, healthy = ([each for each in rows if ("rule" in each) is has_rule] for has_rule in (True, False))
    first = [each for each in faults if each["raised"][:1] == [each["rule"]]]
    lines = [ABOUT + "\n".join(map(_row, faults)), ""]
    near = [abs(each["predicted"]["point_ns"] / each["saved_ns"] - 1) <= NEAR for each in first]
    lines.append(
        f"{len(first)} of {len(faults)} come first; {sum(near)} of these predictions are within {100 * NEAR:g} %."
    )
    lines.append(
        f"Healthy programs without a warning: {_names([each['name'] for each in healthy if not each['raised']])}."
    )
    lines += [f"{_names([each['name']])} raises {_names(each['raised'])}." for each in healthy if each["raised"]]
    return "\n".join([*lines, "", *REMARKS])


def _names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _row(row: Mapping[str, Any]) -> str:
    found, predicted, saved, step = row["raised"][:1], row["predicted"], row["saved_ns"], row["step_ns"]
    is_first, saves = found == [row["rule"]], saved >= LEAST_SHARE * step
    first = (
        "" if is_first else "-" if not saves and row["rule"] not in row["raised"] else f"no: {_names(found) or 'none'}"
    )
    shown = "-" if predicted is None else _ms(predicted["point_ns"])
    return f"| `{row['name']}` | {first} | {shown} | {_ms(saved)} of {_ms(step)} |"


def _ms(time_ns: int) -> str:
    return f"{time_ns / 1e6:.{0 if time_ns >= WHOLE_NS else 2}f}"


def main(arguments: list[str] | None = None) -> int:
    """Judge all programs of some folders."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE")
    chosen = parser.parse_args(arguments)
    chosen.results.write_text(json.dumps(list(results(chosen.folders)), indent=1) + "\n")
    print(section(chosen.results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
