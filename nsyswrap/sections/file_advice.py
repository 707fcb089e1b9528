"""Advice on calls that read or write files: by the call that takes most of the time.

The capture has the names of calls and not their arguments. ``fsync`` and ``pwrite`` are about files; ``write`` may also
be about a terminal or a pipe, where it waits until somebody reads.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from nsyswrap.rules.idle import READS, SYNCS, WRITES
from nsyswrap.rules.rule import Advice

# Calls of the C library that work on files, pipes, terminals and sockets alike. Source: POSIX; `pread` and `pwrite`
# fail on what has no position, so they are about files.
_SUFFIX = r"(?:64)?(?:_unlocked)?"
_WRITES = re.compile(r"(?:writev?|f(?:write|puts|putc|printf|flush|close)|vfprintf|putc|putw)" + _SUFFIX)
_READS = re.compile(r"(?:readv?|f(?:read|gets|getc)|getc|getline|getdelim)" + _SUFFIX)
_SYNCS = re.compile(r"f(?:data)?sync|syncfs?|sync_file_range|msync")


def file_advice(time_of_call: Mapping[str, int]) -> Advice | None:
    """Return advice that fits the call with most of the time; None where its name says nothing more."""
    # The first by name where several have most of the time.
    call = min(time_of_call, key=lambda call: (-time_of_call[call], call), default="")
    for pattern, case in ((_WRITES, WRITES), (_READS, READS), (_SYNCS, SYNCS)):
        if pattern.fullmatch(call):
            return replace(case, advice=case.advice.format(call=call))
    return None
