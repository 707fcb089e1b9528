"""The folder of one result: made once, filled in one step, never written over by accident."""

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

# What a finished result holds; all of it is of one run, so a new capture removes the old run's reports too.
_RESULT_NAMES = (REPORT_NAME, EXPORT_NAME, UNFINISHED_NAME, "run.json", "report.json", "report.html")


@contextmanager
def result_folder(folder: Path, *, force: bool, next_free: bool = False) -> Iterator[Path]:
    """Reserve a folder for a result and hand out a private one inside it to write to.

    At the end, well or not, what was written moves from the private folder to its place. Where nothing was written and
    we made the folder, it goes again.

    Args:
        folder: Where the result goes. Its parents are made; a new folder is for its owner alone.
        force: Take a folder that is there already, and replace the result in it.
        next_free: Where the folder is taken, make the first of folder-2, folder-3, ... that is not.

    Yields:
        A folder that no other run uses; it lies in the folder of the result.

    Raises:
        UsageError: The folder is there already and holds something, and ``force`` is not given.
        CaptureError: It cannot be made.
    """
    private, made = _reserve_next_free(folder) if next_free else _reserve(folder, force=force)
    folder = private.parent
    try:
        with _locked(private):
            try:
                yield private
            finally:
                _publish(private, folder)
    finally:
        shutil.rmtree(private, ignore_errors=True)
        if made:
            with contextlib.suppress(OSError):
                folder.rmdir()


def _reserve_next_free(folder: Path) -> tuple[Path, bool]:
    """Reserve the folder, or the next of that name that no other run has."""
    numbers, candidate = itertools.count(2), folder
    while True:
        try:
            return _reserve(candidate, force=False)
        except UsageError:
            candidate = folder.with_name(f"{folder.name}-{next(numbers)}")


def _reserve(folder: Path, *, force: bool) -> tuple[Path, bool]:
    """Make the folder and a private one in it, and tell whether the folder is new.

    Of two runs that want the same folder one is refused: both would make the same private folder, and the system lets
    only one of them. Whether the folder holds anything else is asked after that.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = not folder.is_dir()
        folder.mkdir(mode=0o700, exist_ok=True)
        if force:
            return Path(tempfile.mkdtemp(prefix=".run-", dir=folder)), made
        private = folder / ".run"
        private.mkdir(mode=0o700)
        if any(path != private for path in folder.iterdir()):
            private.rmdir()
            raise _taken(folder)
    except FileExistsError as error:
        if folder.parent.is_dir():
            raise _taken(folder) from error
        raise _unmakeable(folder, error) from error
    except OSError as error:
        raise _unmakeable(folder, error) from error
    return private, made


def _taken(folder: Path) -> UsageError:
    return UsageError(f"{folder} is there already", hint="Choose another folder with -o, or add --force")


def _unmakeable(folder: Path, error: OSError) -> CaptureError:
    return CaptureError(f"{folder} cannot be made: {error.strerror}", hint="Choose another with -o")


def _publish(private: Path, folder: Path) -> None:
    """Put new files in the place of all that an earlier run left."""
    written = [name for name in _RESULT_NAMES if (private / name).exists()]
    if not written:
        return
    if REPORT_NAME in written and UNFINISHED_NAME in written:
        written.remove(UNFINISHED_NAME)  # nsys makes the report from it, and may remove it only later
    for name in _RESULT_NAMES:
        (folder / name).unlink(missing_ok=True)
    for name in written:
        (private / name).rename(folder / name)
    _remove_leftovers(folder)


@contextmanager
def _locked(private: Path) -> Iterator[bool]:
    """Lock a private folder, and tell whether that was possible; the system unlocks it when its run is over."""
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
    """Remove the private folders of runs that were killed. An empty one stays: its run may be about to lock it."""
    for private in (folder / ".run", *folder.glob(".run-*")):
        with contextlib.suppress(OSError):
            if any(private.iterdir()):
                with _locked(private) as over:
                    if over:
                        shutil.rmtree(private, ignore_errors=True)
