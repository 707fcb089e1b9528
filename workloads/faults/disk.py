"""Files that no cache of the system holds: each read waits for the disk."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written(count: int, size: int) -> Iterator[list[Path]]:
    """Write files of random bytes, and yield their paths as long as the block lasts."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{number}.bin" for number in range(count)]
        for path in paths:
            path.write_bytes(os.urandom(size))
        os.sync()
        yield paths


def forget(file: int) -> None:
    """Drop an open file from the cache of the system; pages that a process has mapped stay."""
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)


def read(path: Path) -> bytes:
    """Return the bytes of a file, and drop it from the cache."""
    with path.open("rb", buffering=0) as file:
        content = file.readall()
        forget(file.fileno())
    return content
