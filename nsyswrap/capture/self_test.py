"""The self-test: record one NVTX range and look for it in the export.

A list of versions could not replace it: with nsys 2023.4.4, ranges of the package nvtx 0.2.14 are silently missing from
the capture, and those of 0.2.10 are recorded.
"""

import importlib.metadata
import sqlite3
import sys
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from nsyswrap.base.errors import NsyswrapError
from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.nsys import profile
from nsyswrap.capture.options import CaptureOptions
from nsyswrap.capture.run_dir import private_folder

RANGE = "nsyswrap self-test"

_WITH_RANGE = f"import nvtx\nwith nvtx.annotate({RANGE!r}): pass"
_WITHOUT_RANGE = "pass"


class Status(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Check:
    """One check of the machine, with its result.

    Args:
        name: What was checked.
        status: Whether it works.
        detail: What was found.
        remedy: How to fix it; empty if nothing needs to be done.
    """

    name: str
    status: Status
    detail: str
    remedy: str = ""


def self_test(nsys: Nsys) -> Check:
    """Record a program with one NVTX range, export the capture, and look for the range.

    Returns:
        The check: failed if there is no report, no export, or no range in it; a warning if the Python package nvtx is
        not installed, so that no range could be sent.
    """
    version = nvtx_version()
    program = _WITH_RANGE if version else _WITHOUT_RANGE
    try:
        with private_folder() as folder:
            options = CaptureOptions(
                command=(sys.executable, "-c", program),
                folder=folder / "self-test",
                traces=("nvtx",),
                output_to_stderr=True,
            )
            recorded = holds_range(profile(options, nsys).export, RANGE)
    except NsyswrapError as error:
        return Check("self-test", Status.FAILED, error.message, error.hint)
    if not version:
        return Check(
            "self-test",
            Status.WARNING,
            "a program was recorded and exported; no NVTX range was sent, because the package nvtx is not installed",
            "Install it for the Python that runs nsyswrap: pip install 'nvtx==0.2.10'",
        )
    if not recorded:
        return Check(
            "self-test",
            Status.FAILED,
            f"nsys {nsys.version_text} does not record the ranges of the Python package nvtx {version}",
            "Install the version that works with it: pip install 'nvtx==0.2.10'",
        )
    return Check("self-test", Status.OK, f"a range of nvtx {version} was recorded, exported and found")


def holds_range(export: Path, text: str) -> bool:
    """Return whether an export holds an NVTX range with this text."""
    query = """
        SELECT count(*) FROM NVTX_EVENTS AS event LEFT JOIN StringIds AS string ON string.id = event.textId
        WHERE coalesce(string.value, event.text) = ?
    """
    with closing(sqlite3.connect(f"{export.absolute().as_uri()}?mode=ro", uri=True)) as database:
        try:
            return bool(database.execute(query, (text,)).fetchone()[0])
        except sqlite3.OperationalError:
            return False


def nvtx_version() -> str:
    """Return the version of the Python package nvtx for this Python; empty if it is not installed."""
    try:
        return importlib.metadata.version("nvtx")
    except importlib.metadata.PackageNotFoundError:
        return ""
