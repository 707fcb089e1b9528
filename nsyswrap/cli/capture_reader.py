"""Reads one capture of many to its sums, in any process: it returns a text, also where the capture is broken."""

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nsyswrap.base.errors import ExportError, NsyswrapError
from nsyswrap.base.privacy import neutral
from nsyswrap.cli.inputs import CAPTURE_NAMES, ReadOptions, context_of_export, is_report, report_from, sqlite_export
from nsyswrap.cli.recording import REPORT_NAME, record_beside

if TYPE_CHECKING:
    from nsyswrap.many.capture_sums import CaptureSums

# More than any capture takes.
_ANY_BYTES = 1 << 60
# As `machine_number` makes it.
_NUMBER = re.compile(r"[0-9a-f]{12}")


class CaptureTask(NamedTuple):
    """A capture to read.

    Attributes:
        path: A ``.sqlite``, a ``.nsys-rep`` or a ``report.json``; absolute, since a worker has another working folder.
        host_from: The export beside a report.json, which names the host; None where there is none.
    """

    path: Path
    host_from: Path | None
    options: ReadOptions


def reader() -> Callable[[CaptureTask], str]:
    """Return the function that reads a capture, for a process of its own."""
    return read_capture


def read_capture(task: CaptureTask) -> str:
    """Return the sums of a capture as JSON, or the reason why it has none."""
    from nsyswrap.many.capture_sums import encoded, failed  # noqa: PLC0415 - heavy; loaded when a capture is read

    try:
        return encoded(_sums(task))
    except NsyswrapError as error:
        return failed(_impersonal(error.message, task.path))
    except MemoryError:
        return failed("there is not enough memory to analyze it")
    except Exception as error:  # noqa: BLE001 - one capture must not end the others; `analyze` shows the traceback
        return failed(f"a fault of nsyswrap ({type(error).__name__}): 'nsyswrap analyze' on this file shows where")


def _sums(task: CaptureTask) -> "CaptureSums":
    from nsyswrap.many.capture_sums import sums_of  # noqa: PLC0415 - as above
    from nsyswrap.trace.identity import read_host  # noqa: PLC0415

    if is_report(task.path):
        host = _recorded_host(task.path)
        if not host and task.host_from is not None:
            with suppress(ExportError):
                host = read_host(task.host_from)
        return sums_of(report_from(task.path, task.options), host)
    from nsyswrap.report import report_of  # noqa: PLC0415 - heavy; loaded when a capture is read

    # Sums are of whole captures. Not what is free now counts: other processes read at the same time.
    options = task.options._replace(memory=task.options.memory or _ANY_BYTES)
    with sqlite_export(task.path, quiet=True) as export:
        context = context_of_export(export, task.path, options, quiet=True)
        if context.trace.excerpt is not None:
            raise ExportError(context.trace.excerpt.reason, hint="allow more with --memory")
        host = _recorded_host(task.path) or read_host(export)
    return sums_of(report_of(context, task.options.window), host)


def _recorded_host(path: Path) -> str:
    """Return the number of the machine that `profile` wrote beside its result, as the history has it; empty if none."""
    if path.name not in {REPORT_NAME, *CAPTURE_NAMES}:
        return ""
    host = record_beside(path.parent).get("host")
    return host if isinstance(host, str) and _NUMBER.fullmatch(host) else ""


def _impersonal(message: str, path: Path) -> str:
    """Return a message without the name of the file: a row names it, and the same file may lie elsewhere, too."""
    words = message.removeprefix(f"{path}: ").removeprefix(f"{path.name}: ")
    return neutral(words.replace(str(path), "it").replace(path.name, "it"))
