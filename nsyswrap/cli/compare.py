"""`nsyswrap compare`: compare two captures, or their reports."""

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nsyswrap.base import units
from nsyswrap.base.errors import CannotTellError, ExportError, UsageError
from nsyswrap.capture.result_folder import EXPORT_NAME
from nsyswrap.cli.inputs import ReadOptions, report_from
from nsyswrap.cli.output import check_not_input, file_options, form_of, format_option, write_result
from nsyswrap.cli.recording import REPORT_NAME, record_beside
from nsyswrap.cli.terminal import rendered_result
from nsyswrap.cli.verdict_errors import RegressedError, verdict_errors
from nsyswrap.render.documents import FORMS

if TYPE_CHECKING:
    from nsyswrap.compare.comparison import Comparison, RunMachine
    from nsyswrap.model import Report

ACCEPTABLE = ("machine", "incomplete", "gpu", "traces", "window")

accept_option = click.option(
    "--accept",
    type=click.Choice(ACCEPTABLE),
    multiple=True,
    help="Compare even though this differs, because you want to measure its effect; may be repeated.",
)


@click.command()
@click.argument("base", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option(
    "--base-run",
    "more_base",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Another run of BASE, to separate a change from run-to-run variation; may be repeated.",
)
@click.option(
    "--new-run", "more_new", type=click.Path(path_type=Path), multiple=True, help="Another run of NEW; may be repeated."
)
@click.option(
    "--find",
    type=float,
    metavar="PERCENT",
    help='Smallest change that matters: "no difference" means a smaller one.  [default: 2, or that of '
    "--fail-on-regression]",
)
@accept_option
@click.option(
    "--fail-on-regression",
    "most_slower",
    type=click.FloatRange(min=0),
    metavar="PERCENT",
    help="Pass or fail a job: exit with 1 if NEW is slower by more than this, with 3 if the runs cannot tell, with 4 "
    "where something goes wrong.",
)
@format_option(FORMS)
@file_options
def compare(  # noqa: PLR0913 - one argument an option
    *,
    base: Path,
    new: Path,
    more_base: tuple[Path, ...],
    more_new: tuple[Path, ...],
    find: float | None,
    accept: tuple[str, ...],
    most_slower: float | None,
    form: str | None,
    output: Path | None,
    force: bool,
) -> None:
    """Compare the step times of NEW and BASE: faster or slower, how certain that is, and what changed.

    BASE and NEW are report.json files, folders written by profile, captures (.nsys-rep) or exports (.sqlite). Other
    windows, steps and phases: write the report.json with analyze and its options first. The exit code is 3 if the
    answer is uncertain.

    \b
      nsyswrap compare reports/before reports/after
      nsyswrap compare before/report.json after/report.json -o compare.html
      nsyswrap compare base1 new1 --base-run base2 --new-run new2
      nsyswrap compare main/ change/ --format markdown --fail-on-regression 5
      nsyswrap compare a100/report.json h200/report.json --accept gpu
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    from nsyswrap.compare.comparison import FIND, ComparisonOptions, IssueKind  # noqa: PLC0415 - loads pandas
    from nsyswrap.compare.reports import compare_reports  # noqa: PLC0415

    if most_slower is not None and not math.isfinite(most_slower):
        hint = "give a finite number: 5 for 5 %"
        raise UsageError(f"--fail-on-regression {most_slower:g} would never fail", hint=hint)
    if find is not None and most_slower and find > most_slower:
        words = f"--find {find:g} would let a slowdown pass that --fail-on-regression {most_slower:g} does not allow"
        raise UsageError(words, hint="leave out --find, or give at most as much")
    check_not_input(output, base, new, *more_base, *more_new)
    wanted = find if find is not None else most_slower or 100 * FIND
    settings = ComparisonOptions(wanted / 100, frozenset(map(IssueKind, accept)))
    chosen = form_of(form, output, FORMS)
    with verdict_errors(decides=most_slower is not None):
        sides = (base, *more_base), (new, *more_new)
        with_timeline = chosen == "html"  # the typical steps are drawn from it
        reports = [[report_at(path, ReadOptions(), with_timeline=with_timeline) for path in side] for side in sides]
        origins = [origin_of(path) for path in sides[0]], [origin_of(path) for path in sides[1]]
        found = compare_reports(reports[0], reports[1], names_of(base, new), settings, origins)
        text = rendered_result("comparison", chosen, found, to_terminal=output is None)
        write_result(text, output, force=force)
        check_gate(found, most_slower)


def origin_of(path: Path) -> "RunMachine":
    """Return where a run was made, as the run.json beside its report says."""
    from nsyswrap.compare.comparison import RunMachine  # noqa: PLC0415 - loads pandas

    record = record_beside(path if path.is_dir() else path.parent)
    versions = record.get("versions")
    torch = versions.get("torch") if isinstance(versions, dict) else None
    return RunMachine(str(record.get("machine") or ""), str(torch or ""))


def report_at(path: Path, options: ReadOptions, *, with_timeline: bool = False) -> "Report":
    """Return the report of a file as ``report_from`` does, or of a folder that `profile` wrote.

    In a folder it reads report.json, or the export where an option changes how it is read. A timeline comes from the
    export, which need not be there.
    """
    if not path.exists():
        hint = "give a folder that profile wrote, a report.json, a .nsys-rep or a .sqlite export"
        raise ExportError(f"{path} does not exist", hint=hint)
    if not path.is_dir():
        return report_from(path, options, with_timeline=with_timeline)
    export = path / EXPORT_NAME
    if options.flags():
        return report_from(export, options, with_timeline=with_timeline)
    found = report_from(path / REPORT_NAME, options)
    if not with_timeline or not export.is_file():
        return found
    drawn = report_from(export, options, with_timeline=True)
    # Options of the run that made the report may have given it another window.
    return dataclasses.replace(found, timeline=drawn.timeline) if drawn.window == found.window else found


def names_of(base: Path, new: Path) -> tuple[str, str]:
    """Return a name for each of two files: the shortest end of its path that distinguishes them.

    Parent folders are left out, because the result may be shown to others.
    """
    parts = [path.absolute().parts[1:] for path in (base, new)]
    if parts[0] == parts[1]:
        return f"{base.name} (base)", f"{new.name} (new)"
    names = [list(one[-1:]) for one in parts]
    for depth in range(2, max(map(len, parts)) + 1):
        if names[0] != names[1]:
            break
        names = [list(one[-depth:]) for one in parts]
    return "/".join(names[0]), "/".join(names[1])


def check_gate(comparison: "Comparison", most_percent: float | None) -> None:
    """Raise the error that sets the exit code; the result has been written by then.

    Raises:
        RegressedError: New is slower by more than that.
        CannotTellError: The comparison is uncertain.
    """
    from nsyswrap.compare.comparison import Outcome  # noqa: PLC0415 - loads pandas

    if comparison.outcome is Outcome.CANNOT_TELL:
        raise CannotTellError("it is uncertain whether a step became faster or slower", hint=comparison.hint)
    if most_percent is None or comparison.outcome is not Outcome.SLOWER:
        return
    change, most = comparison.deciding.change, most_percent / 100
    slower = f"new is {units.share_band(*change.ends)} slower"
    if change.point > most:
        raise RegressedError(
            f"{slower}, and --fail-on-regression allows {units.percent(most)}",
            hint="see the comparison for what changed",
        )
    if change.high > most:
        hint = "pass more runs of each side: --base-run, --new-run"
        raise CannotTellError(f"{slower}, so {units.percent(most)} is neither shown nor excluded", hint=hint)
