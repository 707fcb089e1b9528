"""The report of a capture: a kept one where there is one, else a new one, which is kept once the command has ended."""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from nsyswrap.privacy import HOMES, identity_from
from nsyswrap.report_cache import files
from nsyswrap.report_cache.source import fingerprint, words_digest

if TYPE_CHECKING:
    from collections.abc import Callable

    from nsyswrap.model import Report

SALT_BYTES = 16


class Wanted(NamedTuple):
    """A report that is wanted.

    Attributes:
        capture: The capture.
        options: How it is read, as text.
        read_too: Files that the report depends on, besides those beside the capture.
        with_timeline: Whether the report has the timeline of the page.
    """

    capture: Path
    options: str
    read_too: tuple[Path, ...]
    with_timeline: bool

    def made_from(self) -> str:
        """Return what the report is made from, as text; empty where the capture cannot be read."""
        with suppress(OSError):
            return fingerprint(self.capture, self.options, self.read_too)
        return ""


def kept_or_made(wanted: Wanted, make: "Callable[[], Report]") -> "Report":
    """Return the kept report of a capture, or make and keep one.

    Raises:
        NsyswrapError: As ``make``.
    """
    return _kept(wanted) or made_and_kept(wanted, make)


def made_and_kept(wanted: Wanted, make: "Callable[[], Report]") -> "Report":
    """Make the report of a capture, and keep it when the command ends: the user gets the result first.

    Raises:
        NsyswrapError: As ``make``.
    """
    before = wanted.made_from()
    report = make()
    context = click.get_current_context(silent=True)
    if before and context is not None:
        context.call_on_close(lambda: _keep(report, wanted, before))
    return report


def _kept(wanted: Wanted) -> "Report | None":
    """Return the kept report; None where there is none, or it was made from anything else or may hold more texts."""
    found = files.find(wanted.capture, wanted.options)
    if found is None:
        return None
    kept, data = found
    if kept.made_from != wanted.made_from() or (wanted.with_timeline and not kept.has_timeline):
        return None
    if kept.words != _words(bytes.fromhex(kept.salt)):
        return None
    from nsyswrap.report_cache.encoding import CannotKeepError, decode  # noqa: PLC0415 - loads pandas

    with suppress(CannotKeepError):
        return decode(data, with_timeline=wanted.with_timeline)
    return None


def _keep(report: "Report", wanted: Wanted, made_from: str) -> None:
    """Keep a report; do nothing where the capture has changed since, because the report may show only a part of it."""
    if wanted.made_from() != made_from:
        return
    from nsyswrap.report_cache.encoding import CannotKeepError, encode  # noqa: PLC0415 - loads pandas

    salt = secrets.token_bytes(SALT_BYTES)
    with suppress(CannotKeepError):
        kept = files.Kept(made_from, salt.hex(), _words(salt), wanted.with_timeline)
        files.keep(wanted.capture, wanted.options, kept, encode(report))


def _words(salt: bytes) -> str:
    """Return the digest of the words of this user that a report must not hold."""
    return words_digest(identity_from(os.environ.items(), kept=HOMES), salt)
