"""Finds many captures: in folders, by patterns and in lists, each once, with a short name for each."""

import glob
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from nsyswrap.base.errors import ExportError, UsageError
from nsyswrap.base.privacy import neutral
from nsyswrap.base.text_file import read_text_file
from nsyswrap.capture.recorded_run import CAPTURE_SUFFIXES
from nsyswrap.cli.inputs import CAPTURE_NAMES, REPORT_SUFFIX
from nsyswrap.cli.recording import REPORT_NAME

EXPORT_SUFFIX = ".sqlite"
SUFFIXES = (EXPORT_SUFFIX, *CAPTURE_SUFFIXES, REPORT_SUFFIX)
LIST_SUFFIXES = (".txt", ".list", ".lst")
STDIN = "-"
# JSON that `profile` writes beside a capture and that is no report.
NO_REPORTS = ("run.json", "host.json")
_PATTERN = frozenset("*?[")
_HINT = "give a folder of captures, a pattern in quotes such as 'runs/**/*.sqlite', or a list in a .txt file"


class FoundCapture(NamedTuple):
    """A capture, which may not exist, and the export beside a report.json that names the host."""

    path: Path
    host_from: Path | None = None


def find_captures(given: Sequence[str], *, with_reports: bool) -> list[FoundCapture]:
    """Return the captures of folders, patterns, lists and paths, in their order, each once.

    Of an export and the ``.nsys-rep`` that it was made from, the export is taken. A folder of `profile` is its
    report.json, which is quick to read, or else its capture.

    Args:
        given: What the user gave.
        with_reports: Whether a report.json may stand for its capture in folders and patterns; not where options say how
            to read a capture.

    Raises:
        UsageError: There is nothing under a name, or no capture in all of them.
        ExportError: A list cannot be read.
    """
    found = [each for name in given for each in _named(name, with_reports=with_reports)]
    if not found:
        raise UsageError(f"no captures in {', '.join(given)}", hint=_HINT)
    exports = {each.path.with_suffix("") for each in found if each.path.suffix == EXPORT_SUFFIX}
    kept = (
        each for each in found if each.path.suffix not in CAPTURE_SUFFIXES or each.path.with_suffix("") not in exports
    )  # fmt: skip
    return list(dict.fromkeys(kept))


def _named(name: str, *, with_reports: bool) -> Iterator[FoundCapture]:
    path = Path(name)
    if name == STDIN or path.suffix in LIST_SUFFIXES:
        yield from _listed(name, with_reports=with_reports)
    elif _exists(path):
        yield from _at(path, with_reports=with_reports)
    elif matches := _matches(name):
        for each in matches:
            if each.is_dir() or (each.suffix in SUFFIXES and each.name not in NO_REPORTS):
                yield from _at(each, with_reports=with_reports)
    else:
        raise UsageError(f"{name} does not exist", hint=_HINT)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # no permission, or a name that is too long
        return False


def _matches(pattern: str) -> list[Path]:
    """Return the paths that match a pattern, sorted; none for a text that is no pattern."""
    if not _PATTERN & set(pattern):
        return []
    return [Path(each) for each in sorted(glob.glob(pattern, recursive=True))]  # noqa: PTH207 - pathlib has no absolute pattern


def _at(path: Path, *, with_reports: bool) -> Iterator[FoundCapture]:
    """Yield the captures of a folder, or a file itself."""
    path = path.absolute()
    if path.is_dir():
        for root, folders, names in os.walk(path):
            place, files = Path(root), frozenset(names)
            is_report = with_reports and REPORT_NAME in files
            # The report of a job has the numbers of its ranks, and a hidden folder is one of an unfinished run.
            folders[:] = sorted(
                each for each in folders if not each.startswith(".") and not (is_report and each.startswith("rank-"))
            )
            if is_report:
                yield FoundCapture(place / REPORT_NAME, _host_from(place / REPORT_NAME))
            taken = CAPTURE_NAMES if is_report else ()
            for name in sorted(files):
                if name.endswith((EXPORT_SUFFIX, *CAPTURE_SUFFIXES)) and name not in taken:
                    yield FoundCapture(place / name)
    else:
        yield FoundCapture(path, _host_from(path))


def _listed(name: str, *, with_reports: bool) -> Iterator[FoundCapture]:
    """Yield the captures of a list: a path or a pattern on each line, relative to the list; # begins a comment."""
    try:
        text = sys.stdin.read() if name == STDIN else read_text_file(Path(name))
    except (OSError, UnicodeDecodeError) as error:
        raise ExportError(f"cannot read the list {name}: {error}", hint=_HINT) from error
    folder = Path.cwd() if name == STDIN else Path(name).absolute().parent
    for line in map(str.strip, text.splitlines()):
        if not line or line.startswith("#"):
            continue
        path = folder / line
        matches = [] if _exists(path) else _matches(str(path))
        # What is missing is a row of the result, and no end.
        for each in matches or [path]:
            yield from _at(each, with_reports=with_reports)


def _host_from(path: Path) -> Path | None:
    """Return the export beside a report.json; None for other files and where there is none."""
    export = path.with_name(CAPTURE_NAMES[0])
    return export if path.suffix == REPORT_SUFFIX and export.is_file() else None


def names_of(paths: Sequence[Path]) -> list[str]:
    """Return a name for each capture: its path below the folder that all have in common, each one different.

    Captures that have only the root in common have their whole path. A file that `profile` wrote has the name of its
    folder.
    """
    top = Path(os.path.commonpath([each.parent for each in paths])) if paths else Path()
    if top == Path(top.anchor) and top.anchor:
        return [neutral(str(each)) for each in paths]  # nothing in common: whole paths
    brief = [_brief(each, top) for each in paths]
    whole = [os.path.relpath(each, top) for each in paths]
    twice = {name for name, count in Counter(brief).items() if count > 1}
    return [neutral(full if short in twice else short) for short, full in zip(brief, whole, strict=True)]


def _brief(path: Path, top: Path) -> str:
    if path.name in {*CAPTURE_NAMES, REPORT_NAME}:
        return os.path.relpath(path.parent, top) if path.parent != top else path.parent.name or path.name
    return os.path.relpath(path, top)
