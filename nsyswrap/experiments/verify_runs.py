"""The runs of `nsyswrap verify`, one process each, without nsys: some record their work, others time their steps."""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nsyswrap.base.errors import ExportError, UnfinishedError
from nsyswrap.base.json_codec import Codec, DamagedError, Tree, list_of, null_or, record_of
from nsyswrap.capture.annotate.injection import Injection
from nsyswrap.capture.annotate.process_start import OBSERVER_VARIABLE
from nsyswrap.capture.process import output_of
from nsyswrap.capture.run_dir import private_folder
from nsyswrap.experiments import work_record
from nsyswrap.loop.step_detection import find_timed_steps
from nsyswrap.trace.tables import array

KEPT_SCHEMA = "nsyswrap.verify-run/1"
_SKIPPED_FOLDERS = frozenset({".git", "__pycache__", ".venv", "node_modules", ".mypy_cache", ".pytest_cache"})
_MOST_FILES = 20_000
_SHOWN_LINES = 3


@dataclass(frozen=True, slots=True)
class VerifiedProgram:
    """A program to verify.

    Attributes:
        name: What the result calls it.
        command: VerifiedProgram and arguments.
        cwd: Its working folder.
    """

    name: str
    command: tuple[str, ...]
    cwd: Path


@dataclass(frozen=True, slots=True)
class WorkRun:
    """A run that recorded its work.

    Attributes:
        code: Exit code; negative is the number of a signal.
        last_lines: The last lines that it wrote to stderr.
        processes: The record of each process with PyTorch, as ``WorkRecord.write`` writes it.
        written: Sizes of the files that it wrote, in bytes, by path relative to its working folder.
    """

    code: int
    last_lines: tuple[str, ...]
    processes: tuple[dict[str, Any], ...]
    written: Mapping[str, int]


class ProgramTime(NamedTuple):
    """A run that only timed its steps.

    Attributes:
        step_ns: Mean time of a measured step; None where it shows fewer than two steps.
        run_ns: From the start of its process to the end.
    """

    step_ns: float | None
    run_ns: float


@dataclass(frozen=True, slots=True)
class KeptWork:
    """The runs of a program that an earlier `nsyswrap verify --keep` made.

    Attributes:
        name: What the result calls it.
        work: The run that recorded its work.
        grown: The same with a rounding error in each sum.
        roundoff: This error.
        times: The timed runs.
    """

    name: str
    work: WorkRun
    grown: WorkRun | None
    roundoff: float
    times: tuple[ProgramTime, ...]


_ANYTHING = Codec({}, lambda value, _place: value)
_WORK = record_of(WorkRun, processes=list_of(_ANYTHING))
_KEPT = record_of(KeptWork, work=_WORK, grown=null_or(_WORK), times=list_of(record_of(ProgramTime)))


def kept_tree(kept: KeptWork) -> Tree:
    """Return kept runs as plain values."""
    return {"schema": KEPT_SCHEMA, **_KEPT.write(kept)}


def kept_run(path: Path) -> KeptWork:
    """Return the runs in a file that ``--keep`` wrote.

    Raises:
        ExportError: It cannot be read, or is something else.
    """
    hint = "give a file that nsyswrap verify --keep wrote"
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
        if tree["schema"] != KEPT_SCHEMA:
            raise ExportError(f"{path} has the schema {tree['schema']}, not {KEPT_SCHEMA}", hint=hint)
        found: KeptWork = _KEPT.read(tree, "")
    except (OSError, ValueError, KeyError, TypeError, DamagedError) as error:
        raise ExportError(f"cannot read {path}: {error}", hint=hint) from error
    return found


def observer(module: str) -> dict[str, str]:
    """Return the variable with which processes of a program load a module of this package and call its ``start``."""
    return {OBSERVER_VARIABLE: f"{Path(__file__).parent}{os.pathsep}{module}"}


def recorded(program: VerifiedProgram, timeout_s: float, roundoff: float = 0.0) -> WorkRun:
    """Run a program with fixed seeds, and return its work.

    ``roundoff`` is the relative rounding error that each sum gets at random; 0 for none.

    Raises:
        UnfinishedError: It ran too long or could not be started.
    """
    with private_folder() as folder:
        own = {
            **observer("work_record"),
            work_record.FOLDER_VARIABLE: str(folder),
            work_record.ROUNDOFF_VARIABLE: repr(roundoff),
        }
        before = changed_files(program.cwd)
        code, stderr, _ = _run(program, Injection(folder / "start", marks=False), own, timeout_s)
        return work_run(folder, code, stderr, program.cwd, changed_files(program.cwd, before))


def work_run(folder: Path, code: int, stderr: str, cwd: Path, changed: Mapping[str, tuple[int, int]]) -> WorkRun:
    """Return a run from the records of its processes."""
    processes = []
    for path in sorted(folder.glob(f"*{work_record.SUFFIX}")):
        with suppress(ValueError):  # a process that was killed while it wrote
            processes.append(json.loads(path.read_text(encoding="utf-8")))
    opened = {os.path.relpath(path, cwd): size for each in processes for path, size in each["written"].items()}
    lines = tuple(line for line in stderr.splitlines() if line.strip())[-_SHOWN_LINES:]
    return WorkRun(code, lines, tuple(processes), {**opened, **{path: state[1] for path, state in changed.items()}})


def run_once(program: VerifiedProgram, timeout_s: float) -> None:
    """Run a program unchanged, so that files which it makes once are there, such as downloads and caches.

    Raises:
        UnfinishedError: It ran too long or could not be started.
    """
    with private_folder() as folder:
        _run(program, Injection(folder / "start", marks=False), {}, timeout_s)


def timed(program: VerifiedProgram, timeout_s: float) -> ProgramTime:
    """Run a program unchanged, with fixed seeds of Python's hashes alone, and return the time of its steps.

    Raises:
        UnfinishedError: It failed, ran too long or could not be started.
    """
    with private_folder() as folder:
        injection = Injection(folder / "start", is_timed=True)
        code, stderr, run_ns = _run(program, injection, {}, timeout_s)
        if code:
            lines = " / ".join(stderr.strip().splitlines()[-1:])
            raise UnfinishedError(f"{program.name} ended with exit code {code} when it was timed: {lines}")
        measured = find_timed_steps(injection.timed_ranges()).measured
    lengths = array(measured, "end") - array(measured, "start")
    return ProgramTime(float(np.mean(lengths)) if len(lengths) > 1 else None, run_ns)


ROUNDOFF: Mapping[str, float] = {"highest": 2.0**-24, "high": 2.0**-11, "medium": 2.0**-8}
"""Largest relative error of rounding float32, by what PyTorch's precision of its products allows.

Source: half of the distance from 1 to the next number. float32 has 23 bits of fraction (IEEE 754-2019, table 3.5), TF32
10 (NVIDIA A100 whitepaper), bfloat16 7.
"""


def roundoff_of(run: WorkRun) -> float:
    """Return the unit roundoff of the matrix products of a run: of float32, or of what float32 is rounded to.

    Narrower types have their own, which ``WorkRecord`` knows.
    """
    return max(
        (ROUNDOFF.get(each["precision"]["float32 products"], ROUNDOFF["highest"]) for each in run.processes),
        default=ROUNDOFF["highest"],
    )


def _run(
    program: VerifiedProgram, injection: Injection, own: Mapping[str, str], timeout_s: float
) -> tuple[int, str, float]:
    """Run a program to its end, and return its exit code, its stderr and its time in ns."""
    injection.prepare()
    environ = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", **own}
    began = time.perf_counter_ns()
    try:
        output = output_of(
            program.command, timeout_s=timeout_s, env={**environ, **injection.environment(environ)}, cwd=program.cwd
        )
    except TimeoutError as error:
        hint = "give it more time with --timeout, or fewer steps"
        raise UnfinishedError(f"{program.name} ran longer than {timeout_s:g} s", hint=hint) from error
    except OSError as error:
        raise UnfinishedError(f"{program.name} cannot be started: {error.strerror}") from error
    return output.code, output.stderr, time.perf_counter_ns() - began


def changed_files(folder: Path, before: Mapping[str, tuple[int, int]] | None = None) -> dict[str, tuple[int, int]]:
    """Return the time of change and the size of the files below a folder, by relative path.

    Files that are the same as an earlier call returned are left out.
    """
    known = before or {}
    return {path: state for path, state in _found_files(folder) if known.get(path) != state}


def _found_files(folder: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    left = _MOST_FILES
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if each not in _SKIPPED_FOLDERS)
        for name in names:
            left -= 1
            if left < 0:
                return
            with suppress(OSError):
                state = os.stat(os.path.join(place, name))  # noqa: PTH116, PTH118 - thousands of files
                yield os.path.relpath(os.path.join(place, name), folder), (state.st_mtime_ns, state.st_size)  # noqa: PTH118
