"""Text files that a user names: read whole, but never a device, a pipe or more than a limit."""

import errno
import os
import stat
from pathlib import Path

# Source: ours. The largest report.json in this repository has 3.0 MB.
MOST_BYTES = 512 * 2**20


def read_text_file(path: Path) -> str:
    """Return the text of a file in UTF-8.

    Raises:
        OSError: It cannot be read, is no regular file, or is too large.
        UnicodeDecodeError: It is not UTF-8.
    """
    # A pipe without a writer would block here.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        status = os.fstat(file.fileno())
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "It is a device or a pipe, not a file")
        if status.st_size > MOST_BYTES:
            raise OSError(errno.EFBIG, f"It is larger than {MOST_BYTES // 2**20} MiB")
        return file.read(MOST_BYTES + 1).decode("utf-8")
