"""The space on the disk of nsys's temporary files, which hold what it records until the end.

nsys 2023.4.4 maps a file for each process into memory and enlarges it as the program goes on. On a full disk the next
write there kills the program with SIGSEGV or SIGBUS (seen on a disk of 60 MB), or nsys waits and writes nothing.
"""

import os
from pathlib import Path

# Free bytes at which a recording is stopped: nsys begins with 16 MiB a process and writes its report from there.
LOW_BYTES = 128 * 1024 * 1024

# Free bytes at which nothing more can be written.
FULL_BYTES = 1024 * 1024


def free_bytes(folder: Path) -> int | None:
    """Return what this user may still write to the disk of a folder; None if that is unknown."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    # Some network file systems report no sizes.
    return found.f_bavail * found.f_frsize if found.f_blocks else None


def low_limit(folder: Path) -> int:
    """Return the free bytes at which a recording into a folder is stopped: less where little is free at its start."""
    free = free_bytes(folder)
    return 0 if free is None else min(LOW_BYTES, free // 2)


def is_below(folder: Path, limit: int) -> bool:
    """Return whether fewer bytes are free on the disk of a folder."""
    free = free_bytes(folder)
    return free is not None and free < limit
