"""Decides whether a program records some of its steps, or is recorded from its start to its end.

A program that records its steps itself and never takes one would not be recorded. So its text must show a training
loop, or NVTX ranges that name steps, before nsyswrap relies on its steps.
"""

import os
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nsyswrap.capture.options import ALL_STEPS, CaptureOptions
from nsyswrap.capture.process import output_of

_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
# Modules and programs that start the script or the module that follows them.
_LAUNCHERS = frozenset({
    *("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "deepspeed.launcher.runner"),
    *("torchrun", "accelerate", "deepspeed", "fabric", "lightning"),
})  # fmt: skip
# What a program says that trains with an optimizer of torch, or with a library that does, or that marks its steps.
_TRAINS = re.compile(r"\boptim\b|\.backward\(|\w*Trainer\b|\.fit\(|\bnsyswrap\.steps\(|\bnsyswrap import .*\bsteps\b")
# What a program says that marks its own steps: a call that opens a range, with a word for a step in the same line, or a
# function of its own with such a name that opens one.
_MARKS_STEPS = re.compile(
    r"\b(?:range_push|push_range|annotate|nvtx\.range)\([^#\n]*(?:batch|step|iter)"
    r"|^\s*with\s+(?:\w+\.)?(?:batch|step|iteration)\(",
    re.IGNORECASE | re.MULTILINE,
)
# Exits with 0 where the ranges of a program can be seen: in Python 3.12 and newer.
_CAN_MONITOR = "import sys; sys.exit(not hasattr(sys, 'monitoring'))"
_ASK_S = 10.0
# What a program says that chooses itself what a profiler records.
_OWN_RANGE = re.compile(r"cudaProfilerStart|\bprofiler\.start\(|torch\.cuda\.profiler|\bcudart\(\)\.cudaProfiler")

# The longest text of a program that is looked at.
_LONGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class Arming:
    """Whether the program records its own steps, and why.

    Attributes:
        why: A clause for `run.json`.
        note: A sentence for the report; empty for none.
    """

    is_armed: bool
    why: str
    note: str = ""


def arming(options: CaptureOptions) -> Arming:
    """Return whether the program of a capture records its own steps."""
    given = (
        (options.steps == ALL_STEPS, f"--steps {ALL_STEPS} was given"),
        (not options.annotate, "--annotate off was given"),
        (bool(options.duration_s), "--duration was given"),
        (bool(options.delay_s), "--delay was given"),
        (bool(options.capture_range), "--capture-range was given"),
        ("nvtx" not in options.traces, "NVTX ranges are not traced"),
        (any("capture-range" in each for each in options.nsys_args), "nsys was given a capture range"),
    )
    if (reason := next((reason for is_given, reason in given if is_given), None)) is not None:
        return Arming(is_armed=False, why=reason)
    if options.steps:
        return Arming(is_armed=True, why="--steps was given")
    text = program_text(options.command, options.cwd or Path.cwd())
    if text is None:
        return Arming(is_armed=False, why="no Python script was found in the command")
    if _OWN_RANGE.search(text):
        hint = "To record only what the program itself chooses, add --capture-range cudaProfilerApi"
        return Arming(is_armed=False, why="the program calls cudaProfilerStart itself", note=hint)
    return _by_text(text, options)


def _by_text(text: str, options: CaptureOptions) -> Arming:
    """Return whether a program shows steps in its text."""
    if _TRAINS.search(text):
        return Arming(is_armed=True, why="the script shows a training loop")
    if not _MARKS_STEPS.search(text):
        return Arming(is_armed=False, why="the script shows no training loop")
    if not _can_monitor(options):
        return Arming(is_armed=False, why="the script marks its steps, which is seen with Python 3.12 and newer only")
    return Arming(is_armed=True, why="the script marks its steps")


def _can_monitor(options: CaptureOptions) -> bool:
    """Return whether the Python of a program can monitor calls."""
    python = program_python(options)
    with suppress(OSError, TimeoutError):
        return (
            bool(python) and output_of([*python, "-c", _CAN_MONITOR], timeout_s=_ASK_S, env=_environ(options)).code == 0
        )
    return False


def program_python(options: CaptureOptions) -> tuple[str, ...]:
    """Return the Python of a program, or of the launcher that starts it, with its arguments; empty for none."""
    search = _environ(options).get("PATH")
    with suppress(OSError):
        found = (shutil.which(word, path=search) for word in options.command)
        return next((python for path in found if path and (python := _python_of(Path(path).absolute()))), ())
    return ()


def _environ(options: CaptureOptions) -> dict[str, str]:
    return {**os.environ, **dict(options.environment)}


def _python_of(program: Path) -> tuple[str, ...]:
    """Return the Python that a program is, or that the first line of a script names; empty for none."""
    if _PYTHON.fullmatch(program.name):
        return (str(program),)
    with program.open("rb") as file:
        first = file.readline(_LONGEST).decode(errors="replace")
    words = first.removeprefix("#!").split() if first.startswith("#!") else ()
    return tuple(words) if any(_PYTHON.fullmatch(Path(word).name) for word in words) else ()


def program_text(command: Sequence[str], cwd: Path) -> str | None:
    """Return the text of the script or module that a command runs with Python; None where it cannot be found.

    The program is behind launchers such as ``torchrun`` or ``srun``.
    """
    path = _script(command, cwd)
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            return file.read(_LONGEST).decode(errors="replace")
    except OSError:
        return None


def _script(command: Sequence[str], cwd: Path) -> Path | None:
    """Return the file with the program's own text."""
    is_python = False
    words = iter(command)
    for word in words:
        name = os.path.basename(word)  # noqa: PTH119 - a word may hold anything
        if word.endswith(".py"):
            return _file(cwd / word)
        if _PYTHON.fullmatch(name) or name in _LAUNCHERS:
            is_python = True
        elif is_python and word in {"-m", "--module"}:
            module = next(words, "")
            if module not in _LAUNCHERS:
                place = cwd.joinpath(*module.split("."))
                return _file(place.with_name(f"{place.name}.py")) or _file(place / "__main__.py")
        elif is_python and word == "-c":
            return None
    return None


def _file(path: Path) -> Path | None:
    """Return a path if it is a file; a folder is run by its ``__main__.py``."""
    if os.path.isdir(path):  # noqa: PTH112 - the methods of Path raise errors for long names
        path /= "__main__.py"
    return path if os.path.isfile(path) else None  # noqa: PTH113
