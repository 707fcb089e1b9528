"""Finish an interrupted run: keep what nsys recorded, and export it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nsyswrap.base.errors import UsageError
from nsyswrap.capture.annotate.injection import Injection
from nsyswrap.capture.convert import export_report, import_recorded, is_export, move_recorded
from nsyswrap.capture.locate import find_nsys
from nsyswrap.capture.nsys import injection_folder
from nsyswrap.capture.progress import Progress
from nsyswrap.capture.result_folder import (
    EXPORT_NAME,
    REPORT_NAME,
    RUN_FOLDER,
    TEMPORARY_LINK,
    UNFINISHED_NAME,
    left_behind,
    publish,
    reserve_folder,
)
from nsyswrap.capture.run_dir import TEMPORARY_PREFIX
from nsyswrap.capture.xray_file import write_steps_alone


@contextmanager
def resumed(folder: Path, progress: Progress) -> Iterator[Path]:
    """Yield the export of an interrupted run; until the end of the block only this process writes to its folder.

    Raises:
        UsageError: The folder does not exist, is in use, or holds nothing that was recorded.
        CaptureError: nsys cannot write its report, or cannot export it.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder", hint="Give the folder that 'nsyswrap profile' wrote to")
    with reserve_folder(folder, force=True):
        _keep_recorded(folder)
        report, export = folder / REPORT_NAME, folder / EXPORT_NAME
        if not report.is_file() and (folder / UNFINISHED_NAME).is_file():
            import_recorded(find_nsys(), folder / UNFINISHED_NAME, report, progress)
        if not report.is_file():
            raise UsageError(
                f"{folder} holds nothing that a run recorded",
                hint="The run ended before nsys had collected its data: record it again, with --force",
            )
        if not is_export(export) or export.stat().st_mtime < report.stat().st_mtime:
            export_report(find_nsys(), report, export, progress)
        yield export


def _keep_recorded(folder: Path) -> None:
    """Move what the run left in its private folders to the folder of the result, and remove those folders."""
    private = folder / RUN_FOLDER
    if not (private / REPORT_NAME).is_file():
        for path in left_behind(folder)[:1]:
            move_recorded(path, private / UNFINISHED_NAME)
    for name in (REPORT_NAME, UNFINISHED_NAME):
        if (private / name).is_file():
            (private / name).chmod(0o600)
    link = private / TEMPORARY_LINK
    write_steps_alone(private, Injection(injection_folder(link)).steps_alone())
    publish(folder)
    if link.is_symlink():
        temporary = link.readlink()
        if (
            temporary.name.startswith(TEMPORARY_PREFIX)
            and temporary.is_dir()
            and temporary.stat().st_uid == os.getuid()
        ):
            shutil.rmtree(temporary, ignore_errors=True)
    shutil.rmtree(private, ignore_errors=True)
