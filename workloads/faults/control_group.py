"""A control group that limits the CPU time of this process and of those that it starts, as a container does."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MOUNTS = Path("/sys/fs/cgroup")
PERIOD_US = 100_000
NAME = "nsyswrap-fault"
# A profiler may look for the quota once a second.
SEEN_S = 1.5
NOT_POSSIBLE = "this fault needs root and a control group for CPU time, which cannot be made here"


@contextmanager
def limited(cores: float) -> Iterator[None]:
    """Limit this process and those that it starts to the time of so many cores, as long as the block lasts.

    Raises:
        SystemExit: No control group can be made here.
    """
    outer, files = _own_group(cores)
    group = outer / f"{NAME}-{os.getpid()}"
    try:
        group.mkdir()
        for name, text in files.items():
            (group / name).write_text(text)
        (group / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as error:
        raise SystemExit(f"{NOT_POSSIBLE}: {error}") from error
    try:
        time.sleep(SEEN_S)
        yield
    finally:
        (outer / "cgroup.procs").write_text(str(os.getpid()))
        group.rmdir()


def _own_group(cores: float) -> tuple[Path, dict[str, str]]:
    """Return the control group of this process, and what to write into one below it for a limit."""
    groups: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        groups |= dict.fromkeys(controllers.split(","), path.strip("/"))
    quota = round(cores * PERIOD_US)
    if "cpu" in groups:
        return MOUNTS / "cpu" / groups["cpu"], {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": str(quota)}
    # In version 2 all controllers share one group.
    return MOUNTS / groups.get("", ""), {"cpu.max": f"{quota} {PERIOD_US}"}
