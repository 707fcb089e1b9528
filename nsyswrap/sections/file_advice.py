"""Advice on calls that read or write files: by the call that takes most of the time.

The capture has the names of calls and not their arguments. ``fsync`` and ``pwrite`` are about files; ``write`` may also
be about a terminal or a pipe, where it waits until somebody reads.
"""

import re
from collections.abc import Mapping

RULE = "idle/file_io"

# Calls of the C library that work on files, pipes, terminals and sockets alike. Source: POSIX; `pread` and `pwrite`
# fail on what has no position, so they are about files.
_SUFFIX = r"(?:64)?(?:_unlocked)?"
_WRITES = re.compile(r"(?:writev?|f(?:write|puts|putc|printf|flush|close)|vfprintf|putc|putw)" + _SUFFIX)
_READS = re.compile(r"(?:readv?|f(?:read|gets|getc)|getc|getline|getdelim)" + _SUFFIX)
_SYNCS = re.compile(r"f(?:data)?sync|syncfs?|sync_file_range|msync")

HEADLINE_OF_STREAMS = (
    "The GPU is idle for {share} of the time while the launching thread reads or writes a file, a pipe or a terminal."
)
WRITES = (
    "The capture does not show what {call} writes to. A terminal or a pipe makes it wait for its reader: print less "
    "often (a progress bar, too), or send the output to a file. If it writes a file, write less often or in another "
    "thread or process, or use a faster disk."
)
READS = (
    "The capture does not show what {call} reads from. A pipe, a socket or a terminal makes it wait for the other "
    "side: read in another thread, before the step needs the answer. If it reads a file, read it in another thread or "
    "process, keep it in memory, or use a faster disk."
)
SYNCS = "{call} waits until the disk has written: call it less often or in another thread, or use a faster disk."


def file_advice(time_of_call: Mapping[str, int]) -> str:
    """Return advice that fits the call with most of the time; empty where its name says nothing more.

    Args:
        time_of_call: Time in each call by name, in ns.
    """
    call = _longest(time_of_call)
    for pattern, text in ((_WRITES, WRITES), (_READS, READS), (_SYNCS, SYNCS)):
        if pattern.fullmatch(call):
            return text.format(call=call)
    return ""


def may_be_stream(time_of_call: Mapping[str, int]) -> bool:
    """Return whether the call with most of the time may work on a pipe, a socket or a terminal."""
    call = _longest(time_of_call)
    return bool(_WRITES.fullmatch(call) or _READS.fullmatch(call))


def _longest(time_of_call: Mapping[str, int]) -> str:
    """Return the call with most of the time, the first by name where several have it; empty of none."""
    return min(time_of_call, key=lambda call: (-time_of_call[call], call), default="")
