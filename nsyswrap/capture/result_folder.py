"""The folder of a result: created once, filled in one step, and never overwritten by accident."""

import contextlib
import fcntl
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nsyswrap.errors import CaptureError, UsageError

REPORT_NAME = "capture.nsys-rep"
EXPORT_NAME = "capture.sqlite"
UNFINISHED_NAME = "capture.qdstrm"
HOST_NAME = "host.json"

# The files of a result. All belong to one run, so a new capture also removes the reports of the old run.
_RESULT_NAMES = (REPORT_NAME, EXPORT_NAME, UNFINISHED_NAME, HOST_NAME, "run.json", "report.json", "report.html")


@contextmanager
def result_folder(folder: Path, *, force: bool, next_free: bool = False) -> Iterator[Path]:
    """Reserve a folder for a result, and yield a private folder inside it to write to.

    At the end of the block, also after an error, the written files move from the private folder to the result folder.
    If nothing was written and the result folder is new, it is removed.

    Args:
        folder: The result folder. Its parents are created; a new folder is accessible to its owner only.
        force: Accept an existing folder, and replace the result in it.
        next_free: If the folder is taken, create the first free one of folder-2, folder-3, ...

    Yields:
        A folder inside the result folder that no other run uses.

    Raises:
        UsageError: The folder exists and is not empty, and ``force`` is not given.
        CaptureError: It cannot be created.
    """
    private, created = _reserve_next_free(folder) if next_free else _reserve(folder, force=force)
    folder = private.parent
    try:
        with _locked(private):
            try:
                yield private
            finally:
                _publish(private, folder)
    finally:
        shutil.rmtree(private, ignore_errors=True)
        if created:
            with contextlib.suppress(OSError):
                folder.rmdir()


def _reserve_next_free(folder: Path) -> tuple[Path, bool]:
    """Reserve the folder, or the first free one with a number appended."""
    numbers, candidate = itertools.count(2), folder
    while True:
        try:
            return _reserve(candidate, force=False)
        except UsageError:
            candidate = folder.with_name(f"{folder.name}-{next(numbers)}")


def _reserve(folder: Path, *, force: bool) -> tuple[Path, bool]:
    """Create the folder and a private folder in it; return the private one and whether the folder is new.

    If two runs want the same folder, one is refused: both try to create the same private folder, and only one succeeds.
    After that, the check that the folder is empty is safe.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        created = not folder.is_dir()
        folder.mkdir(mode=0o700, exist_ok=True)
        if force:
            return Path(tempfile.mkdtemp(prefix=".run-", dir=folder)), created
        private = folder / ".run"
        private.mkdir(mode=0o700)
        if any(path != private for path in folder.iterdir()):
            private.rmdir()
            raise _taken(folder)
    except FileExistsError as error:
        if folder.parent.is_dir():
            raise _taken(folder) from error
        raise _cannot_create(folder, error) from error
    except OSError as error:
        raise _cannot_create(folder, error) from error
    return private, created


def _taken(folder: Path) -> UsageError:
    return UsageError(f"{folder} exists already", hint="Give another folder with -o, or add --force")


def _cannot_create(folder: Path, error: OSError) -> CaptureError:
    return CaptureError(f"{folder} cannot be created: {error.strerror}", hint="Give another folder with -o")


def _publish(private: Path, folder: Path) -> None:
    """Replace the files of an earlier run by the new ones."""
    written = [name for name in _RESULT_NAMES if (private / name).exists()]
    if not written:
        return
    if REPORT_NAME in written and UNFINISHED_NAME in written:
        written.remove(UNFINISHED_NAME)  # nsys creates the report from it, and may remove it only later
    for name in _RESULT_NAMES:
        (folder / name).unlink(missing_ok=True)
    for name in written:
        (private / name).rename(folder / name)
    _remove_leftovers(folder)


@contextmanager
def _locked(private: Path) -> Iterator[bool]:
    """Try to lock a private folder, and yield whether it worked; the system unlocks it when its process ends."""
    descriptor = os.open(private, os.O_RDONLY | os.O_DIRECTORY)
    try:
        locked = True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            locked = False
        yield locked
    finally:
        os.close(descriptor)


def _remove_leftovers(folder: Path) -> None:
    """Remove the private folders of killed runs. An empty one stays, because its run may be about to lock it."""
    for private in (folder / ".run", *folder.glob(".run-*")):
        with contextlib.suppress(OSError):
            if any(private.iterdir()):
                with _locked(private) as locked:
                    if locked:
                        shutil.rmtree(private, ignore_errors=True)
