"""The results of captures as small files: a second call reads those, and analyzes only what is missing.

A result is found by what it was made from: the bytes of the capture and of what lies beside it, the options, and the
source of nsyswrap. So it is never out of date, and a capture that was moved or renamed keeps its result.
"""

import hashlib
import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib import resources
from pathlib import Path

from nsyswrap.base.errors import ExportError
from nsyswrap.many.capture_sums import CaptureSums, decoded

# What `profile` writes beside a capture, and its analysis reads.
BESIDE = ("run.json", "host.json")


@cache
def source_digest() -> str:
    """Return a text that changes with the source of nsyswrap."""
    digest = hashlib.sha256()
    with resources.as_file(resources.files("nsyswrap")) as folder:
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{path.relative_to(folder)}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def content_key(path: Path, options: str, host_from: Path | None = None) -> str:
    """Return the key of a capture's result.

    Args:
        path: The capture.
        options: How it is read, as text.
        host_from: A file that only its host is read from; it counts by its size and time.
    """
    digest = hashlib.sha256(f"{source_digest()}\0{path.suffix}\0{options}\0".encode())
    for each in (path, *(path.parent / name for name in BESIDE)):
        if each is path or each.is_file():
            with each.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        digest.update(b"\0")
    if host_from is not None:
        with suppress(OSError):
            status = host_from.stat()
            digest.update(f"{status.st_size} {status.st_mtime_ns}".encode())
    return digest.hexdigest()


class KeptResults:
    """Results in a folder, by key."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, key: str) -> CaptureSums | None:
        """Return the sums with this key; None where there are none, or where they are damaged."""
        with suppress(OSError, UnicodeDecodeError, ExportError):
            sums = decoded(self._path(key).read_text(encoding="utf-8"))
            return None if isinstance(sums, str) else sums
        return None

    def has(self, keys: Iterable[str]) -> frozenset[str]:
        """Return the keys that have sums."""
        return frozenset(key for key in keys if self.find(key) is not None)

    def keep(self, key: str, text: str) -> None:
        """Keep a result, in one step."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = path.with_name(f".{key[:16]}-{secrets.token_hex(8)}")
        try:
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(text)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        # Folders of more than some thousand files are slow on some network disks.
        return self._folder / key[:2] / f"{key}.json"
