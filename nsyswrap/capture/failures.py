"""Why nsys failed, in words with a remedy: it often says little, and exits with 0."""

from pathlib import Path

from nsyswrap.capture.foreground import RunResult
from nsyswrap.capture.locate import Nsys, importer_of, missing_libraries
from nsyswrap.capture.options import CaptureOptions
from nsyswrap.capture.run_dir import quoted
from nsyswrap.errors import CaptureError, ExportError


def no_report(ended: RunResult, options: CaptureOptions, nsys: Nsys, unfinished: Path | None) -> CaptureError:
    """Say why a run left no report.

    Args:
        ended: How the run ended.
        options: What was asked for.
        nsys: What recorded it.
        unfinished: The ``.qdstrm`` that was kept, or None where there is none.

    Returns:
        The error, with the most likely cause and one remedy.
    """
    if "No space left on device" in ended.said:
        return CaptureError(
            "the disk is full, so nsys wrote no report",
            hint="Free space, name a folder on another disk with -o and TMPDIR, or record less (--duration)",
        )
    if not ended.started:
        return CaptureError(
            f"nsys ended with code {ended.code} and did not start the program{quoted(ended.said)}",
            hint="Run 'nsyswrap doctor'",
        )
    if unfinished is not None:
        return _importer_failed(ended, nsys, unfinished)
    if options.capture_range:
        return CaptureError(
            f"nothing was recorded: the program ended with code {ended.code}, and {options.capture_range} never began",
            hint="Check that the program reaches the range, and write its text as TEXT@DOMAIN where it has a domain",
        )
    if ended.wall_ns < options.delay_s * 1e9:
        return CaptureError(
            f"nothing was recorded: the program ended before recording began (--delay {options.delay_s:g})",
            hint="Choose a shorter --delay",
        )
    return CaptureError(
        f"nsys wrote no report; the program ended with code {ended.code}{quoted(ended.said)}",
        hint="Run 'nsyswrap doctor'",
    )


def export_failed(nsys: Nsys, report: Path, reason: str) -> ExportError:
    """Say why a report cannot be exported.

    Args:
        nsys: What was to export it.
        report: The ``.nsys-rep``.
        reason: What nsys, or the system, said.

    Returns:
        The error, with the most likely cause and one remedy.
    """
    if "No space left on device" in reason or "disk is full" in reason:
        return ExportError(f"{report} cannot be exported: the disk is full", hint="Free about ten times its size")
    if not report.is_file():
        return ExportError(f"{report}: there is no such file", hint="Name a .nsys-rep or a .sqlite export")
    return ExportError(
        f"nsys {nsys.version_text} cannot export {report}{quoted(reason)}",
        hint="Export it with an nsys at least as new as the one that recorded it (NSYSWRAP_NSYS), and name the .sqlite",
    )


def _importer_failed(ended: RunResult, nsys: Nsys, unfinished: Path) -> CaptureError:
    importer = importer_of(nsys)
    missing = missing_libraries(importer) if importer is not None else ()
    cause = f": its importer lacks {', '.join(missing)}" if missing else quoted(ended.said)
    remedy = (
        f"Install the packages that hold {', '.join(missing)}, or run 'nsyswrap setup'"
        if missing
        else "Run 'nsyswrap doctor'"
    )
    return CaptureError(
        f"nsys recorded the program but could not write its report{cause}",
        hint=f"{remedy}. What was recorded is kept in {unfinished}; the Nsight Systems GUI can open it",
    )
