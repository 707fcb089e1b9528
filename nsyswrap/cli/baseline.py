"""The second run of `nsyswrap profile --baseline`: the same program without nsys."""

from typing import TYPE_CHECKING

import click

from nsyswrap.errors import NsyswrapError

if TYPE_CHECKING:
    from nsyswrap.capture.options import CaptureOptions
    from nsyswrap.model import Report


def add_baseline(report: "Report", options: "CaptureOptions", step_range: str, *, wanted: bool, code: int) -> "Report":
    """Run the program again without nsys, and return the report with the measured step of that run.

    Where the run fails, the report says so.

    Args:
        report: The report of the run under nsys.
        options: The options of that run.
        step_range: Regular expression of the ranges that are steps; empty for the usual names.
        wanted: Whether to make the second run.
        code: Exit code of the first run; a program that failed is not run again.
    """
    if not wanted:
        return report
    found = _with_second_run(report, options, step_range, code=code)
    section = found.section("profiler_cost")
    if section is not None and section.notes:
        click.echo(f"nsyswrap: {section.notes[-1]}", err=True)
    return found


def _with_second_run(report: "Report", options: "CaptureOptions", step_range: str, *, code: int) -> "Report":
    from nsyswrap.capture.baseline import run_alone  # noqa: PLC0415 - heavy; rarely used
    from nsyswrap.compare.baseline import with_baseline, without_baseline  # noqa: PLC0415
    from nsyswrap.loop.step_detection import step_matcher  # noqa: PLC0415
    from nsyswrap.loop.timed_ranges import find_timed_steps  # noqa: PLC0415

    if code:
        return without_baseline(report, f"the program ended with exit code {code}")
    click.echo("nsyswrap: running the program again without nsys", err=True)
    try:
        alone = run_alone(options, step_matcher(step_range).pattern)
        if alone.exit_code:
            return without_baseline(report, f"without nsys the program ended with exit code {alone.exit_code}")
        return with_baseline(report, find_timed_steps(alone.processes, step_range))
    except NsyswrapError as error:
        return without_baseline(report, error.message)
