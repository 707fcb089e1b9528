"""What the processes below this one use: the workers of data loaders."""

import os
import time
from collections.abc import Iterator

_KIB = 1024


def _children() -> Iterator[str]:
    """Yield the ids of the processes that this one has started."""
    own = os.getpid()
    for task in os.listdir(f"/proc/{own}/task"):  # noqa: PTH208
        try:
            with open(f"/proc/{own}/task/{task}/children", encoding="ascii") as file:  # noqa: PTH123
                yield from file.read().split()
        except OSError:  # it has ended
            continue


def used_cpu_s() -> float:
    """Return the CPU time of this process and of those that it has started so far, in s."""
    used, ticks = time.process_time(), os.sysconf("SC_CLK_TCK")
    for each in _children():
        try:
            with open(f"/proc/{each}/stat", encoding="utf-8") as file:  # noqa: PTH123
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        used += (int(fields[11]) + int(fields[12])) / ticks  # utime and stime, see man proc
    return used


def worker_bytes() -> int:
    """Return the memory of the processes that this one has started; what they share counts in parts."""
    whole = 0
    for each in _children():
        try:
            with open(f"/proc/{each}/smaps_rollup", encoding="ascii") as file:  # noqa: PTH123
                whole += sum(int(line.split()[1]) * _KIB for line in file if line.startswith("Pss:"))
        except OSError:
            continue
    return whole
