"""What a report is made from, as a short text: it changes whenever the report could change."""

import hashlib
import os
from collections.abc import Iterable
from functools import cache
from importlib import resources
from pathlib import Path

from nsyswrap.privacy import Identity

# What `profile` writes beside a capture, and its analysis reads.
BESIDE = ("run.json", "host.json")
# SQLite writes into these first; what they hold is not in the export yet.
_UNFINISHED = ("-journal", "-wal")
# Of the capture itself, this many blocks are read, evenly spread. Source: ours; 1 MB takes about a millisecond.
_BLOCKS, _BLOCK_BYTES = 64, 16_384
# Guessing the words that a report must not hold costs this many hashes a guess. Source: ours; 20 ms.
_ROUNDS = 30_000


@cache
def source_digest() -> str:
    """Return a text that changes with the source of nsyswrap."""
    found = hashlib.sha256()
    with resources.as_file(resources.files("nsyswrap")) as folder:
        for path in sorted(folder.rglob("*.py")):
            found.update(f"{path.relative_to(folder)}\0".encode())
            found.update(path.read_bytes())
    return found.hexdigest()


def fingerprint(capture: Path, options: str, read_too: Iterable[Path] = ()) -> str:
    """Return a text that changes with the capture, the options, and the source of nsyswrap.

    A capture counts by its name, its size, its inode, the times of its last change, and a sample of its content, since
    reading all of it takes long. The time of the last change of the inode cannot be set, so a capture that was copied,
    restored or edited has another one.

    Args:
        capture: The file.
        options: How it is read, as text.
        read_too: Further files that the report depends on; they count by their content, and so do missing ones.

    Raises:
        OSError: The capture cannot be read, or is being written.
    """
    for suffix in _UNFINISHED:
        if os.path.lexists(f"{capture}{suffix}"):
            raise OSError(f"{capture.name} is being written")
    found = hashlib.sha256(f"{source_digest()}\0{options}\0".encode("utf-8", "surrogateescape"))
    found.update(os.fsencode(capture.name))
    if not capture.is_file():
        raise OSError(f"{capture.name} is not a file")
    with capture.open("rb") as file:
        status = os.fstat(file.fileno())
        numbers = (status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
        found.update(repr(numbers).encode())
        for block in range(_BLOCKS):
            file.seek(block * max(status.st_size - _BLOCK_BYTES, 0) // (_BLOCKS - 1))
            found.update(file.read(_BLOCK_BYTES))
    for path in (*(capture.parent / name for name in BESIDE), *read_too):
        found.update(_digest(path))
    return found.hexdigest()


def _digest(path: Path) -> bytes:
    """Return the digest of a file's content; of what is no file or cannot be read, one that no content has."""
    try:
        if path.is_file():
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").digest()
    except OSError:
        pass
    return b"\0"


def words_digest(identity: Identity, salt: bytes) -> str:
    """Return a text that changes with the words that a report must not hold, and is slow to guess them from.

    Args:
        identity: The words.
        salt: Random bytes, kept beside the result.
    """
    words = repr((identity.folders, identity.names, identity.secrets)).encode("utf-8", "surrogateescape")
    return hashlib.pbkdf2_hmac("sha256", words, salt, _ROUNDS).hex()
