"""What identifies this machine without naming the host or its owner."""

import os
import re
from pathlib import Path

from nsyswrap.base.privacy import neutral_host

MACHINE_ID = Path("/etc/machine-id")
PROC = Path("/proc")


def machine_number(path: Path = MACHINE_ID) -> str:
    """Return the number of this machine, the same for each run; empty where it has no id, as in containers."""
    try:
        identity = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
    if len(identity) != 32 or not identity.isalnum():  # noqa: PLR2004 - as machine-id(5) has it
        return ""
    return neutral_host(identity)


def machine_kind(proc: Path = PROC) -> str:
    """Return processor, cores and memory: equal for machines that are built alike, and in each container on them.

    Runs of a program on machines of one kind can be compared; the id of a machine changes with each container.
    """
    try:
        cpu = re.search(r"^model name\s*:\s*(.+)$", (proc / "cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
        memory = re.search(r"^MemTotal:\s*(\d+) kB$", (proc / "meminfo").read_text(encoding="utf-8"), re.MULTILINE)
    except (OSError, UnicodeDecodeError):
        return ""
    model = " ".join(cpu[1].split()) if cpu else "unknown processor"
    size = f", {round(int(memory[1]) / 2**20)} GiB" if memory else ""
    return f"{model}, {os.cpu_count()} cores{size}"
