"""The folder beside a capture in which its reports are kept: private, bounded, and never in the way.

A file that cannot be read or written, or that is not whole, not ours or not private, counts as none. Files appear
whole, by a rename, so that two programs can write at once.
"""

import hashlib
import json
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

FOLDER = ".nsyswrap-cache"
SUFFIX = ".report"
MAGIC = b"nsyswrap kept report 1\n"
# Neither git nor programs that make backups take the folder along. Source: bford.info/cachedir.
MARKERS = {
    ".gitignore": "*\n",
    "CACHEDIR.TAG": "Signature: 8a477f597d28d172789f06886806bc55\n# Reports that nsyswrap can make again.\n",
}
# Of one folder. Source: ours; a capture of 16 million events takes 40 MB.
MOST_FILES, MOST_BYTES = 32, 1 << 30
# A kept report takes at most this share of its capture, or these bytes, and of the free space on its disk.
MOST_OF_CAPTURE, ALWAYS_BYTES, MOST_OF_FREE = 0.5, 16 << 20, 0.25
# A file that a killed program was writing is removed after this time.
_ABANDONED_S = 3600.0
# The description of a kept report is shorter.
_HEAD_BYTES = 4096
_DIGEST_BYTES = hashlib.sha256().digest_size
# Only the owner may read or write a file, and write to the folder.
_OTHERS, _OTHERS_WRITE = 0o077, 0o022


class Kept(NamedTuple):
    """A kept report.

    Attributes:
        made_from: What it was made from, see ``source.fingerprint``.
        salt: What ``words`` was made with.
        words: The words that it must not hold, see ``source.words_digest``.
        has_timeline: Whether it was made with the timeline of the page.
    """

    made_from: str
    salt: str
    words: str
    has_timeline: bool


def find(capture: Path, options: str) -> tuple[Kept, memoryview] | None:
    """Return the report that is kept for a capture and options, as bytes; None where there is none.

    Args:
        capture: The capture.
        options: How it is read, as text.
    """
    with suppress(OSError, ValueError):
        path = _path(capture, options)
        if _is_ours(path.parent):
            return _whole(_content(path))
    return None


def keep(capture: Path, options: str, kept: Kept, report: bytes) -> bool:
    """Keep a report; return whether there was room for it and it could be written.

    Args:
        capture: The capture.
        options: How it is read, as text.
        kept: What describes it.
        report: The report as bytes.
    """
    path = _path(capture, options)
    head = json.dumps(kept._asdict()).encode() + b"\n"
    digest = hashlib.sha256(head)
    digest.update(report)
    size = len(MAGIC) + _DIGEST_BYTES + len(head) + len(report)
    try:
        if size > max(capture.stat().st_size * MOST_OF_CAPTURE, ALWAYS_BYTES) or not _made(path.parent, size):
            return False
        temporary = path.with_name(f".{secrets.token_hex(8)}")
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
                file.writelines((MAGIC, digest.digest(), head, report))
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        _remove_oldest(path)
    except OSError:
        return False
    return True


def forget(capture: Path) -> None:
    """Remove the reports that are kept for a file of this name."""
    with suppress(OSError):
        if _is_ours(capture.parent / FOLDER):
            for path in (capture.parent / FOLDER).glob(f"{_name(capture)}-*{SUFFIX}"):
                path.unlink(missing_ok=True)


def forget_all(folder: Path) -> None:
    """Remove what is kept for all captures of a folder."""
    with suppress(OSError):
        if _is_ours(folder / FOLDER):
            shutil.rmtree(folder / FOLDER)


def _path(capture: Path, options: str) -> Path:
    place = hashlib.sha256(options.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return capture.parent / FOLDER / f"{_name(capture)}-{place}{SUFFIX}"


def _name(capture: Path) -> str:
    """Return a name for a capture: its own may be too long, or hold anything."""
    return hashlib.sha256(os.fsencode(capture.name)).hexdigest()[:16]


def _is_ours(folder: Path) -> bool:
    """Return whether a folder is one, no link to one, and only its owner, this user, can write to it."""
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_WRITE


def _content(path: Path) -> memoryview:
    """Return the content of a private file of this user.

    Raises:
        OSError: It cannot be read.
        ValueError: It is no such file.
    """
    # A pipe in its place must not block.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        status = os.fstat(file.fileno())
        is_private = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & _OTHERS
        if not is_private or status.st_size > MOST_BYTES:
            raise ValueError("not a private file of this user")
        return memoryview(file.read())


def _whole(content: memoryview) -> tuple[Kept, memoryview]:
    """Return what is kept in the content of a file.

    Raises:
        ValueError: It is no kept report, or not a whole one.
    """
    digest, rest = content[len(MAGIC) :][:_DIGEST_BYTES], content[len(MAGIC) + _DIGEST_BYTES :]
    if content[: len(MAGIC)] != MAGIC or hashlib.sha256(rest).digest() != digest:
        raise ValueError("not a whole report")
    end = bytes(rest[:_HEAD_BYTES]).index(b"\n")
    head = json.loads(bytes(rest[:end]))
    if not isinstance(head, dict) or head.keys() != set(Kept._fields):
        raise ValueError("another form")
    return Kept(**head), rest[end + 1 :]


def _made(folder: Path, size: int) -> bool:
    """Make the folder where it is missing; return whether it is ours and there is room for a file of this size."""
    if size > shutil.disk_usage(folder.parent).free * MOST_OF_FREE:
        return False
    folder.mkdir(mode=0o700, exist_ok=True)
    if not _is_ours(folder):
        return False
    for name, text in MARKERS.items():
        with suppress(FileExistsError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(folder / name, flags, 0o600), "w") as file:
                file.write(text)
    return True


def _remove_oldest(newest: Path) -> None:
    """Remove the reports beyond the largest number and size of a folder, and what killed programs left."""
    size = 0
    for number, (_, path, bytes_) in enumerate(sorted(_listed(newest.parent), reverse=True)):
        size += bytes_
        if path != newest and (number >= MOST_FILES or size > MOST_BYTES):
            path.unlink(missing_ok=True)


def _listed(folder: Path) -> Iterator[tuple[float, Path, int]]:
    """Yield when each report was kept, its file, and its size; remove what killed programs left."""
    for path in folder.iterdir():
        with suppress(OSError):
            status = path.lstat()
            if path.suffix == SUFFIX:
                yield status.st_mtime, path, status.st_size
            elif path.name not in MARKERS and time.time() - status.st_mtime > _ABANDONED_S:
                path.unlink()
