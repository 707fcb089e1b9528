"""The reports of the ranks of a job: finds their files and the rank of each file."""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nsyswrap.base import units
from nsyswrap.base.errors import UsageError
from nsyswrap.capture.recorded_run import CAPTURE_SUFFIXES, recorded_rank
from nsyswrap.capture_file import with_rates
from nsyswrap.cli.inputs import CAPTURE_NAMES, ReadOptions, sqlite_export
from nsyswrap.cli.many_ranks import report_of_many
from nsyswrap.cli.progress import working
from nsyswrap.cli.rank_reader import RankCapture, rank_report
from nsyswrap.loop.context import Settings, find_context
from nsyswrap.model import Report
from nsyswrap.ranks.join import join
from nsyswrap.ranks.many import ALL_IN_DETAIL
from nsyswrap.report import report_of
from nsyswrap.trace.load import load_export

SUFFIXES = (".sqlite", *CAPTURE_SUFFIXES)
# rank-3, rank_3, rank3, r3: as a folder's name, or as the end of a file's.
_RANK = re.compile(r"(?:^|[^A-Za-z])r(?:ank)?[-_]?(\d+)$", re.IGNORECASE)
FOLDER_HINT = "give the folder that holds rank-0, rank-1 and so on, or the captures themselves"


def find_reports(paths: Sequence[Path]) -> list[Path]:
    """Return the captures among the paths and in folders; in a folder, an export is preferred to its ``.nsys-rep``.

    Raises:
        UsageError: A folder holds no capture, or a path is neither a folder nor a capture.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = _in_folder(path)
            if not inside:
                raise UsageError(f"{path} holds no captures", hint=FOLDER_HINT)
            found += inside
        elif path.suffix in SUFFIXES:
            found.append(path)
        else:
            raise UsageError(f"{path} is neither a folder nor a capture", hint=FOLDER_HINT)
    return list(dict.fromkeys(found))


def _in_folder(folder: Path) -> list[Path]:
    """Return the captures of a folder of results of `profile`, or else those in the folder itself."""
    folders = sorted(each for each in folder.iterdir() if each.is_dir())
    results = (next((each / name for name in CAPTURE_NAMES if (each / name).is_file()), None) for each in folders)
    found = [each for each in results if each is not None]
    if found:
        return found
    stems: dict[str, Path] = {}
    for suffix in SUFFIXES:
        for path in sorted(folder.glob(f"*{suffix}")):
            stems.setdefault(path.stem, path)
    return [stems[stem] for stem in sorted(stems)]


def rank_in_name(path: Path) -> int | None:
    """Return the rank in the name of a capture, or of its folder; None where neither has one."""
    found = _RANK.search(path.stem) or _RANK.search(path.parent.name)
    return int(found.group(1)) if found else None


def report_of_ranks(paths: Sequence[Path], options: ReadOptions, *, with_timeline: bool = False) -> Report:
    """Return one report of the captures of several ranks."""
    captures = find_reports(paths)
    sources = []
    for capture in captures:
        rank, size = recorded_rank(capture)
        named = rank_in_name(capture) if rank is None else rank
        sources.append(RankCapture(capture, "/".join(capture.parts[-2:]), named, size))
    settings = with_rates(options.settings(), captures[0])
    if len(sources) > ALL_IN_DETAIL:
        return report_of_many(sources, settings, options.window, with_timeline=with_timeline)
    return report_of_all(sources, settings, options.window, with_timeline=with_timeline)


def report_of_all(sources: Sequence[RankCapture], settings: Settings, window: str, *, with_timeline: bool) -> Report:
    """Return one report of captures whose ranks are all shown in detail."""
    reports = []
    for each in sources:
        with sqlite_export(each.path) as export, working(f"reading {each.name}"):
            reports.append(rank_report(each, load_export(export, os.environ)))
    with working("analyzing"):
        whole = join(reports, units.counted(len(reports), "rank"))
        report = report_of(find_context(whole.trace, whole.settings(settings)), window, with_timeline=with_timeline)
    return replace(report, notes=(*report.notes, *whole.notes))
