"""Make nsys's report from the data that it recorded, and an SQLite export from the report."""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from nsyswrap.base.errors import CaptureError
from nsyswrap.capture.disk_space import DISK_FULL_HINT, free_text
from nsyswrap.capture.failures import export_failed, import_failed
from nsyswrap.capture.locate import Nsys, capabilities_of, importer_of
from nsyswrap.capture.options import export_command
from nsyswrap.capture.process import output_of
from nsyswrap.capture.progress import MonotonicProgress, Phase, Progress, silent
from nsyswrap.capture.result_folder import EXPORT_NAME, REPORT_NAME
from nsyswrap.capture.run_dir import private_folder

_TIMEOUT_S = 24 * 3600.0
_SQLITE_HEADER = b"SQLite format 3\0"


def move_recorded(unfinished: Path, target: Path) -> None:
    """Move recorded data to the result folder, which may be on another disk; an incomplete copy is removed.

    Raises:
        CaptureError: It cannot be moved.
    """
    try:
        shutil.move(unfinished, target)
        target.chmod(0o600)
    except OSError as error:
        target.unlink(missing_ok=True)
        raise CaptureError(
            f"nsys could not write its report, and the recorded data cannot be kept in {target.parent}: "
            f"{error.strerror} ({free_text(target.parent)})",
            hint=DISK_FULL_HINT,
        ) from error


def import_recorded(nsys: Nsys, unfinished: Path, report: Path, progress: Progress = silent) -> None:
    """Make nsys's report from the data that it recorded, and remove the data.

    Raises:
        CaptureError: nsys cannot read the data.
    """
    importer = importer_of(nsys)
    if importer is None:
        raise import_failed(nsys, unfinished, "this nsys has no importer")
    progress(Phase.WRITING, None)
    fresh = report.with_name(f".{report.name}")
    argv: list[str | Path] = [
        importer,
        "--input-file",
        unfinished.absolute(),
        "--output-file",
        fresh.absolute(),
        "--force-overwrite",
    ]
    try:
        output = output_of(argv, timeout_s=_TIMEOUT_S)
        if output.code or not fresh.is_file():
            raise import_failed(nsys, unfinished, output.text)
        fresh.chmod(0o600)
        fresh.replace(report)
        unfinished.unlink()
    except (OSError, TimeoutError) as error:
        raise import_failed(nsys, unfinished, str(error)) from error
    finally:
        fresh.unlink(missing_ok=True)


def export_report(nsys: Nsys, report: Path, target: Path, progress: Progress = silent) -> None:
    """Export a report to SQLite; an existing export is replaced and not trusted.

    The nsys must not be older than the one that wrote the report. Only its owner can read the target.

    Raises:
        ExportError: The report does not exist, nsys cannot read it, or there is no space for the export.
    """
    if not report.is_file():
        raise export_failed(nsys, report, target, "it does not exist")
    with private_folder(target.parent) as temporary:
        fresh, linked = temporary / EXPORT_NAME, temporary / REPORT_NAME
        linked.symlink_to(report.resolve())
        argv = export_command(nsys, capabilities_of(nsys), linked, fresh)
        env = {**os.environ, "TMPDIR": str(temporary)}
        try:
            on_stderr = MonotonicProgress(progress, Phase.EXPORTING)
            output = output_of(argv, timeout_s=_TIMEOUT_S, env=env, on_stderr=on_stderr)
        except (OSError, TimeoutError) as error:
            raise export_failed(nsys, report, target, str(error)) from error
        if output.code != 0 or not is_export(fresh):
            raise export_failed(nsys, report, target, output.text)
        fresh.chmod(0o600)
        fresh.replace(target)
    progress(Phase.EXPORTING, 1.0)


def is_export(path: Path) -> bool:
    """Return whether a file is an SQLite database with tables; their content is not checked."""
    try:
        with path.open("rb") as file:
            if file.read(len(_SQLITE_HEADER)) != _SQLITE_HEADER:
                return False
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            return bool(database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    except (OSError, sqlite3.DatabaseError):
        return False
