"""Memory: how much is free for this process and its children, and how much the analysis of a capture takes."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from nsyswrap.capture.cpu_quota import MOUNTS, PROC, group_folders

# What a process holds before it reads anything, and what the analysis adds for each byte of its file. Source: measured.
# A process holds 119 MB. An export of 8 MB takes 67 MB more, one of 725 MB 1.9 to 2.1 GB; a
# report.json of 3 MB takes 15 MB. Exports of the captures in reports/gallery are 2.3 to 2.5 times as large as these.
BASE_BYTES = 300_000_000
PER_BYTE: Mapping[str, int] = MappingProxyType({".sqlite": 3, ".nsys-rep": 9, ".qdrep": 9, ".json": 6})
# What is left to all other programs.
LEFT_SHARE = 0.2


def needed_bytes(path: Path) -> int:
    """Return an upper bound of the memory that the analysis of a capture takes."""
    try:
        size = path.stat().st_size
    except OSError:
        size = 0
    return BASE_BYTES + size * PER_BYTE.get(path.suffix, PER_BYTE[".sqlite"])


def free_bytes(proc: Path = PROC, mounts: Path = MOUNTS) -> int:
    """Return the memory that this process and its children may take: of the machine, and of its control groups.

    Source:
        proc_meminfo(5), MemAvailable; Documentation/admin-guide/cgroup-v2.rst of Linux, memory.max.
    """
    limits = [_available(proc), *(_left(each) for each in group_folders(os.getpid(), "memory", proc, mounts))]
    known = [each for each in limits if each is not None]
    return int(min(known, default=BASE_BYTES) * (1 - LEFT_SHARE))


def _available(proc: Path) -> int | None:
    with suppress(OSError, ValueError):
        for line in (proc / "meminfo").read_text(encoding="ascii").splitlines():
            name, _, amount = line.partition(":")
            if name == "MemAvailable":
                return int(amount.split()[0]) * 1024
    return None


def _left(group: Path) -> int | None:
    """Return what a control group may still take, without its file cache; None where it has no limit."""
    for limit, used, cache in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        with suppress(OSError, ValueError):
            most = (group / limit).read_text(encoding="ascii").strip()
            if most == "max":
                return None
            lines = (group / "memory.stat").read_text(encoding="ascii").splitlines()
            kept = dict(line.split() for line in lines).get(cache, "0")
            return max(int(most) - int((group / used).read_text(encoding="ascii")) + int(kept), 0)
    return None
