# ruff: noqa: INP001 - a part of tools/judge_plans.py, not a package
"""Hold the plans of programs with several faults against the steps that were measured with the faults fixed."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from nsyswrap.db.load import load_export
from nsyswrap.loop.context import find_context

CAPTURES = Path(__file__).resolve().parent.parent / "tests" / "captures" / "plans"
STEPS = "steps.json"
SEPARATOR = "+"


@dataclass(frozen=True, slots=True)
class Program:
    """A program with several faults, as its constants describe it.

    Attributes:
        name: The module's name.
        shape: What kind of program it is.
        library: The library whose training loop runs; empty for a loop of the program's own.
        faults: The rule of each fault, by the name of its switch.
    """

    name: str
    shape: str
    library: str
    faults: Mapping[str, str]

    @property
    def sets(self) -> tuple[frozenset[str], ...]:
        """Return every set of faults that can be fixed, the smaller sets first."""
        sizes = range(len(self.faults) + 1)
        return tuple(frozenset(each) for size in sizes for each in combinations(sorted(self.faults), size))


def label(name: str, fixed: frozenset[str]) -> str:
    """Return the name of a capture: that of the program, and of what is fixed."""
    return SEPARATOR.join([name, *sorted(fixed)])


def find_programs(folder: Path) -> list[Program]:
    """Return the programs of a folder with several faults, by name; modules without FAULTS are left out."""
    found = []
    for path in sorted(folder.glob("*.py")):
        constants = {
            node.targets[0].id: node.value
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        if "FAULTS" in constants:
            shape, library, faults = (ast.literal_eval(constants[each]) for each in ("SHAPE", "LIBRARY", "FAULTS"))
            found.append(Program(path.stem, shape, library, faults))
    return found


def measured(export: Path) -> dict[str, int]:
    """Return the number of measured steps of an export, their median and their mean time, in ns."""
    steps = find_context(load_export(export)).steps
    window, frame = steps.measured_window(), steps.measured
    length = frame["end"].to_numpy() - frame["start"].to_numpy()
    count = steps.measured_count
    mean = window.length_ns // count if window and count else 0
    return {"count": count, "median_ns": round(float(np.median(length))) if count else 0, "mean_ns": mean}


def section(captures: Path) -> list[str]:
    """Return the section of docs/faults.md on plans."""
    return [str(captures)]
