"""The way from what `compare` is given, a capture or a report.json, to a report and a name for it."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nsyswrap.cli.capture_inputs import report_of
from nsyswrap.errors import CannotTellError, NsyswrapError, UsageError

if TYPE_CHECKING:
    from nsyswrap.compare import Comparison, ComparisonOptions
    from nsyswrap.model import Report

REPORT_SUFFIX = ".json"
REPORT_NAME = "report.json"


class GateError(NsyswrapError):
    """A comparison did not pass the gate it was given."""


class Reading(NamedTuple):
    """How captures are to be read, as ``report_of`` takes it; a report.json has been read already."""

    window: str = ""
    step_range: str = ""
    phases: tuple[str, ...] = ()
    kernel_rules: tuple[Path, ...] = ()


def report_at(path: Path, reading: Reading) -> "Report":
    """Return the report of a capture, an export, a report.json, or a folder that `profile` wrote.

    Raises:
        ExportError: It cannot be read.
        UsageError: Something is asked of a report.json, whose numbers are made already.
        CannotTellError: The capture holds too little.
    """
    asked = any(reading)
    if path.is_dir():
        path = path / ("capture.sqlite" if asked else REPORT_NAME)
    if path.suffix.lower() != REPORT_SUFFIX:
        return report_of(path, *reading)
    if asked:
        raise UsageError(
            f"{path} holds the numbers of one window already",
            hint="give the capture itself with --window, --step-range, --phase and --kernel-rules",
        )
    from nsyswrap.render.json_reader import read_report  # noqa: PLC0415 - loads pandas

    return read_report(path)


def comparison_of(
    base: Sequence[Path], new: Sequence[Path], reading: Reading, options: "ComparisonOptions"
) -> "Comparison":
    """Read what was before and what is now, and compare.

    Args:
        base: One file a run, the first of which gives the side its name.
        new: The same.
        reading: How captures among them are read.
        options: How they are compared.

    Raises:
        ExportError: One of them cannot be read.
        UsageError: Something is asked of a report.json, or what is asked cannot be read.
        CannotTellError: A capture holds too little.
    """
    from nsyswrap.compare import compare_reports  # noqa: PLC0415 - loads pandas

    before, now = ([report_at(path, reading) for path in paths] for paths in (base, new))
    return compare_reports(before, now, names_of(base[0], new[0]), options)


def names_of(base: Path, new: Path) -> tuple[str, str]:
    """Return what two files are called: the last parts of their paths, as many as tell them apart.

    Folders above those that differ stay out of the result: it may be shown to others.
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


def settings_of(margin: float, accept: tuple[str, ...]) -> "ComparisonOptions":
    """Return how two reports are compared.

    Args:
        margin: Smallest change that counts, in per cent.
        accept: Kinds of issues that are accepted.

    Raises:
        UsageError: The margin says nothing.
    """
    from nsyswrap.compare import ComparisonOptions, IssueKind  # noqa: PLC0415 - loads pandas

    return ComparisonOptions(margin / 100, frozenset(map(IssueKind, accept)))


def check_most(most_percent: float | None) -> None:
    """Check what is let through, before anything is read.

    Raises:
        UsageError: It is no number, so nothing could be more than it.
    """
    if most_percent is not None and not math.isfinite(most_percent):
        raise UsageError(
            f"--fail-on-regression {most_percent:g} lets everything through", hint="give a number: 5 for 5 %"
        )


def check_gate(comparison: "Comparison", most_percent: float | None) -> None:
    """Raise what the exit code is to say of a comparison; the result itself has been written.

    Args:
        comparison: The comparison.
        most_percent: Slowdown that is let through, in per cent; None where any is.

    Raises:
        GateError: New is slower by more than that.
        CannotTellError: Whether a step is faster or slower cannot be told.
    """
    from nsyswrap.compare import Outcome  # noqa: PLC0415 - loads pandas

    if comparison.outcome is Outcome.CANNOT_TELL:
        raise CannotTellError("it cannot be told whether a step is faster or slower", hint=comparison.hint)
    slower = 100 * comparison.regression()
    if most_percent is not None and slower > most_percent:
        raise GateError(
            f"new is slower by {slower:.1f} %, more than the {most_percent:g} % of --fail-on-regression",
            hint="the comparison says what moved"
            + ("" if comparison.of_runs else "; several runs of each, --base-run and --new-run, tell how runs differ"),
        )
