"""Inputs of the commands: their options for reading a capture, and the way from a file to a report.

A command takes a capture (``.nsys-rep``), its SQLite export, or a ``report.json``. A report.json holds the finished
numbers of one window, so options that change how a capture is read do not apply to it, and it has no single events.
"""

import dataclasses
import functools
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from nsyswrap.base.errors import ExportError, UsageError
from nsyswrap.base.json_codec import DamagedError
from nsyswrap.capture.result_folder import TRY_NAME
from nsyswrap.cli.interrupts import leaving_at_once

if TYPE_CHECKING:
    from nsyswrap.hardware.kernel_names.user_rules import NameRule
    from nsyswrap.loop.context import Settings, TraceContext
    from nsyswrap.model import Report

Command = Callable[..., object]

REPORT_SUFFIX = ".json"

# What `profile` writes, the quickest to read first.
CAPTURE_NAMES = ("capture.sqlite", "capture.nsys-rep")

_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([MG])B?", re.IGNORECASE)
_UNITS = {"M": 10**6, "G": 10**9}
# Reading and analyzing takes at most so much, unless the user allows more.
MOST_BYTES = 4 * 10**9

capture_argument = click.argument("capture", type=click.Path(path_type=Path))

kernel_rules_option = click.option(
    "--kernel-rules",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Kernel name rules to try before the built-in ones, as written by verify-tensor-cores --save-rules; may be "
    "repeated.",
)


def _section_keys(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[str, ...]:
    """Return the keys of sections in the value of ``--sections``."""
    if text is None:
        return ()
    from nsyswrap.sections import checked_keys  # noqa: PLC0415 - heavy; loaded when it is needed

    return checked_keys(text)


sections_option = click.option(
    "--sections",
    metavar="KEY,...",
    callback=_section_keys,
    help="Make only these sections of the report, such as ledger,kernels: what they do not need is not read, and there "
    "is no verdict and no plan. The keys are those of the sections in report.json.",
)


def bytes_of(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    """Return the bytes in the value of ``--memory``."""
    if text is None:
        return None
    found = _MEMORY.fullmatch(text.strip())
    if not found or not (size := round(float(found.group(1)) * _UNITS[found.group(2).upper()])):
        raise UsageError(f"--memory {text!r} is no amount of memory", hint="write it as --memory 4GB or --memory 800MB")
    return size


memory_option = click.option(
    "--memory",
    metavar="SIZE",
    callback=bytes_of,
    help="Memory that reading and analyzing may take, such as 4GB. Of a capture that needs more, as many steps as fit "
    "are read in detail, from the middle, and the report says so.  [default: what is free, at most 4GB]",
)


def memory_bytes(given: int | None) -> int:
    """Return the bytes that may be used: those that the user gives, else what is free, at most ``MOST_BYTES``."""
    if given is not None:
        return given
    from nsyswrap.many.memory import free_bytes  # noqa: PLC0415 - loaded when a capture is read

    return min(free_bytes(), MOST_BYTES)


class ReadOptions(NamedTuple):
    """Options for reading a capture.

    Attributes:
        window: ``steps``, ``all`` or ``START:END`` in seconds; empty for steps where there are any.
        step_range: Regular expression of the NVTX ranges that are steps; empty for the usual names.
        step_kernel: Regular expression of the kernels that begin a step; empty to use ranges, or else the repeating
            pattern of GPU work.
        phases: ``NAME=REGEX`` for each phase.
        kernel_rules: Files with kernel name rules.
        sections: Keys of the sections to make; empty for all.
        memory: Bytes that reading and analyzing may take; None for what is free, at most 4 GB.
    """

    window: str = ""
    step_range: str = ""
    step_kernel: str = ""
    phases: tuple[str, ...] = ()
    kernel_rules: tuple[Path, ...] = ()
    sections: tuple[str, ...] = ()
    memory: int | None = None

    def flags(self) -> tuple[str, ...]:
        """Return the names of the options that are set and change the report, as the user typed them."""
        names = ("--window", "--step-range", "--step-kernel", "--phase", "--kernel-rules", "--sections")
        of_capture = tuple(name for name, value in zip(names, self[: len(names)], strict=True) if value)
        return (*of_capture, *(["--memory"] if self.memory is not None else []))

    def settings(self) -> "Settings":
        """Return the settings for finding steps, phases and kernel classes."""
        from nsyswrap.loop.context import Settings  # noqa: PLC0415
        from nsyswrap.loop.phase_detection import PhaseRule  # noqa: PLC0415 - heavy; loaded when a capture is read

        phases = tuple(PhaseRule(*phase_rule(text)) for text in self.phases)
        rules = read_kernel_rules(self.kernel_rules)
        return Settings(self.step_range, phases, rules, step_kernel=self.step_kernel)

    def check(self) -> None:
        """Check the options before any work is done: `profile` may run a program for hours first."""
        if self.flags():
            from nsyswrap import report  # noqa: PLC0415 - heavy; loaded only when there is something to check

            report.check_request(self.window, self.settings())


def read_options(command: Command) -> Command:
    """Add the options for reading a capture to a command, which gets them as its argument ``options``."""

    @functools.wraps(command)
    def with_read_options(**given: Any) -> object:  # noqa: ANN401 - options of any command
        read = {name: given.pop(name) for name in ReadOptions._fields if name in given}
        return command(options=ReadOptions(**read), **given)

    decorated: Command = with_read_options
    for decorate in reversed(_READ_DECORATORS):
        decorated = decorate(decorated)
    return decorated


# In the order of the help.
_READ_DECORATORS: tuple[Callable[[Command], Command], ...] = (
    click.option(
        "--window",
        metavar="W",
        default="",
        help="Time window of all numbers: steps (the default where steps are found), all, or START:END in seconds.",
    ),
    click.option(
        "--step-range",
        metavar="REGEX",
        default="",
        help='NVTX ranges that are steps; by default names such as "batch 17", "step 17" or "iteration 17".',
    ),
    click.option(
        "--step-kernel",
        metavar="REGEX",
        default="",
        help="Kernels that begin a step, by name; several in a row are one. By default steps are those that ranges "
        "name, or else the pattern that the GPU's work repeats.",
    ),
    click.option(
        "--phase",
        "phases",
        metavar="NAME=REGEX",
        multiple=True,
        help="NVTX ranges that are a phase, such as data='^prefetch'; may be repeated.",
    ),
    kernel_rules_option,
    memory_option,
)


def phase_rule(text: str) -> tuple[str, re.Pattern[str]]:
    """Return the name and the pattern of a ``--phase`` option.

    Raises:
        UsageError: The text is not NAME=REGEX, or the pattern is not a regular expression.
    """
    name, equals, pattern = text.partition("=")
    if not (name and equals and pattern):
        raise UsageError(f"--phase {text!r} is not NAME=REGEX", hint="write it as --phase data='^prefetch'")
    try:
        return name, re.compile(pattern)
    except re.error as error:
        raise UsageError(
            f"--phase {text!r} is not a valid regular expression: {error}",
            hint="write it as --phase data='^prefetch'",
        ) from error


def read_kernel_rules(files: tuple[Path, ...]) -> "tuple[NameRule, ...]":
    """Return the kernel name rules of some files, in order."""
    from nsyswrap.hardware.kernel_names.user_rules import read_rules  # noqa: PLC0415 - loaded when there is a file

    return tuple(rule for file in files for rule in read_rules(file))


def is_report(path: Path) -> bool:
    """Return whether a path names a report.json rather than a capture, by its suffix."""
    return path.suffix.lower() == REPORT_SUFFIX


def report_from(path: Path, options: ReadOptions, *, with_timeline: bool = False) -> "Report":
    """Return the report of a capture, of an export, or in a report.json.

    Raises:
        ExportError: The file cannot be exported or read.
        UsageError: An option is invalid, or is given for a report.json.
        CannotTellError: The capture holds too little.
    """
    if not is_report(path):
        return report_of_capture(path, options, with_timeline=with_timeline)
    if options.flags():
        raise UsageError(
            f"{path} is a finished report: {' and '.join(options.flags())} cannot change its numbers",
            hint=f"give {capture_of(path)}",
        )
    from nsyswrap.capture_file import folder_of  # noqa: PLC0415 - loads pandas
    from nsyswrap.render.json_reader import read_report  # noqa: PLC0415

    found = read_report(path)
    return dataclasses.replace(found, capture=dataclasses.replace(found.capture, folder=folder_of(path)))


def report_of_capture(
    capture: Path, options: ReadOptions, *, with_timeline: bool = False, quiet: bool = False
) -> "Report":
    """Analyze a capture and return its report, named after the file."""
    from nsyswrap.cli.memory_settings import load_numpy  # noqa: PLC0415 - loaded when a capture is read
    from nsyswrap.cli.progress import working  # noqa: PLC0415

    load_numpy()
    from nsyswrap.report import report_of  # noqa: PLC0415 - heavy

    context = trace_context(capture, options, quiet=quiet)
    with working("analyzing", quiet=quiet), leaving_at_once("stopped before the report was made"):
        report = report_of(context, options.window, with_timeline=with_timeline, keys=options.sections)
        return report if options.sections else with_tried(report, capture.parent / TRY_NAME)


def with_tried(report: "Report", file: Path) -> "Report":
    """Return a report with what was tried for its program, if the file beside the capture is there.

    Raises:
        ExportError: The file is damaged.
    """
    if not file.is_file():
        return report
    import json  # noqa: PLC0415 - loaded when there is such a file

    from nsyswrap.experiments.outcome import trial_from  # noqa: PLC0415
    from nsyswrap.experiments.tried_section import tried_section, with_measured  # noqa: PLC0415
    from nsyswrap.render.try_document import verdict  # noqa: PLC0415

    try:
        trial = trial_from(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, DamagedError) as error:
        raise ExportError(f"{file} is damaged: {error}", hint="remove it, or try the changes again") from error
    section = tried_section(report, trial, verdict(trial))
    others = tuple(each for each in report.sections if each.key != section.key)
    return with_measured(dataclasses.replace(report, sections=(*others, section)), trial)


def trace_context(capture: Path, options: ReadOptions, *, quiet: bool = False) -> "TraceContext":
    """Read a capture and return its trace with its training loop, named after the file."""
    with sqlite_export(capture, quiet=quiet) as export:
        return context_of_export(export, capture, options, quiet=quiet)


def context_of_export(export: Path, capture: Path, options: ReadOptions, *, quiet: bool = False) -> "TraceContext":
    """Read the export of a capture and return its trace with its training loop, named after the capture."""
    from nsyswrap.capture_file import with_recorded  # noqa: PLC0415
    from nsyswrap.cli.memory_settings import tune_pages  # noqa: PLC0415
    from nsyswrap.cli.progress import reading  # noqa: PLC0415
    from nsyswrap.loop.context import find_context  # noqa: PLC0415 - heavy; loaded when a capture is read
    from nsyswrap.loop.extent import between  # noqa: PLC0415
    from nsyswrap.loop.large_capture import ReadRequest, load_within  # noqa: PLC0415
    from nsyswrap.report import ALL, STEPS  # noqa: PLC0415
    from nsyswrap.sections import unread_tables  # noqa: PLC0415

    tune_pages()
    with reading(quiet=quiet) as progress:
        request = ReadRequest(
            memory_bytes=memory_bytes(options.memory),
            window=None if options.window in {"", STEPS, ALL} else between(options.window),
            wants_all=options.window == ALL,
            step_pattern=options.step_range,
            has_step_kernel=bool(options.step_kernel),
            environ=os.environ,
            unread=unread_tables(options.sections),
            progress=progress,
        )
        trace = load_within(export, request)
    return find_context(*with_recorded(trace, capture, options.settings()))


@contextmanager
def sqlite_export(capture: Path, *, quiet: bool = False) -> Iterator[Path]:
    """Yield the SQLite export of a capture: the file itself, or a temporary export of what nsys recorded.

    Raises:
        UsageError: The file is a report.json, which holds no events.
        ExportError: nsys cannot export it, or there is no nsys.
    """
    if is_report(capture):
        raise UsageError(
            f"{capture} is a report and holds no events of the capture", hint=f"give {capture_of(capture)} instead"
        )
    from nsyswrap.capture_file import exported  # noqa: PLC0415 - heavy; loaded when a capture is read
    from nsyswrap.cli.progress import shown  # noqa: PLC0415

    with exported(capture, shown(quiet=quiet)) as export:
        yield export


def capture_of(report: Path) -> str:
    """Return the capture to give instead of a report.json: the file beside it, or a description if there is none."""
    files = (report.parent / name for name in CAPTURE_NAMES)
    return next((str(file) for file in files if file.is_file()), "the .nsys-rep or .sqlite file that it was made from")
