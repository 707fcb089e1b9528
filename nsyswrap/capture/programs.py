"""Find a program of NVIDIA on PATH and in the folders of its installers; the newest of several versions first."""

import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from nsyswrap.capture.process import output_of

# For each source, as messages name it: patterns of paths below the root folder.
Places = tuple[tuple[str, tuple[str, ...]], ...]

_VERSION_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class RunningProgram:
    """A program that runs.

    Args:
        path: The program.
        version: Its version, such as ``(2023, 4, 4, 54)``.
        source: Where it was found, for messages.
    """

    path: Path
    version: tuple[int, ...]
    source: str

    @property
    def version_text(self) -> str:
        """Return the version as the program prints it, without its build number: ``2023.4.4.54``."""
        return ".".join(map(str, self.version))


Found = TypeVar("Found", bound=RunningProgram)


def program_at(kind: type[Found], path: Path, source: str) -> Found | None:
    """Return the program at a path, or None if its ``--version`` prints none.

    Args:
        kind: Which program it is.
        path: The program; a relative path is made absolute.
        source: Where it was found, for messages.
    """
    try:
        output = output_of([path.absolute(), "--version"], timeout_s=_VERSION_TIMEOUT_S)
    except (OSError, TimeoutError):
        return None
    version = version_in(output.stdout)
    return kind(path.absolute(), version, source) if output.code == 0 and version else None


def find_programs(
    kind: type[Found], name: str, places: Places, environ: Mapping[str, str], root: Path
) -> Iterator[Found]:
    """Yield every program of a name that runs: that of ``PATH``, then place by place, the newest of each first."""
    on_path = shutil.which(name, path=environ.get("PATH", ""))
    program = program_at(kind, Path(on_path), "PATH") if on_path else None
    if program is not None:
        yield program
    for source, patterns in places:
        yield from newest_first(kind, (path for pattern in patterns for path in root.glob(pattern)), source)


def newest_first(kind: type[Found], paths: Iterable[Path], source: str) -> list[Found]:
    """Return the programs at paths that run, newest first; two paths of one file count once."""
    distinct = {path.resolve(): path for path in paths}
    answers = (program_at(kind, path, source) for path in sorted(distinct.values()))
    return sorted((each for each in answers if each is not None), key=lambda each: each.version, reverse=True)


def version_in(text: str) -> tuple[int, ...]:
    """Return the version in the output of ``nsys --version`` or ``ncu --version``; empty if there is none."""
    match = re.search(r"\b(\d{4}(?:\.\d+)+)", text)
    return tuple(int(part) for part in match[1].split(".")) if match else ()
