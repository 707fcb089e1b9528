"""The space on the disk of nsys's temporary files, which hold what it records until the end.

nsys 2023.4.4 maps a file for each process into memory and enlarges it as the program goes on. On a full disk the next
write there kills the program with SIGSEGV or SIGBUS (seen on a disk of 60 MB), or nsys waits and writes nothing; at the
start it kills nsys (seen on a disk of 1 MB).
"""

import errno
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from nsyswrap.base import units

# Free bytes at which a recording is stopped: nsys begins with 16 MiB a process and writes its report from there.
LOW_BYTES = 128 * 1024 * 1024

# What nsys maps at its start.
START_BYTES = 16 * 1024 * 1024

# Free bytes at which nothing more can be written.
FULL_BYTES = 1024 * 1024

# Where nsys keeps the semaphores of its processes, which need a page each.
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - only its space is looked at

_PAGE_BYTES = 4096

DISK_FULL_HINT = "Free some space, give a folder on another disk with -o and TMPDIR, or record less (--duration)"

# What tools print in these cases.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def free_bytes(folder: Path) -> int | None:
    """Return what this user may still write to the disk of a folder; None if that is unknown."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return None
    # Some network file systems report no sizes.
    return disk.f_bavail * disk.f_frsize if disk.f_blocks else None


def low_limit(folder: Path) -> int:
    """Return the free bytes at which a recording into a folder is stopped: less where little is free at its start."""
    free = free_bytes(folder)
    return 0 if free is None else min(LOW_BYTES, free // 2)


def is_below(folder: Path, limit: int) -> bool:
    """Return whether fewer bytes are free on the disk of a folder."""
    free = free_bytes(folder)
    return free is not None and free < limit


def full_disk(folders: Iterable[Path]) -> str | None:
    """Return a sentence on the first folder that nothing can be written to, with why and the free space; else None.

    A quota, or a disk that can only be read, shows when something is written. So a file is written, without a name.
    """
    for folder in folders:
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(bytes(_PAGE_BYTES if folder == SHARED_MEMORY else FULL_BYTES))
        except OSError as error:
            return f"nothing can be written to {folder}: {error.strerror} ({free_text(folder)})"
    return None


def says_full(output: str) -> bool:
    """Return whether the output of a tool says that a disk is full or can only be read, or that a quota is used up."""
    return any(os.strerror(number) in output for number in _FULL)


def free_text(folder: Path) -> str:
    """Return the free space of a folder's disk as text."""
    free = free_bytes(folder)
    return "free space unknown" if free is None else f"{units.size(free)} free"
