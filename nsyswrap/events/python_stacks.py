"""The line of the program that each sampled Python stack was in, and how its file is shown."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from nsyswrap.trace.tables import Frame, Trace

# The part of a path that is not shown, of files of installed packages and of Python itself.
_LIBRARY = re.compile(
    r"^(?:.*/)?(?:lib(?:64)?/python\d[\d.]*/)?(?:(?:site|dist)-packages)/|^(?:.*/)?lib(?:64)?/python\d[\d.]*/"
)
_FROZEN = "<frozen "
_TYPED = "<"


@dataclass(frozen=True)
class SourceLines:
    """The line of each sampled stack.

    Attributes:
        innermost: Innermost frame of each stack code, with its file as it is shown.
        own: Innermost frame of each stack code that is in the program itself, not in Python or a package; without such
            a frame, the innermost one.
        stacks: All frames of each stack code, innermost first, with their files as they are shown.
    """

    innermost: tuple[Frame, ...]
    own: tuple[Frame, ...]
    stacks: tuple[tuple[Frame, ...], ...] = ()


def find_lines(trace: Trace) -> SourceLines:
    """Return the line of each stack of a trace."""
    shown = shown_files(trace.stacks)
    mine = {file for file in shown if _is_own(file)}
    own = tuple(_as_shown(_own_frame(stack, mine), shown) for stack in trace.stacks)
    stacks = tuple(tuple(_as_shown(frame, shown) for frame in stack) for stack in trace.stacks)
    return SourceLines(tuple(stack[0] for stack in stacks), own, stacks)


def shown_files(stacks: Sequence[Sequence[Frame]]) -> dict[str, str]:
    """Return how each file of some stacks is shown.

    The folder of the program is that of the file in which most stacks begin.

    Args:
        stacks: The stacks, innermost frame first.
    """
    files = {frame.file for stack in stacks for frame in stack}
    outermost = (next((frame.file for frame in reversed(stack) if _is_own(frame.file)), None) for stack in stacks)
    counts = Counter(file for file in outermost if file)
    first = max(counts, key=lambda file: (counts[file], file), default="")
    folder = PurePosixPath(first).parent
    return {file: _shown(file, folder) for file in files}


def _own_frame(stack: tuple[Frame, ...], mine: set[str]) -> Frame:
    """Return the innermost frame of the program's files, else of code that has no file, else of all."""
    typed = (frame for frame in stack if frame.file.startswith(_TYPED) and not frame.file.startswith(_FROZEN))
    return next((frame for frame in stack if frame.file in mine), next(typed, stack[0]))


def _is_own(file: str) -> bool:
    return not file.startswith(_TYPED) and _LIBRARY.match(file) is None


def _as_shown(frame: Frame, shown: dict[str, str]) -> Frame:
    return frame._replace(file=shown[frame.file])


def _shown(file: str, folder: PurePosixPath) -> str:
    """Return how a file is shown: relative to its package or to the program's folder, else with its own folder."""
    if not _is_own(file):
        return _LIBRARY.sub("", file)
    path = PurePosixPath(file)
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else "/".join(path.parts[-2:])
