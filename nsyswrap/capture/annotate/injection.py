"""Have the processes of a program mark their phases: the environment for it, and what the processes answered."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nsyswrap.capture.annotate.process_start import CACHED_BATCHES_VARIABLE, STATUS_VARIABLE

PACKAGE = Path(__file__).parent

# The program's Python need not have nsyswrap, nor be of our version: the files are loaded under a name of their own.
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
    """What marks the phases of one run.

    Args:
        folder: A folder that is there as long as the program runs.
        cached_batches: How many batches each loader keeps and gives again and again; 0 to leave loaders as they are.
    """

    folder: Path
    cached_batches: int = 0

    def prepare(self) -> None:
        """Write what each Python process of the program finds when it starts."""
        self._answers.mkdir(parents=True)
        text = _SITECUSTOMIZE.format(package=str(PACKAGE), folder=str(self._startup))
        self._startup.mkdir()
        (self._startup / "sitecustomize.py").write_text(text, encoding="utf-8")

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the variables to set for the program.

        Args:
            environ: What it would have without us; its own PYTHONPATH is kept, behind ours.
        """
        path = environ.get("PYTHONPATH", "")
        made = {
            "PYTHONPATH": f"{self._startup}{os.pathsep}{path}" if path else str(self._startup),
            STATUS_VARIABLE: str(self._answers),
        }
        return made | ({CACHED_BATCHES_VARIABLE: str(self.cached_batches)} if self.cached_batches else {})

    def notes(self) -> tuple[str, ...]:
        """Say what the processes of the program answered, once it has ended."""
        answers = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(self._answers.glob("*.json"))]
        marked = [each for each in answers if not each["problem"]]
        problems = sorted({each["problem"] for each in answers if each["problem"]})
        notes = [f"No phases were marked in a process with PyTorch: {problem}" for problem in problems]
        if marked:
            versions = ", ".join(sorted({each["torch"] for each in marked}))
            count = f"{len(marked)} process{'es' if len(marked) > 1 else ''}"
            notes.insert(
                0, f"Phases were marked in {count} by nsyswrap, through the C interface of NVTX (torch {versions})"
            )
        elif not problems:
            notes.append(
                "No phases were marked: no process of the program imported torch with PYTHONPATH as nsyswrap set it "
                "(python -I, -E and -S, and launchers that clear the environment, leave it out)"
            )
        return tuple(notes)

    @property
    def _startup(self) -> Path:
        return self.folder / "startup"

    @property
    def _answers(self) -> Path:
        return self.folder / "answers"
