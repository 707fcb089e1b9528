"""The standard streams: everything is written or an error is raised, and a message that cannot be shown is no error.

Without a buffer (``PYTHONUNBUFFERED``), Python writes once and ignores how much was written, so that a full disk or a
pipe that does not block cuts a result, and the exit code is 0.
"""

import io
import json
import os
import select
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class CompleteWriter(io.RawIOBase):
    """Writes all bytes to a file descriptor: waits where it does not block, and continues after a partial write.

    Args:
        descriptor: The open file descriptor; it is not closed.
        is_result: Whether an error is raised. Messages that cannot be shown are dropped.
    """

    def __init__(self, descriptor: int, *, is_result: bool) -> None:
        self._descriptor = descriptor
        self._is_result = is_result

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self._descriptor

    def isatty(self) -> bool:
        """Return whether it is a terminal."""
        return os.isatty(self._descriptor)

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write all bytes, and return how many there are.

        Raises:
            OSError: A result cannot be written.
        """
        rest = memoryview(data).cast("B")
        length = len(rest)
        while len(rest):
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:
                select.select([], [self._descriptor], [])
            except OSError:
                if self._is_result:
                    raise
                break
        return length


def complete(stream: TextIO, *, is_result: bool) -> TextIO:
    """Return a text stream to the same file, which writes everything; the given one if it has no file."""
    try:
        writer = CompleteWriter(stream.fileno(), is_result=is_result)
    except (OSError, ValueError):
        return stream
    errors = "backslashreplace" if stream.errors == "strict" else stream.errors
    buffered = io.BufferedWriter(writer)
    return io.TextIOWrapper(buffered, stream.encoding, errors, line_buffering=stream.isatty() or not is_result)


def discard_stdout() -> None:
    """Discard what stdout still buffers; Python would try to write it at exit and report the error again."""
    with suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def encodable(text: str, encoding: str) -> str:
    """Return a text in which characters that an encoding lacks are escapes, as in JSON."""

    def shown(part: str) -> str:
        try:
            part.encode(encoding)
        except UnicodeEncodeError:
            return json.dumps(part)[1:-1] if len(part) == 1 else "".join(map(shown, part))
        return part

    return shown(text)
