"""What the commands that read a capture share: their options, and the way from a file to a report."""

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from nsyswrap.errors import CaptureError, ExportError, UsageError
from nsyswrap.privacy import neutral

if TYPE_CHECKING:
    from nsyswrap.hardware.kernel_names.user_rules import NameRule
    from nsyswrap.loop.context import Settings, TraceContext
    from nsyswrap.model import Report

Command = TypeVar("Command", bound=Callable[..., object])

CAPTURE_SUFFIX = ".nsys-rep"

capture_argument = click.argument("capture", type=click.Path(path_type=Path))


kernel_rules_option = click.option(
    "--kernel-rules",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Rules over kernel names that come before our own, as verify-tensor-cores --save-rules writes them; may be "
    "repeated.",
)


def reading_options(command: Command) -> Command:
    """Add the options that say how a capture is read: window, steps, phases and kernel rules."""
    options = (
        click.option(
            "--window",
            metavar="W",
            default="",
            help="What the numbers are about: steps (the default where there are any), all, or START:END in seconds.",
        ),
        click.option(
            "--step-range",
            metavar="REGEX",
            default="",
            help='NVTX ranges that are steps; by default those such as "batch 17", "step 17" or "iteration 17".',
        ),
        click.option(
            "--phase",
            "phases",
            metavar="NAME=REGEX",
            multiple=True,
            help="NVTX ranges that are a phase, such as data='^prefetch'; may be repeated.",
        ),
        kernel_rules_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


def check_request(window: str, step_range: str, phases: tuple[str, ...], kernel_rules: tuple[Path, ...] = ()) -> None:
    """Check how a capture is to be read, before it is made: a program may run for hours first.

    Raises:
        UsageError: The window, a pattern, a phase or a file of rules cannot be read.
    """
    if not (window or step_range or phases or kernel_rules):
        return
    from nsyswrap import report  # noqa: PLC0415 - heavy; loaded only where there is something to check

    report.check_request(window, settings_of(step_range, phases, kernel_rules))


def report_of(  # noqa: PLR0913 - one argument an option
    capture: Path,
    window: str,
    step_range: str,
    phases: tuple[str, ...],
    kernel_rules: tuple[Path, ...] = (),
    *,
    with_timeline: bool = False,
    quiet: bool = False,
) -> "Report":
    """Read a capture and return its report, under the name of the file that was given.

    For a page it also holds what the timeline shows.

    Raises:
        ExportError: It cannot be exported or read.
        UsageError: The window, a pattern, a phase or a file of rules cannot be read.
        CannotTellError: The capture holds too little.
    """
    from nsyswrap.cli.progress import working  # noqa: PLC0415 - loaded when a capture is read
    from nsyswrap.report import report_of  # noqa: PLC0415 - heavy

    context = study_of(capture, step_range, phases, kernel_rules, quiet=quiet)
    with working("analysing", quiet=quiet):
        return report_of(context, window, with_timeline=with_timeline)


def study_of(
    capture: Path,
    step_range: str,
    phases: tuple[str, ...],
    kernel_rules: tuple[Path, ...] = (),
    *,
    quiet: bool = False,
) -> "TraceContext":
    """Read a capture, under the name of the file that was given.

    Raises:
        ExportError: It cannot be exported or read.
        UsageError: A pattern, a phase or a file of rules cannot be read.
    """
    from nsyswrap.cli.heap import share_one_heap  # noqa: PLC0415
    from nsyswrap.cli.progress import working  # noqa: PLC0415
    from nsyswrap.db.load import load_export  # noqa: PLC0415
    from nsyswrap.loop.context import find_context  # noqa: PLC0415 - heavy; loaded when a capture is read

    share_one_heap()
    with export_of(capture) as export, working("reading the export", quiet=quiet):
        trace = load_export(export)
    named = replace(trace, capture=replace(trace.capture, name=neutral(capture.name)))
    return find_context(named, settings_of(step_range, phases, kernel_rules))


def settings_of(step_range: str, phases: tuple[str, ...], kernel_rules: tuple[Path, ...] = ()) -> "Settings":
    """Return what the user says about steps, phases and kernels.

    Raises:
        UsageError: A phase or a file of rules cannot be read.
    """
    from nsyswrap.loop.context import Settings  # noqa: PLC0415
    from nsyswrap.loop.phase_detection import PhaseRule  # noqa: PLC0415 - heavy; loaded when a capture is read

    rules = tuple(PhaseRule(*phase_rule(text)) for text in phases)
    return Settings(step_range, rules, rules_of(kernel_rules))


def rules_of(files: tuple[Path, ...]) -> "tuple[NameRule, ...]":
    """Return the rules over kernel names in files, in their order.

    Raises:
        UsageError: A file cannot be read, or holds something that is no rule.
    """
    from nsyswrap.hardware.kernel_names.user_rules import read_rules  # noqa: PLC0415 - loaded where there is a file

    return tuple(rule for file in files for rule in read_rules(file))


def phase_rule(text: str) -> tuple[str, re.Pattern[str]]:
    """Return the name and the pattern of a ``--phase`` option.

    Raises:
        UsageError: It is not NAME=REGEX, or the pattern is no regular expression.
    """
    name, equals, pattern = text.partition("=")
    if not (name and equals and pattern):
        raise UsageError(f"--phase {text!r} is not NAME=REGEX", hint="write it as --phase data='^prefetch'")
    try:
        return name, re.compile(pattern)
    except re.error as error:
        raise UsageError(
            f"--phase {text!r} is no regular expression: {error}", hint="write it as --phase data='^prefetch'"
        ) from error


@contextmanager
def export_of(capture: Path) -> Iterator[Path]:
    """Give the export of a capture: the file itself, or one made afresh from a ``.nsys-rep`` and removed after.

    Raises:
        ExportError: nsys cannot export it, or there is no nsys.
    """
    if capture.suffix != CAPTURE_SUFFIX:
        yield capture
        return
    from nsyswrap.capture.locate import find_nsys  # noqa: PLC0415 - only a .nsys-rep needs nsys
    from nsyswrap.capture.nsys import export_report  # noqa: PLC0415
    from nsyswrap.cli.progress import shown  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="nsyswrap-") as folder:
        target = Path(folder) / f"{capture.stem}.sqlite"
        try:
            with shown() as progress:
                export_report(find_nsys(), capture, target, progress)
        except CaptureError as error:
            raise ExportError(error.message, hint=error.hint) from error
        yield target
