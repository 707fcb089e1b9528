"""A capture as an object, for notebooks and programs: its report, and its events as data frames."""

import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

import pandas as pd

from nsyswrap.capture.locate import find_nsys
from nsyswrap.capture.nsys import export_report
from nsyswrap.db.load import load_export
from nsyswrap.errors import UsageError
from nsyswrap.hardware.kernel_names.user_rules import read_rules
from nsyswrap.intervals import Window
from nsyswrap.loop.context import Settings, find_context
from nsyswrap.loop.phase_detection import PhaseRule
from nsyswrap.model import Finding, Report, Section
from nsyswrap.privacy import neutral
from nsyswrap.render import notebook_view
from nsyswrap.report import check_request, report_of
from nsyswrap.tables import Trace
from nsyswrap.timeline.event_frames import COLUMNS, event_frames

CAPTURE_SUFFIX = ".nsys-rep"


class OpenedCapture:
    """A capture that was read. Nothing is analysed before it is asked for.

    Frames hold the whole capture, one row an event; ``columns`` says what each column holds. ``gaps`` alone is about
    the window. Times are int64 ns since capture start.

    Args:
        trace: The tables of one export.
        window: What the report is about, as ``--window``.
        settings: How steps and phases are found.
    """

    def __init__(self, trace: Trace, window: str, settings: Settings) -> None:
        self.trace = trace
        self._wanted = window
        self._context = find_context(trace, settings)

    @cached_property
    def report(self) -> Report:
        """Return everything that is said about the capture.

        Raises:
            CannotTellError: Steps are asked for and none are found, or the capture holds nothing at all.
        """
        return report_of(self._context, self._wanted)

    @cached_property
    def frames(self) -> Mapping[str, pd.DataFrame]:
        """Return all frames by name."""
        idle = self.sections.get("idle")
        return MappingProxyType(event_frames(self._context, idle.tables["gaps"] if idle else None))

    @property
    def columns(self) -> Mapping[str, Mapping[str, str]]:
        """Return what each frame has: its columns, and what they hold in which unit."""
        return COLUMNS

    @property
    def window(self) -> Window:
        """Return the stretch that the report is about."""
        return self.report.window

    @property
    def verdict(self) -> str:
        """Return one sentence: what limits this run."""
        return self.report.verdict

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return all findings, gravest first, then dearest."""
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
        """Return the copies."""
        return self.frames["copies"]

    @property
    def memsets(self) -> pd.DataFrame:
        """Return the memsets of memory."""
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
        """Return the CUDA calls of the host."""
        return self.frames["calls"]

    @property
    def gaps(self) -> pd.DataFrame:
        """Return the idle time of the GPUs inside the window, cut where the cause changes."""
        return self.frames["gaps"]

    def __repr__(self) -> str:
        return f"<nsyswrap capture {self.trace.capture.name}>"

    def _repr_html_(self) -> str:
        return notebook_view.render(self.report)


def open_capture(
    path: Path,
    window: str = "",
    step_range: str = "",
    phases: Mapping[str, str] | None = None,
    kernel_rules: Iterable[Path] = (),
) -> OpenedCapture:
    """Read a capture.

    Args:
        path: A ``.nsys-rep``, which nsys exports first, or a ``.sqlite`` export.
        window: "steps", "all" or "START:END" in seconds; empty for steps where there are any.
        step_range: Regular expression of the ranges that are steps; empty for the usual spellings.
        phases: Regular expression of the ranges that are a phase, by its name.
        kernel_rules: Files of rules over kernel names.

    Raises:
        ExportError: It cannot be exported or read.
        UsageError: The window, a pattern or a file of rules cannot be read.
    """
    if not isinstance(window, str):
        raise UsageError(f"window {window!r} is no text", hint='such as "steps", "all" or "12.5:14"')
    for name, pattern in (phases or {}).items():
        if not (name and pattern):
            raise UsageError(
                f"phase {name!r}: {pattern!r} is no name and pattern", hint="such as {'data': '^prefetch'}"
            )
    try:
        rules = tuple(PhaseRule(name, re.compile(pattern)) for name, pattern in (phases or {}).items())
    except re.error as error:
        raise UsageError(f"a phase is no regular expression: {error}", hint="such as {'data': '^prefetch'}") from error
    settings = Settings(step_range, rules, tuple(rule for file in kernel_rules for rule in read_rules(file)))
    check_request(window, settings)
    trace = _trace_of(path)
    named = replace(trace, capture=replace(trace.capture, name=neutral(path.name)))
    return OpenedCapture(named, window, settings)


def _trace_of(path: Path) -> Trace:
    if path.suffix != CAPTURE_SUFFIX:
        return load_export(path)
    with tempfile.TemporaryDirectory(prefix="nsyswrap-") as folder:
        target = Path(folder) / f"{path.stem}.sqlite"
        export_report(find_nsys(), path, target)
        return load_export(target)
