"""Prepares the environment in which a program's processes mark their phases, and reads their status files."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nsyswrap.capture.annotate.process_start import (
    CACHED_BATCHES_VARIABLE,
    CLOCK_VARIABLE,
    COMPILED_VARIABLE,
    HOST_ONLY_VARIABLE,
    MARKS_VARIABLE,
    STATUS_VARIABLE,
    TIMED_TEXT_VARIABLE,
)
from nsyswrap.capture.annotate.step_clock import SUFFIX

PACKAGE = Path(__file__).parent

# The program's Python may lack nsyswrap or have another version of it, so the files are loaded under their own name.
_SITECUSTOMIZE = '''"""Written by nsyswrap for one profiled run: marks the phases of a PyTorch program."""


def _start():
    import importlib.util
    import sys

    name, package = "_nsyswrap_annotate", {package!r}
    try:
        spec = importlib.util.spec_from_file_location(
            name, package + "/__init__.py", submodule_search_locations=[package]
        )
        sys.modules[name] = importlib.util.module_from_spec(spec)
        from _nsyswrap_annotate.process_start import start
    except Exception as error:
        sys.stderr.write("nsyswrap: annotate: no phases are marked: %s: %s\\n" % (type(error).__name__, error))
    else:
        start({folder!r})


_start()
'''


@dataclass(frozen=True, slots=True)
class Injection:
    """The phase marking of one run.

    Args:
        folder: A folder that exists while the program runs.
        cached_batches: How many batches each loader loads and then repeats; 0 to leave loaders unchanged.
        phases: Whether to mark phases; without, only garbage collections, checkpoints and tokenizers are marked.
        marks: Whether the phases of PyTorch programs are marked.
        timed_text: Pattern of the ranges that the program's own processes time, in a run without a profiler; empty
            for none.
    """

    folder: Path
    cached_batches: int = 0
    phases: bool = True
    marks: bool = True
    timed_text: str = ""

    def prepare(self) -> None:
        """Write the ``sitecustomize`` module that each Python process of the program imports at its start."""
        self._status_files.mkdir(parents=True)
        text = _SITECUSTOMIZE.format(package=str(PACKAGE), folder=str(self._startup))
        self._startup.mkdir()
        (self._startup / "sitecustomize.py").write_text(text, encoding="utf-8")

    def environment(self, environ: Mapping[str, str], compiled: Path | None = None) -> dict[str, str]:
        """Return the variables to set for the program.

        Args:
            environ: Its environment without nsyswrap; its PYTHONPATH is kept, after our folder.
            compiled: The compiled marker, if there is one.
        """
        path = environ.get("PYTHONPATH", "")
        variables = {
            "PYTHONPATH": f"{self._startup}{os.pathsep}{path}" if path else str(self._startup),
            STATUS_VARIABLE: str(self._status_files),
        }
        variables |= {} if self.phases else {HOST_ONLY_VARIABLE: "1"}
        variables |= {COMPILED_VARIABLE: str(compiled)} if compiled else {}
        if self.cached_batches:
            variables[CACHED_BATCHES_VARIABLE] = str(self.cached_batches)
        if self.timed_text:
            variables |= {CLOCK_VARIABLE: str(self._status_files), TIMED_TEXT_VARIABLE: self.timed_text}
        return variables if self.marks else variables | {MARKS_VARIABLE: "0"}

    def timed_ranges(self) -> list[dict[str, object]]:
        """Return the timed ranges of each process of the program, after the program has ended."""
        return list(_complete(self._status_files.glob(f"*{SUFFIX}")))

    def notes(self) -> tuple[str, ...]:
        """Return notes on which processes marked their phases, after the program has ended."""
        written = (path for path in self._status_files.glob("*.json") if not path.name.endswith(SUFFIX))
        statuses = list(_complete(written))
        marked = [each for each in statuses if not each["problem"]]
        problems = sorted({each["problem"] for each in statuses if each["problem"]})
        notes = [f"No phases were marked in a process with PyTorch: {problem}" for problem in problems]
        if marked:
            versions = ", ".join(sorted({each["torch"] for each in marked}))
            count = f"{len(marked)} process{'es' if len(marked) > 1 else ''}"
            how = " in compiled code," if all(each.get("compiled") for each in marked) else ""
            notes.insert(
                0, f"Phases were marked in {count} by nsyswrap,{how} through the C interface of NVTX (torch {versions})"
            )
        elif not problems:
            notes.append(
                "No phases were marked: no process of the program imported torch with PYTHONPATH as nsyswrap set it "
                "(python -I, -E and -S, and launchers that clear the environment, ignore it)"
            )
        return tuple(notes)

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
