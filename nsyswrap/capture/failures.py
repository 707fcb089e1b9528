"""Errors for failures of nsys, with the likely cause and a remedy: nsys often prints little and exits with 0."""

import re
from contextlib import suppress
from pathlib import Path

from nsyswrap.base import units
from nsyswrap.base.errors import CaptureError, ExportError
from nsyswrap.capture.disk_space import (
    DISK_FULL_HINT,
    FULL_BYTES,
    SHARED_MEMORY,
    START_BYTES,
    free_text,
    full_disk,
    is_below,
    says_full,
)
from nsyswrap.capture.foreground import RunResult
from nsyswrap.capture.locate import VARIABLE, Nsys, importer_of, missing_libraries, version_in
from nsyswrap.capture.options import CaptureOptions
from nsyswrap.capture.recorded_run import recorded_nsys
from nsyswrap.capture.run_dir import quoted_output


def no_report(
    run: RunResult, options: CaptureOptions, nsys: Nsys, unfinished: Path | None, places: tuple[Path, Path]
) -> CaptureError:
    """Return the error for a run without a report, with the most likely cause and one remedy."""
    kept = f". The recorded data is kept in {unfinished}, which the Nsight Systems GUI may open" if unfinished else ""
    full = full_disk(places if run.started else (*places, SHARED_MEMORY)) or _was_full(run, places)
    if full is not None:
        started = "" if run.started else "did not start the program and "
        return CaptureError(f"nsys {started}wrote no report: {full}", hint=f"{DISK_FULL_HINT}{kept}")
    if not run.started:
        how = f"was killed by {run.killed_by.name}" if run.killed_by else f"ended with code {run.code}"
        return CaptureError(
            f"nsys {how} and did not start the program{quoted_output(run.nsys_output)}", hint="Run 'nsyswrap doctor'"
        )
    if (death := early_death(run)) is not None:
        code = "" if run.code == CaptureError.exit_code else f"; the program ended with code {run.code}"
        return CaptureError(f"{death}, so there is no report{code}", hint=f"{_DEATH_HINT}{kept}")
    if unfinished is not None:
        importer = importer_of(nsys)
        missing = missing_libraries(importer) if importer is not None else ()
        cause = f": its importer lacks {', '.join(missing)}" if missing else quoted_output(run.nsys_output)
        remedy = (
            f"Install the packages that hold {', '.join(missing)}, or run 'nsyswrap setup'"
            if missing
            else "Run 'nsyswrap doctor'"
        )
        return CaptureError(f"nsys recorded the program but could not write its report{cause}", hint=f"{remedy}{kept}")
    return _nothing_recorded(run, options)


def _was_full(run: RunResult, places: tuple[Path, Path]) -> str | None:
    """Return a sentence on a disk that was full during the run, and may have space again; else None."""
    if run.least_free is not None and run.least_free < FULL_BYTES:
        return f"{units.size(run.least_free)} were free on the disk of {places[0]} during the run"
    if is_below(places[0], START_BYTES):
        return f"there is too little space on the disk of {places[0]} ({free_text(places[0])})"
    if not says_full(run.nsys_output):
        return None
    free = ", ".join(f"{free_text(place)} on that of {place}" for place in places)
    return f"the disk is full, as nsys says ({free})"


def _nothing_recorded(run: RunResult, options: CaptureOptions) -> CaptureError:
    """Return the error for a run that left no data."""
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


_DEATH_HINT = "The kernel kills processes if memory runs out ('dmesg' names them): record less (--duration)"
# How a .nsys-rep of nsys 2023.4.4 begins: "NVIDIA Tegra Profiler Report 2023@4@4@54-234433681190v0".
_START_BYTES = 200
_RECORDER = re.compile(r"NVIDIA [\w ]+ Report (\d{4}(?:[@.]\d+)+)")
# What nsys 2023.4.4 prints of a newer file, after "Report was".
_NAMED_RECORDER = re.compile(r"created in Nsight Systems version \((\d{4}(?:\.\d+)+)")
_EXCEPTION = "Dynamic exception type"
# Releases differ in the first three numbers; the fourth is one of the build.
_COMPARED = 3
# What nsys 2023.4.4 prints if its agent ends.
_LOST_AGENT = "Connection to Agent lost"


def early_death(run: RunResult) -> str | None:
    """Return a sentence on the process of nsys that ended before its work was done, without a full stop; else None."""
    if run.killed_by is not None:
        return f"nsys was killed by {run.killed_by.name}"
    if run.lost_launcher:
        return "nsys did not notice the end of the program, because its launcher, the program's parent, is gone"
    if _LOST_AGENT in run.nsys_output:
        return "nsys lost its agent, which was killed or crashed"
    return None


def import_failed(nsys: Nsys, unfinished: Path, reason: str) -> CaptureError:
    """Return the error for recorded data from which nsys cannot make its report."""
    return CaptureError(
        f"nsys {nsys.version_text} cannot make a report of {unfinished}{quoted_output(reason)}",
        hint="Run 'nsyswrap doctor', or open the file in the Nsight Systems GUI",
    )


def export_failed(nsys: Nsys, report: Path, target: Path, reason: str) -> ExportError:
    """Return the error for a report that cannot be exported, with the most likely cause and one remedy."""
    if says_full(reason) or "disk is full" in reason:
        return ExportError(
            f"{report} cannot be exported: the disk of {target.parent} is full ({free_text(target.parent)})",
            hint="Free about ten times its size on the disk, or export to another one",
        )
    if not report.is_file():
        return ExportError(f"{report} does not exist", hint="Give a .nsys-rep or a .sqlite export")
    recorder, ours = recorder_of(report, reason)[:_COMPARED], nsys.version[:_COMPARED]
    if recorder > ours:
        newer = _text(recorder)
        return ExportError(
            f"{report} was recorded by nsys {newer}; this machine has nsys {_text(ours)}, which cannot read it",
            hint=f"Install nsys {newer} or newer, or name it with {VARIABLE}",
        )
    if recorder:
        return ExportError(
            f"nsys {nsys.version_text} cannot export {report}{quoted_output(reason)}",
            hint=f"It was recorded by nsys {_text(recorder)}, so it may be damaged or incomplete: copy it again",
        )
    # The text of an exception of C++ says no more than this.
    why = "; a newer nsys recorded it, or it is damaged" if _EXCEPTION in reason else quoted_output(reason)
    return ExportError(
        f"nsys {nsys.version_text} cannot export {report}{why}",
        hint=f"Export it with an nsys that is at least as new as the one that recorded it ({VARIABLE})",
    )


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def recorder_of(path: Path, reason: str) -> tuple[int, ...]:
    """Return the version of the nsys that recorded a report; empty if that is unknown.

    The report begins with it, but some releases write a number of their build there: seen with the nsys 2025.3.1 of
    Nsight Compute. Then nsys may name the version, or the ``run.json`` beside the report. The reason is the output of
    the nsys that cannot read it.
    """
    start = b""
    with suppress(OSError), path.open("rb") as file:
        start = file.read(_START_BYTES)
    named = _RECORDER.search(start.decode(errors="replace")) or _NAMED_RECORDER.search(reason)
    return version_in((named[1] if named else recorded_nsys(path)).replace("@", "."))
