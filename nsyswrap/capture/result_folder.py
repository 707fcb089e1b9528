"""The folder of a result: written by one process at a time, filled by renames, and never overwritten by accident.

A run writes to ``FOLDER/.run`` and moves what is complete to FOLDER. If the run is killed, ``.run`` keeps what it had
written; :mod:`nsyswrap.capture.resume` finishes it.

The system releases the lock when the process ends, however it ends, so a stale lock is taken over without a question.
"""

import errno
import fcntl
import itertools
import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from nsyswrap.base.errors import CaptureError, UsageError
from nsyswrap.capture.process_tree import start_time

LOCK_NAME = ".lock"

# File systems without locks, such as Lustre mounted without them. There, the holder's process is looked for instead.
_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL}


REPORT_NAME = "capture.nsys-rep"
# What nsys recorded of a program later than the first time, by number, from 2.
NUMBERED_REPORT = "capture.{}.nsys-rep"
EXPORT_NAME = "capture.sqlite"
UNFINISHED_NAME = "capture.qdstrm"
HOST_NAME = "host.json"
STEPS_ALONE_NAME = "steps_alone.json"
XRAY_NAME = "xray.json"
ALTERNATIVES_NAME = "alternatives.json"
RECORD_NAME = "run.json"
# What `nsyswrap try` found for the program of a run.
TRY_NAME = "try.json"
REPORT_NAMES = ("report.json", "report.html")
RUN_FOLDER = ".run"
# In the folder of a run, a link to the temporary folder, in which nsys keeps what it has not put into its report.
TEMPORARY_LINK = "temporary"
# The files of a result. All belong to one run, so a new capture also removes the reports of the old run.
_RESULT_NAMES = (
    *(REPORT_NAME, EXPORT_NAME, UNFINISHED_NAME, HOST_NAME, STEPS_ALONE_NAME, XRAY_NAME, RECORD_NAME),
    *(ALTERNATIVES_NAME, TRY_NAME),
    *REPORT_NAMES,
)


class FolderInUseError(UsageError):
    """Another process writes to the folder."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that holds a lock.

    Args:
        pid: Its process id.
        host: Its host.
        started: When it started, in clock ticks since the boot: process ids are used again.
    """

    pid: int
    host: str
    started: str

    def lives(self) -> bool:
        """Return whether it runs; of another host that is unknown, and taken as yes."""
        return self.host != socket.gethostname() or start_time(self.pid) == self.started


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which exists, until the end of the block.

    Raises:
        FolderInUseError: Another process, or another thread of this one, holds it.
        OSError: The lock cannot be created.
    """
    path = folder / LOCK_NAME
    descriptor = _locked(path)
    try:
        own = Holder(os.getpid(), socket.gethostname(), start_time(os.getpid()))
        text = json.dumps({"pid": own.pid, "host": own.host, "started": own.started}).encode()
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text, 0)
        yield
    finally:
        path.unlink(missing_ok=True)  # while it is held: afterwards it may be another's
        os.close(descriptor)


def _locked(path: Path) -> int:
    """Return the descriptor of the locked file."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise _in_use(path.parent, _holder(descriptor)) from None
            except OSError as error:
                holder = _holder(descriptor)
                if error.errno not in _NO_LOCKS:
                    raise
                if holder is not None and holder.lives():
                    raise _in_use(path.parent, holder) from error
        except BaseException:
            os.close(descriptor)
            raise
        with suppress(FileNotFoundError):
            if path.stat().st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        os.close(descriptor)  # its holder removed it before we locked it


def _holder(descriptor: int) -> Holder | None:
    """Return the process that a lock names; None for a file that says nothing yet."""
    try:
        named = json.loads(os.pread(descriptor, 4096, 0))
        return Holder(int(named["pid"]), str(named["host"]), str(named["started"]))
    except (ValueError, TypeError, KeyError):
        return None


def _in_use(folder: Path, holder: Holder | None) -> FolderInUseError:
    by = "" if holder is None else f" by process {holder.pid} on {holder.host}"
    return FolderInUseError(f"{folder} is in use{by}", hint="Wait until it has ended, or give another folder with -o")


@contextmanager
def reserve_folder(folder: Path, *, force: bool, next_free: bool = False) -> Iterator[Path]:
    """Reserve a folder for a result until the end of the block. A new folder in which nothing was written is removed.

    Its parents are created; only its owner can read a new folder. With ``force`` a folder with a result is replaced;
    with ``next_free`` the first free one of folder-2, folder-3, ... is taken.

    Raises:
        UsageError: The folder exists and is not empty, and ``force`` is not given, or another run uses it.
        CaptureError: It cannot be created.
    """
    with ExitStack() as stack:
        place = _next_free(stack, folder) if next_free else _reserved(stack, folder, force=force)
        yield place


def _next_free(stack: ExitStack, folder: Path) -> Path:
    """Reserve the folder, or the first free one with a number appended."""
    numbers, candidate = itertools.count(2), folder
    while True:
        try:
            return _reserved(stack, candidate, force=False)
        except UsageError:
            candidate = folder.with_name(f"{folder.name}-{next(numbers)}")


def _reserved(stack: ExitStack, folder: Path, *, force: bool) -> Path:
    """Create and lock the folder; the stack unlocks it, and removes it if it is new and empty."""
    with ExitStack() as attempt:
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            created = not folder.is_dir()
            folder.mkdir(mode=0o700, exist_ok=True)
            if created:
                attempt.callback(_remove_empty, folder)
            attempt.enter_context(folder_lock(folder))
            _check_no_nsys(folder)
        except FileExistsError as error:
            raise (_taken(folder) if folder.parent.is_dir() else _cannot_create(folder, error)) from error
        except OSError as error:
            raise _cannot_create(folder, error) from error
        if not force:
            if is_interrupted(folder):
                raise UsageError(
                    f"{folder} holds an interrupted run",
                    hint=f"Finish it with 'nsyswrap resume {folder}', or replace it with --force",
                )
            if any(path.name not in {LOCK_NAME, RUN_FOLDER} for path in folder.iterdir()):
                raise _taken(folder)
        stack.push(attempt.pop_all())
    return folder


def _check_no_nsys(folder: Path) -> None:
    """Check that no nsys of a killed run still writes its report."""
    link = folder / RUN_FOLDER / TEMPORARY_LINK
    if not link.is_symlink():
        return
    session = f"--session-new={link.readlink().name}".encode()
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and session in (entry / "cmdline").read_bytes().split(b"\0"):
                raise FolderInUseError(
                    f"{folder} is in use by nsys, process {entry.name}, of a run that was killed",
                    hint="Wait until it has written its report, or end that process",
                )


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


@contextmanager
def run_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder inside a reserved one, to write to.

    At the end of the block, also after an error, the written files move to the result folder. What an interrupted run
    has left is removed.
    """
    private = folder / RUN_FOLDER
    shutil.rmtree(private, ignore_errors=True)
    try:
        private.mkdir(mode=0o700)
    except OSError as error:
        raise _cannot_create(private, error) from error
    try:
        yield private
    finally:
        publish(folder)
        shutil.rmtree(private, ignore_errors=True)


def is_interrupted(folder: Path) -> bool:
    """Return whether a folder holds recorded data of a run that did not end, or a capture without its report."""
    private = folder / RUN_FOLDER
    if any((private / name).is_file() for name in (REPORT_NAME, UNFINISHED_NAME)) or left_behind(folder):
        return True
    captured, record = (folder / REPORT_NAME).is_file(), (folder / RECORD_NAME).is_file()
    return captured and record and not all((folder / name).is_file() for name in REPORT_NAMES)


def was_begun(folder: Path) -> bool:
    """Return whether a folder holds anything of a run that has not ended, also without recorded data."""
    captured = any((folder / name).is_file() for name in (REPORT_NAME, UNFINISHED_NAME))
    return (folder / RUN_FOLDER).is_dir() or (captured and not all((folder / name).is_file() for name in REPORT_NAMES))


def left_behind(folder: Path) -> list[Path]:
    """Return the recorded data that nsys left in the temporary folder of an interrupted run."""
    return sorted((folder / RUN_FOLDER / TEMPORARY_LINK).rglob("*.qdstrm"))


def _taken(folder: Path) -> UsageError:
    return UsageError(f"{folder} exists already", hint="Give another folder with -o, or add --force")


def _cannot_create(folder: Path, error: OSError) -> CaptureError:
    return CaptureError(f"{folder} cannot be created: {error.strerror}", hint="Give another folder with -o")


def publish(folder: Path) -> None:
    """Move what a run has written to its folder, and remove the files of an earlier run.

    Each file appears whole, by a rename. Reports of an earlier run go first, so that none is beside another's capture.
    """
    private = folder / RUN_FOLDER
    written = [name for name in _RESULT_NAMES if (private / name).exists()]
    if not written:
        return
    if REPORT_NAME in written and UNFINISHED_NAME in written:
        written.remove(UNFINISHED_NAME)  # nsys creates the report from it, and may remove it only later
    numbered = NUMBERED_REPORT.format("[0-9]*")
    written += sorted(path.name for path in private.glob(numbered))
    for name in (*reversed(_RESULT_NAMES), *(path.name for path in folder.glob(numbered))):
        if name not in written:
            (folder / name).unlink(missing_ok=True)
    for name in written:
        (private / name).replace(folder / name)
