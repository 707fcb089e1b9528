"""The runs of `nsyswrap profile` without nsys: the baseline, and the program without its data loaders.

They come after the recorded run, and nothing of them is recorded: the program's own processes time their steps.
"""

from collections.abc import Callable
from dataclasses import replace

import click

from nsyswrap.base.errors import NsyswrapError
from nsyswrap.capture.baseline import run_alone
from nsyswrap.capture.options import CaptureOptions
from nsyswrap.compare.baseline import with_baseline, without_baseline
from nsyswrap.compare.loader_counterfactual import failed, without_loader
from nsyswrap.hardware.steps_alone import StepsAlone
from nsyswrap.loop.step_detection import Steps, find_timed_steps
from nsyswrap.model import Report

# How many batches each loader keeps: too many for the GPU's caches, few enough to fit beside the model.
KEPT_BATCHES = 4


def add_alone_runs(  # noqa: PLR0913 - two are what is wanted
    report: Report,
    options: CaptureOptions,
    *,
    baseline: bool = False,
    loader: bool = False,
    code: int,
    calibrated: Callable[[StepsAlone], Report] | None = None,
) -> Report:
    """Run the program again without nsys, and return the report with what these runs show.

    Where a run fails, the report says so.

    Args:
        report: The report of the run under nsys.
        options: The options of that run.
        baseline: Whether to show the step of the unchanged program.
        loader: Whether to show what data loading costs: the program runs once more, with cached batches.
        code: Exit code of the run under nsys; a program that failed is not run again.
        calibrated: Returns the report of the run under nsys, calibrated to steps alone; None for the same report.
    """
    try:
        if code:
            raise _RunFailedError(f"the program ended with exit code {code}")
        click.echo("nsyswrap: running the program again without nsys", err=True)
        alone = _steps_alone(options)
    except NsyswrapError as error:
        report = without_baseline(report, error.message) if baseline else report
        report = report.with_section(failed(report, error.message)) if loader else report
        return _with_printed_notes(report, baseline=baseline)
    if baseline:
        report = with_baseline(report, alone, calibrated)
    if loader:
        click.echo("nsyswrap: running the program again with cached batches", err=True)
        try:
            cached = _steps_alone(options, KEPT_BATCHES)
            section = without_loader(report, alone, cached, KEPT_BATCHES)
        except NsyswrapError as error:
            section = failed(report, error.message)
        report = report.with_section(section)
    return _with_printed_notes(report, baseline=baseline)


class _RunFailedError(NsyswrapError):
    """A run of the program failed."""


def _steps_alone(options: CaptureOptions, cached_batches: int = 0) -> Steps:
    """Run the program without nsys, and return its steps; with cached batches, if any are wanted."""
    # The output of the program was shown once.
    alone = run_alone(replace(options, output_to_stderr=True), cached_batches=cached_batches)
    if alone.exit_code:
        how = "with cached batches" if cached_batches else "without nsys"
        raise _RunFailedError(f"{how} the program ended with exit code {alone.exit_code}")
    return find_timed_steps(alone.processes, options.step_text)


def _with_printed_notes(report: Report, *, baseline: bool) -> Report:
    cost, counterfactual = report.section("profiler_cost"), report.section("counterfactual")
    notes = cost.notes[-1:] if baseline and cost is not None else ()
    for note in (*notes, *(counterfactual.notes if counterfactual is not None else ())):
        click.echo(f"nsyswrap: {note}", err=True)
    return report
