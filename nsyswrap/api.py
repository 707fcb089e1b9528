"""The Python interface for notebooks and programs: a capture as an object with its report and data frames."""

import os
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from html import escape
from pathlib import Path
from types import MappingProxyType

import pandas as pd

from nsyswrap.base.errors import UsageError
from nsyswrap.base.intervals import Window
from nsyswrap.capture_file import exported, with_recorded
from nsyswrap.hardware.kernel_names.user_rules import read_rules
from nsyswrap.loop.context import Settings, find_context
from nsyswrap.loop.phase_detection import PhaseRule
from nsyswrap.model import Finding, Report, Section
from nsyswrap.render import documents
from nsyswrap.report import check_request, report_of
from nsyswrap.timeline.event_frames import COLUMNS, event_frames
from nsyswrap.trace.load import load_export
from nsyswrap.trace.tables import Trace


class OpenedCapture:
    """A capture with its report and its events. The analysis runs on first access.

    Data frames cover the whole capture, with one row for each event; only ``gaps`` is limited to the window.
    ``columns`` describes their columns. Times are int64 ns since capture start.

    Args:
        trace: The tables of one export.
        window: The window of the report, as for ``--window``.
        settings: Settings for finding steps, phases and kernel classes.
    """

    def __init__(self, trace: Trace, window: str, settings: Settings) -> None:
        self.trace = trace
        self._requested_window = window
        self._context = find_context(trace, settings)

    @cached_property
    def report(self) -> Report:
        """Return the report.

        Raises:
            CannotTellError: The window is "steps" and there are none, or the capture is empty.
        """
        return report_of(self._context, self._requested_window)

    @cached_property
    def frames(self) -> Mapping[str, pd.DataFrame]:
        """Return all data frames by name."""
        idle = self.sections.get("idle")
        return MappingProxyType(event_frames(self._context, idle.tables["gaps"] if idle else None))

    @property
    def columns(self) -> Mapping[str, Mapping[str, str]]:
        """Return a description, with its unit, of each column of each data frame."""
        return COLUMNS

    @property
    def window(self) -> Window:
        """Return the time window of the report."""
        return self.report.window

    @property
    def verdict(self) -> str:
        """Return the verdict: one sentence about what limits this run."""
        return self.report.verdict

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return all findings, in order of predicted saving."""
        return self.report.findings

    @cached_property
    def sections(self) -> Mapping[str, Section]:
        """Return the sections of the report by key."""
        return MappingProxyType({section.key: section for section in self.report.sections})

    @property
    def kernels(self) -> pd.DataFrame:
        """Return the kernels."""
        return self.frames["kernels"]

    @property
    def copies(self) -> pd.DataFrame:
        """Return the memory copies."""
        return self.frames["copies"]

    @property
    def memsets(self) -> pd.DataFrame:
        """Return the memsets."""
        return self.frames["memsets"]

    @property
    def ranges(self) -> pd.DataFrame:
        """Return the NVTX ranges."""
        return self.frames["ranges"]

    @property
    def steps(self) -> pd.DataFrame:
        """Return the steps of the training loop."""
        return self.frames["steps"]

    @property
    def calls(self) -> pd.DataFrame:
        """Return the CUDA API calls."""
        return self.frames["calls"]

    @property
    def gaps(self) -> pd.DataFrame:
        """Return the idle intervals of the GPUs inside the window, split where the cause changes."""
        return self.frames["gaps"]

    def __repr__(self) -> str:
        return f"<nsyswrap capture {self.trace.capture.name}>"

    def _repr_html_(self) -> str:
        page = escape(documents.render("report", "slim", self.report))
        return f'<iframe sandbox srcdoc="{page}" title="Report" width="100%" height="900"></iframe>'


def open_capture(  # noqa: PLR0913, PLR0917 - one argument an option
    path: Path,
    window: str = "",
    step_range: str = "",
    phases: Mapping[str, str] | None = None,
    kernel_rules: Iterable[Path] = (),
    step_kernel: str = "",
) -> OpenedCapture:
    """Read a capture and return an object with its report and its events.

    Args:
        path: A ``.nsys-rep`` (exported with nsys first) or a ``.sqlite`` export.
        window: "steps", "all" or "START:END" in seconds; empty for steps if there are any, else all.
        step_range: Regular expression of the NVTX ranges that are steps; empty for the usual names.
        phases: Name of each phase -> regular expression of its NVTX ranges.
        kernel_rules: Files with kernel name rules.
        step_kernel: Regular expression of the kernels that begin a step; empty to use ranges, or else the repeating
            pattern of GPU work.

    Raises:
        ExportError: The file cannot be exported or read.
        UsageError: The window, a pattern or a rules file is invalid.
    """
    if not isinstance(window, str):
        raise UsageError(f"window {window!r} is not a string", hint='give "steps", "all" or a string such as "12.5:14"')
    names = tuple(rule for file in kernel_rules for rule in read_rules(file))
    settings = Settings(step_range, _phase_rules(phases or {}), names, step_kernel=step_kernel)
    check_request(window, settings)
    with exported(path) as export:
        trace = load_export(export, os.environ)
    named, complete = with_recorded(trace, path, settings)
    return OpenedCapture(named, window, complete)


def _phase_rules(phases: Mapping[str, str]) -> tuple[PhaseRule, ...]:
    """Return the rules of phases, in the order of the mapping."""
    hint = "give a dict such as {'data': '^prefetch'}"
    for name, pattern in phases.items():
        if not (name and pattern):
            raise UsageError(f"phase {name!r}: {pattern!r} is not a name and a pattern", hint=hint)
    try:
        return tuple(PhaseRule(name, re.compile(pattern)) for name, pattern in phases.items())
    except re.error as error:
        raise UsageError(f"the pattern of a phase is not a valid regular expression: {error}", hint=hint) from error
