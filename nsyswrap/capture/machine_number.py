"""A number of this machine that names neither the host nor its owner."""

from pathlib import Path

from nsyswrap.base.privacy import neutral_host

MACHINE_ID = Path("/etc/machine-id")


def machine_number(path: Path = MACHINE_ID) -> str:
    """Return the number of this machine, the same for each run; empty where it has no id, as in containers."""
    try:
        identity = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
    if len(identity) != 32 or not identity.isalnum():  # noqa: PLR2004 - as machine-id(5) has it
        return ""
    return neutral_host(identity)
