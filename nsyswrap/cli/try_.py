"""`nsyswrap try`: make changes to a program from outside, and measure what they bring."""

import glob
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nsyswrap.base.errors import CaptureError, NsyswrapError, UsageError
from nsyswrap.capture.result_folder import EXPORT_NAME, TRY_NAME
from nsyswrap.cli.capture_options import default_folder, program
from nsyswrap.cli.compare import report_at
from nsyswrap.cli.inputs import ReadOptions, report_of_capture, with_tried
from nsyswrap.cli.output import file_options, form_of, format_option, write_result
from nsyswrap.cli.recording import REPORT_NAME
from nsyswrap.cli.terminal import printable, rendered_result
from nsyswrap.render.documents import FORMS

if TYPE_CHECKING:
    from nsyswrap.experiments.outcome import Trial

_UNITS_S = {"s": 1, "m": 60, "h": 3600}
_MOST_PATHS = 3


def _seconds(_context: click.Context, _option: click.Parameter, value: str) -> float:
    """Return a length of time, such as 90s, 5m or 1h, in seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", value)
    if found is None or not float(found[1]):
        raise click.BadParameter(f"{value} is not a length of time, such as 90s or 5m.")
    return float(found[1]) * _UNITS_S[found[2] or "s"]


@click.command("try", context_settings={"allow_interspersed_args": False})
@click.option(
    "--budget",
    "budget_s",
    callback=_seconds,
    default="5m",
    show_default=True,
    metavar="TIME",
    help="Time for all runs.",
)
@click.option(
    "--run",
    "before",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="The result of `profile` for this program: what its plan advises is tried first, and its report gets the "
    "measured savings.  [default: the newest one below reports/; without one, the program is profiled first]",
)
@click.option(
    "--only",
    multiple=True,
    metavar="CHANGE",
    help="Try this change only, or one of its values, as in compile=default; may be repeated.",
)
@click.option(
    "--allow-precision", is_flag=True, help="Also try changes of the precision of the model, such as autocast."
)
@click.option(
    "--allow-writes", is_flag=True, help="Let the program change files that exist, and write its files in each run."
)
@format_option(FORMS)
@file_options
@click.option("--python", metavar="PROGRAM", help="Python that runs SCRIPT.py.  [default: the active environment's]")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="SCRIPT.py [ARGS]...")
def try_(  # noqa: PLR0913 - one parameter an option
    *,
    budget_s: float,
    before: Path | None,
    only: tuple[str, ...],
    allow_precision: bool,
    allow_writes: bool,
    form: str | None,
    output: Path | None,
    force: bool,
    python: str | None,
    command: tuple[str, ...],
) -> None:
    """Run SCRIPT.py, make changes to it from outside, and measure which of them make its steps faster.

    \b
      nsyswrap try train.py --epochs 1
      nsyswrap try --budget 10m --only compile --only fused train.py

    Nothing is recorded, and the program is not edited. It goes on with its own steps, with a change and without it in
    turns, and is ended when all changes are tried.
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    from nsyswrap.capture.options import CaptureOptions  # noqa: PLC0415 - so that --help stays fast
    from nsyswrap.experiments.changes import experiments  # noqa: PLC0415
    from nsyswrap.experiments.search import try_changes  # noqa: PLC0415
    from nsyswrap.experiments.tried.experiment import parts_of  # noqa: PLC0415
    from nsyswrap.experiments.tried_section import planned_order  # noqa: PLC0415
    from nsyswrap.experiments.try_runs import TryOptions  # noqa: PLC0415

    unknown = [each for each in only if parts_of(each)[0] not in experiments()]
    if unknown:
        raise UsageError(f"there is no change {unknown[0]!r}", hint=f"Choose from: {', '.join(experiments())}.")
    folder = before or newest_run(command[0])
    if folder is None and not only:
        folder = _profiled(command, python)
    report = None if folder is None else report_at(folder, ReadOptions())
    wanted = TryOptions(
        order=only or (tuple(experiments()) if report is None else planned_order(report, tuple(experiments()))),
        budget_s=budget_s,
        with_precision=allow_precision,
        allow_writes=allow_writes,
        may_write_again=_may_write_again,
        say=lambda words: click.echo(f"nsyswrap: {words}", err=True),
    )
    options = CaptureOptions(
        command=program(command, python), folder=default_folder(command[0], os.environ), output_to_stderr=True
    )
    if folder is None:
        click.echo("nsyswrap: without a profile of the program there is no plan: the usual order", err=True)
    else:
        click.echo(f"nsyswrap: what the plan in {printable(str(folder))} advises comes first", err=True)
    click.echo("nsyswrap: the program runs with changes in turns; nothing of it is recorded", err=True)
    found = try_changes(wanted, options)
    text = rendered_result("try", form_of(form, output, FORMS), found, to_terminal=output is None)
    write_result(text, output, force=force)
    if folder is not None:
        keep_in(folder, found)


def newest_run(script: str) -> Path | None:
    """Return the newest folder that `profile` has written for a script under its default name; None for none."""
    reports = Path("reports").glob(f"{glob.escape(Path(script).stem)}-*/{REPORT_NAME}")
    return max((each.parent for each in reports), key=lambda each: each.stat().st_mtime_ns, default=None)


def _profiled(command: tuple[str, ...], python: str | None) -> Path | None:
    """Profile a program until its steps are recorded, and return the result; None where that cannot be done here."""
    from nsyswrap.capture.locate import find_nsys  # noqa: PLC0415
    from nsyswrap.capture.process import run_on_stderr  # noqa: PLC0415

    try:
        find_nsys()
    except NsyswrapError:
        return None
    click.echo("nsyswrap: the program has no profile yet: it is profiled first, for its plan", err=True)
    words = [sys.executable, "-m", "nsyswrap", "profile", "--quiet", "--stop-after"]
    words += ["--python", python] if python else []
    code = run_on_stderr([*words, "--", *command])  # stdout is for what was tried
    if code not in {0, CaptureError.exit_code}:
        sys.exit(code)
    return newest_run(command[0])


def keep_in(folder: Path, found: "Trial") -> None:
    """Write what was tried beside the report of a run, and make its report again, with the measured savings."""
    from nsyswrap.cli.profile import write_json, write_report  # noqa: PLC0415
    from nsyswrap.experiments.tried_section import SECTION  # noqa: PLC0415

    write_json(folder / TRY_NAME, found.tree())
    report, export = report_at(folder, ReadOptions(), with_timeline=True), folder / EXPORT_NAME
    if report.section(SECTION.key) is not None and export.is_file():
        # It has the measured savings of an earlier trial in place of the predicted ones.
        report = report_of_capture(export, ReadOptions(), with_timeline=True)
    else:
        report = with_tried(report, folder / TRY_NAME)
    write_report(report, folder)
    click.echo(f"nsyswrap: the report in {printable(str(folder))} has the measured savings", err=True)


def _may_write_again(paths: Sequence[str]) -> bool:
    """Ask whether the program may run again, although it writes files; without a terminal it may not."""
    more = f" and {len(paths) - _MOST_PATHS} more" if len(paths) > _MOST_PATHS else ""
    click.echo(f"nsyswrap: the program wrote {printable(', '.join(paths[:_MOST_PATHS]))}{more}", err=True)
    return sys.stdin.isatty() and click.confirm("Run it again, so that it writes them again?", err=True)
