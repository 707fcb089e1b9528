"""Errors for failures of nsys, with the likely cause and a remedy: nsys often prints little and exits with 0."""

from pathlib import Path

from nsyswrap.capture.foreground import DISK_FULL_HINT, RunResult
from nsyswrap.capture.locate import Nsys, importer_of, missing_libraries
from nsyswrap.capture.options import CaptureOptions
from nsyswrap.capture.run_dir import quoted_output
from nsyswrap.errors import CaptureError, ExportError


def no_report(run: RunResult, options: CaptureOptions, nsys: Nsys, unfinished: Path | None) -> CaptureError:
    """Return the error for a run without a report.

    Args:
        run: The result of the run.
        options: The options of the capture.
        nsys: The nsys that recorded it.
        unfinished: The ``.qdstrm`` that was kept, or None.

    Returns:
        The error, with the most likely cause and one remedy.
    """
    if "No space left on device" in run.nsys_output:
        return CaptureError(
            "the disk is full, so nsys wrote no report",
            hint=DISK_FULL_HINT,
        )
    if not run.started:
        return CaptureError(
            f"nsys ended with code {run.code} and did not start the program{quoted_output(run.nsys_output)}",
            hint="Run 'nsyswrap doctor'",
        )
    if unfinished is not None:
        return _importer_failed(run, nsys, unfinished)
    if options.capture_range:
        return CaptureError(
            f"nothing was recorded: the program ended with code {run.code}, and {options.capture_range} never started",
            hint="Check that the program reaches the range, and write its name as TEXT@DOMAIN if it has a domain",
        )
    if run.wall_ns < options.delay_s * 1e9:
        return CaptureError(
            f"nothing was recorded: the program ended before recording started (--delay {options.delay_s:g})",
            hint="Choose a shorter --delay",
        )
    return CaptureError(
        f"nsys wrote no report; the program ended with code {run.code}{quoted_output(run.nsys_output)}",
        hint="Run 'nsyswrap doctor'",
    )


def import_failed(nsys: Nsys, unfinished: Path, reason: str) -> CaptureError:
    """Return the error for recorded data from which nsys cannot make its report.

    Args:
        nsys: The nsys that should read it.
        unfinished: The ``.qdstrm``.
        reason: The output of nsys, or the system's error.
    """
    return CaptureError(
        f"nsys {nsys.version_text} cannot make a report of {unfinished}{quoted_output(reason)}",
        hint="Run 'nsyswrap doctor', or open the file in the Nsight Systems GUI",
    )


def export_failed(nsys: Nsys, report: Path, reason: str) -> ExportError:
    """Return the error for a report that cannot be exported.

    Args:
        nsys: The nsys that should export it.
        report: The ``.nsys-rep``.
        reason: The output of nsys, or the system's error.

    Returns:
        The error, with the most likely cause and one remedy.
    """
    if "No space left on device" in reason or "disk is full" in reason:
        return ExportError(
            f"{report} cannot be exported: the disk is full", hint="Free about ten times its size on the disk"
        )
    if not report.is_file():
        return ExportError(f"{report} does not exist", hint="Give a .nsys-rep or a .sqlite export")
    return ExportError(
        f"nsys {nsys.version_text} cannot export {report}{quoted_output(reason)}",
        hint="Export it with an nsys that is at least as new as the one that recorded it (NSYSWRAP_NSYS)",
    )


def _importer_failed(run: RunResult, nsys: Nsys, unfinished: Path) -> CaptureError:
    importer = importer_of(nsys)
    missing = missing_libraries(importer) if importer is not None else ()
    cause = f": its importer lacks {', '.join(missing)}" if missing else quoted_output(run.nsys_output)
    remedy = (
        f"Install the packages that hold {', '.join(missing)}, or run 'nsyswrap setup'"
        if missing
        else "Run 'nsyswrap doctor'"
    )
    return CaptureError(
        f"nsys recorded the program but could not write its report{cause}",
        hint=f"{remedy}. The recorded data is kept in {unfinished}, which the Nsight Systems GUI can open",
    )
