"""Prepares the environment in which a program's processes mark their calls, and reads their status files."""

import itertools
import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nsyswrap.base.step_text import STEP_TEXT
from nsyswrap.capture.annotate.process_start import (
    CACHED_BATCHES_VARIABLE,
    CLOCK_VARIABLE,
    MARKS_VARIABLE,
    STATUS_VARIABLE,
    STEP_TEXT_VARIABLE,
    STEPS_VARIABLE,
    XRAY_VARIABLE,
)
from nsyswrap.capture.annotate.recording import ALONE_SUFFIX, BEGUN, ENDED, FROM_OUTSIDE, LATER, PROGRESS_SUFFIX, WANTED
from nsyswrap.capture.annotate.step_clock import SUFFIX
from nsyswrap.capture.annotate.xray import OPERATORS_SUFFIX, SITES_SUFFIX

PACKAGE = Path(__file__).parent

# The program's Python may lack nsyswrap or have another version of it, so the files are loaded under their own name.
# Each Python of the program imports this file, also one that is too old for the others.
OLDEST_PYTHON = (3, 10)
_SITECUSTOMIZE = '''"""Written by nsyswrap for one profiled run: marks the calls of a PyTorch program."""


def _start():
    import os
    import sys

    name, package, folder = "_nsyswrap_annotate", {package!r}, {folder!r}
    if sys.version_info < {oldest!r}:
        return _pass(os, sys, folder)
    try:
        sys.modules[name] = type(sys)(name)
        sys.modules[name].__path__ = [package]
        from _nsyswrap_annotate.process_start import start
    except Exception as error:
        sys.stderr.write("nsyswrap: annotate: nothing is marked: %s: %s\\n" % (type(error).__name__, error))
    else:
        start(folder)


def _pass(os, sys, folder):
    """Note that this Python is too old, and run the program's own sitecustomize."""
    try:
        with open(os.path.join({status!r}, "%d.json" % os.getpid()), "w") as file:
            file.write('{{"pid": %d, "torch": "", "problem": "Python %d.%d is older than 3.10"}}' % (
                os.getpid(), sys.version_info[0], sys.version_info[1]))
    except (IOError, OSError):
        pass
    sys.path[:] = [place for place in sys.path if place != folder]
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize
    except ImportError:
        sys.modules["sitecustomize"] = ours


_start()
'''


@dataclass(frozen=True, slots=True)
class Injection:
    """The marking of one run.

    Args:
        folder: A folder that exists while the program runs.
        cached_batches: How many batches each loader loads and then repeats; 0 to leave loaders unchanged.
        marks: Whether the calls of PyTorch programs are marked.
        step_text: Pattern of the texts of the program's own steps.
        is_timed: Whether the program's processes time their ranges, in a run without a profiler.
        steps: Which steps the program's processes record, for a ``Schedule``; None to leave the recording alone.
        has_xray: Whether they take an X-ray step after those.
    """

    folder: Path
    cached_batches: int = 0
    marks: bool = True
    step_text: str = STEP_TEXT.pattern
    is_timed: bool = False
    steps: str | None = None
    has_xray: bool = False

    def prepare(self) -> None:
        """Write the ``sitecustomize`` module that each Python process of the program imports at its start."""
        self._status_files.mkdir(parents=True)
        text = _SITECUSTOMIZE.format(
            package=str(PACKAGE), folder=str(self._startup), status=str(self._status_files), oldest=OLDEST_PYTHON
        )
        self._startup.mkdir()
        (self._startup / "sitecustomize.py").write_text(text, encoding="utf-8")
        if self.steps == LATER:
            (self._status_files / LATER).touch()

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the variables to set for the program."""
        path = environ.get("PYTHONPATH", "")
        variables = {
            "PYTHONPATH": f"{self._startup}{os.pathsep}{path}" if path else str(self._startup),
            STATUS_VARIABLE: str(self._status_files),
        }
        if self.cached_batches:
            variables[CACHED_BATCHES_VARIABLE] = str(self.cached_batches)
        if self.steps is not None:
            step = {STEP_TEXT_VARIABLE: self.step_text, XRAY_VARIABLE: str(int(self.has_xray))}
            variables |= {STEPS_VARIABLE: self.steps} | step
        elif self.is_timed:
            variables |= {CLOCK_VARIABLE: str(self._status_files), STEP_TEXT_VARIABLE: self.step_text}
        return variables if self.marks else variables | {MARKS_VARIABLE: "0"}

    def timed_ranges(self) -> list[dict[str, object]]:
        """Return the timed ranges of each process of the program, after the program has ended."""
        return list(_complete(self._status_files.glob(f"*{SUFFIX}")))

    def notes(self) -> tuple[str, ...]:
        """Return a note for each reason why processes are not marked, after the program has ended."""
        written = (path for path in self._status_files.glob("*.json") if not path.name.endswith(SUFFIX))
        problems = Counter(str(each["problem"]) for each in _complete(written) if each["problem"])
        return tuple(
            f"Calls were not marked in {count} process{'es' if count > 1 else ''}: {problem}"
            for problem, count in sorted(problems.items())
        )

    def steps_alone(self) -> list[dict[str, object]]:
        """Return the times of the steps that each process has not recorded, in the form that it has written."""
        return list(_complete(self._status_files.glob(f"*{ALONE_SUFFIX}")))

    def xray(self) -> list[tuple[dict[str, object], list[Path]]]:
        """Return the lines of the X-ray steps of each process, and the files of their operators."""
        paths = sorted(self._status_files.glob(f"*{SITES_SUFFIX}"))
        files = {path: sorted(path.parent.glob(f"{path.stem}.*{OPERATORS_SUFFIX[1:]}")) for path in paths}
        return [(lines, files[path]) for path in paths for lines in _complete([path])]

    def progress(self) -> list[dict[str, Any]]:
        """Return where each process that takes steps is: phase, step, first recorded step, and the time in ns."""
        return list(_complete(self._status_files.glob(f"*{PROGRESS_SUFFIX}")))

    def recorded(self) -> list[dict[str, int]]:
        """Return the first and the last step of each recording that has ended."""
        numbered = {number: self._numbered(ENDED, number) for number in range(1, self.begun + 1)}
        return list(_complete(numbered.values()))

    @property
    def begun(self) -> int:
        """Return how many recordings the processes, or ``begin``, have begun."""
        return next(each for each in itertools.count() if not self._numbered(BEGUN, each + 1).exists())

    @property
    def is_waiting(self) -> bool:
        """Return whether the processes record when their user wants it."""
        return (self._status_files / LATER).exists()

    def want(self, steps: str) -> int | None:
        """Ask the processes for a recording, and return its number; None where one has not ended.

        An empty text is as many steps as fit in ten seconds.
        """
        number = len(self.recorded()) + 1
        return number if self._create(WANTED, number, steps) else None

    def begin(self) -> bool:
        """Tell the processes that nsyswrap begins the recording itself; return whether none of them was first."""
        return self._create(BEGUN, 1, FROM_OUTSIDE)

    def _create(self, name: str, number: int, text: str) -> bool:
        """Create a file that the processes share, whole and once; return whether it is new."""
        with tempfile.NamedTemporaryFile("w", dir=self.folder, encoding="utf-8") as file:
            file.write(text)
            file.flush()
            try:
                os.link(file.name, self._numbered(name, number))
            except FileExistsError:
                return False
        return True

    def _numbered(self, name: str, number: int) -> Path:
        return self._status_files / f"{name}.{number}"

    @property
    def _startup(self) -> Path:
        return self.folder / "startup"

    @property
    def _status_files(self) -> Path:
        return self.folder / "status"


def _complete(paths: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """Yield the contents of the files of processes; a process that was killed while it wrote left half a file."""
    for path in sorted(paths):
        with suppress(OSError, ValueError):
            yield json.loads(path.read_text(encoding="utf-8"))
