"""A number of this machine that names neither the host nor its owner."""

import hashlib
import hmac
from pathlib import Path

MACHINE_ID = Path("/etc/machine-id")
_DIGITS = 12


def machine_number(path: Path = MACHINE_ID) -> str:
    """Return the same 12 hexadecimal digits for each run on this machine; empty where it has no id, as in containers.

    The id of the machine cannot be found from them, as machine-id(5) asks of programs that store it.
    Source: https://www.freedesktop.org/software/systemd/man/latest/machine-id.html
    """
    try:
        identity = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
    if len(identity) != 32 or not identity.isalnum():  # noqa: PLR2004 - as machine-id(5) has it
        return ""
    return hmac.new(bytes(identity, "ascii"), b"nsyswrap", hashlib.sha256).hexdigest()[:_DIGITS]
