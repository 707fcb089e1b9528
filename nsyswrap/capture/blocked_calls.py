"""What a thread reads from or writes to while its call waits: a file, a pipe, a socket or a terminal.

The kernel shows the call of a thread that waits, with the descriptor; the descriptor's link says what it is. nsys
records the name of a call alone. Only the kind is kept, no path. Source: proc(5), ``syscall`` and ``fd``.
"""

import os
import platform

PIPE, SOCKET, TERMINAL, FILE = "pipe", "socket", "terminal", "file"
_LINKS = (
    ("pipe:", PIPE),
    ("socket:", SOCKET),
    ("/dev/pts/", TERMINAL),
    ("/dev/tty", TERMINAL),
    ("/dev/console", TERMINAL),
)
# Numbers of read, write, readv and writev. Source: syscall_64.tbl and unistd.h of Linux.
_NUMBERS = {"x86_64": {0, 1, 19, 20}, "aarch64": {63, 64, 65, 66}}.get(platform.machine(), set())


def what_blocks(process: int, thread: int) -> str | None:
    """Return what a thread reads from or writes to; None where it does neither, or where the kernel does not say."""
    try:
        with open(f"/proc/{process}/task/{thread}/syscall", encoding="ascii") as file:  # noqa: PTH123 - many times
            words = file.read().split()
        if len(words) < 2 or not words[0].isdecimal() or int(words[0]) not in _NUMBERS:  # noqa: PLR2004 - a descriptor
            return None
        link = os.readlink(f"/proc/{process}/fd/{int(words[1], 16)}")  # noqa: PTH115 - not followed
    except (OSError, ValueError):
        return None
    return next((kind for prefix, kind in _LINKS if link.startswith(prefix)), FILE)
