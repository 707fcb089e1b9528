"""Measurements of a machine that are made once, and kept in the user's cache folder while their conditions hold.

A file holds one measurement. Its name follows from all that the measurement depends on, such as versions.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nsyswrap.base.user_folder import user_folder

DRIVER = Path("/proc/driver/nvidia/version")


def kept_at(kind: str, conditions: Mapping[str, Any]) -> Path:
    """Return the file that keeps a measurement."""
    base = user_folder(os.environ, "XDG_CACHE_HOME", ".cache")
    text = json.dumps(conditions, sort_keys=True)
    return base / "nsyswrap" / kind / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def kept(path: Path) -> dict[str, Any]:
    """Return the measurement in a file; empty where there is none, or where it cannot be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def keep(path: Path, measured: Mapping[str, Any]) -> None:
    """Write a measurement to a file for this user only; nothing is kept if the folder cannot be written."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.touch(mode=0o600)
        fresh.write_text(json.dumps(measured, sort_keys=True), encoding="utf-8")
        fresh.replace(path)
    except OSError:
        return


def driver_version() -> str:
    """Return the version of the NVIDIA driver; empty where there is none."""
    try:
        words = DRIVER.read_text(encoding="ascii", errors="replace").split()
    except OSError:
        return ""
    return next((word for word in words if word[:1].isdigit()), "")
