"""The programs of workloads/faults, and whether each root cause has enough of them."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# The root causes of idle time: each needs programs of different shape, one of them with a library's training loop.
ROOT_CAUSES = (
    "capture/overhead",
    "modules/in_window",
    "memory/churn",
    "data/worker_start",
    "copies/pageable",
    "synchronization/in_step",
    "optimizer/many_kernels",
    "launches/launch_bound",
    "steps/uneven",
    "gpu/between_operations",
    "communication/exposed",
    "host/checkpoint",
    "host/file_reads",
    "host/page_faults",
    "host/tokenizer",
    "host/outside_wait",
    "host/cpu_quota",
)
LEAST_PROGRAMS = 3
# The names of the constants that describe a program.
OF_PROGRAMS = ("EXPECTS", "SHAPE", "LIBRARY", "GPUS", "HELD_OUT", "PROGRAMS", "FAULTS")


@dataclass(frozen=True, slots=True)
class Program:
    """A program with a fault, as its constants describe it.

    Attributes:
        shape: What kind of program it is, and where the fault sits in it.
        library: The library whose training loop runs; empty for a loop of the program's own.
        gpus: How many GPUs it needs; 0 where the fault lies on the host alone and shows without one, too.
        module: The module that has it among others, and takes its name; empty for one of its own.
    """

    name: str
    rule: str
    shape: str
    library: str
    gpus: int
    module: str = ""

    @property
    def words(self) -> str:
        """Return the words that run it, after those of Python, in the folder of the workloads."""
        return f"faults.{self.module} {self.name}" if self.module else f"faults.{self.name}"


def constants(path: Path) -> dict[str, Any]:
    """Return the constants that describe a program, by name, without running it."""
    return {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in OF_PROGRAMS
    }


def find_programs(folder: Path) -> list[Program]:
    """Return the programs of a folder that plant a fault, by name; modules without one are left out."""
    found = []
    for path in sorted(folder.glob("*.py")):
        own = constants(path)
        if "EXPECTS" in own:
            shape, library, gpus = own.get("SHAPE", ""), own.get("LIBRARY", ""), own.get("GPUS", 1)
            found.append(Program(path.stem, own["EXPECTS"][""][0], shape, library, gpus))
        for several in (own.get("HELD_OUT", {}), own.get("PROGRAMS", {})):
            for name, (rule, shape, library) in several.items():
                found.append(Program(name, rule, shape, library, 1, path.stem))
    return sorted(found, key=lambda each: each.name)


def shortages(programs: Sequence[Program]) -> list[str]:
    """Return what is missing: root causes with too few programs of different shape, or without a library's loop."""
    missing = []
    for rule in ROOT_CAUSES:
        own = [each for each in programs if each.rule == rule]
        shapes = {each.shape for each in own if each.shape}
        if len(shapes) < LEAST_PROGRAMS:
            missing.append(f"{rule}: {len(shapes)} programs of different shape, {LEAST_PROGRAMS} are needed")
        if not any(each.library for each in own):
            missing.append(f"{rule}: no program runs a library's training loop")
    return missing


def by_root_cause(programs: Sequence[Program]) -> list[Program]:
    """Return programs in the order of ``ROOT_CAUSES``, those of other rules after them; by name within a rule."""
    place = {rule: number for number, rule in enumerate(ROOT_CAUSES)}
    return sorted(programs, key=lambda each: (place.get(each.rule, len(place)), each.rule, each.name))
