"""The CPU quota of a process: how many cores its control group may use, and how often it was used up.

Source: Documentation/admin-guide/cgroup-v2.rst (cpu.max, cpu.stat) and Documentation/scheduler/sched-bwc.rst of Linux.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
MOUNTS = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Quota:
    """A limit on CPU time.

    Attributes:
        cores: CPU time that may be used per elapsed time, as a number of cores.
        stat: The file that counts how often and how long the limit stopped threads.
    """

    cores: float
    stat: Path

    def throttled(self) -> tuple[int, int] | None:
        """Return how often all CPU time of a period was used up, and how long threads were stopped for it, in ns."""
        try:
            fields = dict(line.split() for line in self.stat.read_text(encoding="ascii").splitlines())
            length = fields.get("throttled_usec")
            total_ns = int(length) * 1000 if length is not None else int(fields["throttled_time"])
            return int(fields["nr_throttled"]), total_ns
        except (OSError, ValueError, KeyError):
            return None


def find_quota(process: int, proc: Path = PROC, mounts: Path = MOUNTS) -> Quota | None:
    """Return the tightest quota of a process's control group and the groups above it; None where there is none."""
    found = [
        quota for folder in group_folders(process, "cpu", proc, mounts) if (quota := _quota_of(folder)) is not None
    ]
    return min(found, key=lambda quota: quota.cores, default=None)


def group_folders(process: int, controller: str, proc: Path = PROC, mounts: Path = MOUNTS) -> Iterator[Path]:
    """Yield the folders of a process's control group, and of all groups above it.

    The controller is what the group limits, such as "cpu" or "memory".
    """
    try:
        lines = (proc / str(process) / "cgroup").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0":
            roots = [root for root in (mounts, mounts / "unified") if (root / "cgroup.controllers").exists()]
        elif controller in controllers.split(","):
            roots = [root for root in (mounts / controllers, mounts / "cpu") if root.is_dir()]
        else:
            continue
        for root in roots[:1]:
            own = root / path.strip("/")
            yield root
            while own != root and root in own.parents:
                yield own
                own = own.parent


def _quota_of(folder: Path) -> Quota | None:
    """Return the quota of one control group, of version 2 or 1."""
    with suppress(OSError, ValueError):
        limit, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        return None if limit == "max" else Quota(int(limit) / int(period), folder / "cpu.stat")
    with suppress(OSError, ValueError):
        limit, period = ((folder / f"cpu.cfs_{name}_us").read_text(encoding="ascii") for name in ("quota", "period"))
        return Quota(int(limit) / int(period), folder / "cpu.stat") if int(limit) > 0 else None
    return None
