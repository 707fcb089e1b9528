"""A sweep as a tree of plain values, and back: what was measured, and the TOML that asked for it.

What follows from the runs is not read back. It is found again, so an older result gets the rules of today.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from nsyswrap.base.errors import ExportError
from nsyswrap.sweep.endings import Ending
from nsyswrap.sweep.results import CellRun, StepPart, Sweep, sweep_of
from nsyswrap.sweep.spec import parse

SCHEMA = "nsyswrap.sweep/1"


def measured_tree(sweep: Sweep) -> dict[str, Any]:
    """Return what a sweep asked for and measured."""
    return {
        "schema": SCHEMA,
        "name": sweep.spec.name,
        "toml": sweep.spec.text,
        "seed": sweep.seed,
        "runs": [run_tree(run) for run in sweep.runs],
    }


def run_tree(run: CellRun) -> dict[str, Any]:
    """Return one run."""
    return {
        **{each.name: getattr(run, each.name) for each in dataclasses.fields(run)},
        "ending": run.ending.value,
        "parts": [part._asdict() for part in run.parts],
        "machine": dict(run.machine),
    }


def sweep_from_tree(tree: object, source: str) -> Sweep:
    """Return the sweep of a tree.

    Args:
        tree: What was read from a file.
        source: The file, for messages.

    Raises:
        ExportError: It is no sweep of this version.
        UsageError: Its TOML does not describe a sweep.
    """
    if not isinstance(tree, Mapping) or tree.get("schema") != SCHEMA:
        raise ExportError(f"{source} holds no sweep of the schema {SCHEMA}", hint="give the sweep.json of a sweep")
    try:
        spec, seed = parse(str(tree["toml"]), str(tree["name"])), int(tree["seed"])
        runs = [run_from_tree(each) for each in tree["runs"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ExportError(f"{source} is damaged: {type(error).__name__}: {error}") from error
    return sweep_of(spec, seed, runs)


def run_from_tree(tree: Mapping[str, Any]) -> CellRun:
    """Return the run of a tree.

    Raises:
        KeyError: A value is missing.
        ValueError: A value cannot be what it stands for.
        TypeError: The same.
    """
    mean, median = (None if tree[name] is None else _positive(tree[name]) for name in ("mean_ns", "median_ns"))
    return CellRun(
        cell=str(tree["cell"]),
        number=int(tree["number"]),
        ending=Ending(tree["ending"]),
        reason=str(tree["reason"]),
        wall_s=_finite(tree["wall_s"]),
        folder=str(tree["folder"]),
        run_id=str(tree["run_id"]),
        mean_ns=mean,
        median_ns=median,
        step_count=int(tree["step_count"]),
        cpu_share=_finite(tree["cpu_share"]),
        parts=tuple(StepPart(str(each["row"]), str(each["rule"]), _finite(each["step_ns"])) for each in tree["parts"]),
        verdict=str(tree["verdict"]),
        rule=str(tree["rule"]),
        machine={str(name): str(value) for name, value in tree["machine"].items()},
        started_utc=str(tree["started_utc"]),
    )


def _finite(value: object) -> float:
    found = float(value)  # type: ignore[arg-type]  # anything else is a TypeError
    if not math.isfinite(found):
        raise ValueError(f"{value} is no number")
    return found


def _positive(value: object) -> float:
    found = _finite(value)
    if found <= 0:
        raise ValueError(f"{value} is no time")
    return found
