"""Is the capture whole? Counts against nsys's own, launches without calls, threads that fall silent."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsyswrap import tables, units
from nsyswrap.events.lost_events import collected
from nsyswrap.intervals import Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import of_library
from nsyswrap.model import Fact, Finding, Section, Severity
from nsyswrap.sections.spec import SectionSpec
from nsyswrap.tables import Trace, array

# ENUM_DIAGNOSTIC_SEVERITY_LEVEL: 1 information, 2 warning, 3 error.
COMPLAINTS = (2, 3)

# Where fewer operations of the window than this have no host call, and they took less of its operations' time, what is
# said of the others holds: a few may have begun before recording did. Source: ours.
FEW_ORPHANS_SHARE = 0.01

REMEDY = "Capture again with an nsys at least as new as the CUDA driver; an older one loses events without saying so."


def run(context: TraceContext, window: Window) -> Section:
    """Return whether what was recorded is all that happened, as far as the capture can tell."""
    trace = context.trace
    orphans = _find_orphans(context, window)
    findings = [
        *_counts(trace, window),
        *_orphaned(orphans, window),
        *_silent(context, window),
        *_dropped(trace, window),
    ]
    if not _has_program_ranges(trace) and "NvtxEvents" in trace.session.traces:
        findings.append(
            _finding(
                "capture/no_ranges",
                "NVTX was traced, but no range of the program arrived.",
                "Put NVTX ranges around the phases; if they are there, run nsyswrap doctor: some versions of the "
                "Python package nvtx do not reach some versions of nsys.",
                (),
                window,
                Severity.NOTE,
            )
        )
    incomplete = any(finding.rule == "capture/incomplete" for finding in findings)
    return Section(
        key="capture_check",
        title="Is the capture complete?",
        window=window,
        facts=(
            Fact("complete", "no" if incomplete else "yes, as far as it can tell", "text"),
            Fact("cuda_rows", trace.event_counts.get("CUDA", 0), "count"),
            Fact("nvtx_rows", trace.event_counts.get("NVTX", 0), "count"),
        ),
        tables={"diagnostics": _complaints(trace)},
        findings=tuple(findings),
        notes=(*_notes(orphans), *_doubtful_gpus(context)),
    )


def _complaints(trace: Trace) -> pd.DataFrame:
    """Return what nsys itself warned of, each text once with the number of times it said so."""
    told = trace[tables.DIAGNOSTICS]
    texts = told["text"].astype(str)[np.isin(array(told, "severity"), COMPLAINTS)]
    counted = texts.value_counts().rename_axis("text").reset_index(name="count")
    return counted.sort_values(["count", "text"], ascending=[False, True], ignore_index=True)


def _finding(  # noqa: PLR0913, PLR0917 - one value a field
    rule: str, headline: str, advice: str, evidence: tuple[str, ...], window: Window, severity: Severity
) -> Finding:
    return Finding(rule, severity, headline, 0, 0, 0, advice, evidence, None, window)


def _counts(trace: Trace, window: Window) -> list[Finding]:
    """Compare rows with the numbers nsys 2025 writes into its diagnostics, one for each process."""
    return [
        _finding(
            "capture/incomplete",
            f"The capture is incomplete: nsys collected {count} {family} events, the export holds "
            f"{trace.event_counts.get(family, 0)}.",
            "Export afresh; if the numbers still differ, capture again for a shorter time.",
            (f"{count - trace.event_counts.get(family, 0)} {family} events are missing",),
            window,
            Severity.PROBLEM,
        )
        for family, count in sorted(collected(trace).items())
        if trace.event_counts.get(family, 0) < count
    ]


@dataclass(frozen=True, slots=True)
class _Orphans:
    """The operations of a window whose host call is missing.

    Attributes:
        count: How many.
        whole: Operations of the window, without migrations of unified memory.
        share: Their share of these, by number or by time, whichever is more.
        migrations: Migrations of unified memory in the window, which no call asks for.
    """

    count: int
    whole: int
    share: float
    migrations: int


def _find_orphans(context: TraceContext, window: Window) -> _Orphans:
    operations = context.operations
    inside = (operations.start < window.end_ns) & (operations.end > window.start_ns)
    asked, orphaned = inside & ~operations.migration, inside & operations.orphaned
    count, whole = int(orphaned.sum()), int(asked.sum())
    length = operations.end - operations.start
    by_time = int(length[orphaned].sum()) / max(int(length[asked].sum()), 1)
    share = max(count / max(whole, 1), by_time)
    return _Orphans(count, whole, share, int((inside & operations.migration).sum()))


def _notes(orphans: _Orphans) -> tuple[str, ...]:
    """Say what has no host call and yet does not make a capture incomplete."""
    found = []
    if 0 < orphans.share < FEW_ORPHANS_SHARE:
        found.append(
            f"{orphans.count} of {orphans.whole} GPU operations in the window have no host call: less than "
            f"{units.share(FEW_ORPHANS_SHARE)} of them and of their time, so the capture counts as complete."
        )
    if orphans.migrations:
        found.append(
            f"{units.count(orphans.migrations)} migrations of unified memory in the window: page faults begin these, "
            "no host call does."
        )
    return tuple(found)


def _doubtful_gpus(context: TraceContext) -> Iterator[str]:
    """Say why operations may have run on other GPUs than the report says."""
    trace, processes = context.trace, tables.distinct(context.operations.process)
    if trace.gpu_numbers is None:
        if len(processes) > 1 and len(trace.gpus) != 1:
            yield (
                f"{len(processes)} processes use GPUs, and the capture does not tell how CUDA_VISIBLE_DEVICES numbers "
                "them: each process's own numbers are taken, and two that are alike for one GPU."
            )
        return
    doubtful = {number for (number, _), gpus in trace.gpu_numbers.items() if len(gpus) > 1}
    for number in sorted(doubtful & set(tables.pid_column(processes).tolist())):
        yield f"The capture names several GPUs for one number of process {number}: the highest is taken."


def _orphaned(orphans: _Orphans, window: Window) -> list[Finding]:
    if orphans.share < FEW_ORPHANS_SHARE:
        return []
    return [
        _finding(
            "capture/incomplete",
            f"The capture is incomplete: {orphans.count} of {orphans.whole} GPU operations have no host call.",
            REMEDY,
            ("idle time before them has the cause blind",),
            window,
            Severity.PROBLEM,
        )
    ]


def _silent(context: TraceContext, window: Window) -> list[Finding]:
    """Say which main threads were lost."""
    return [
        _finding(
            "capture/incomplete",
            "The capture is incomplete: the main thread's CUDA calls stop "
            f"{units.duration(each.last_launch_ns - each.last_call_ns)} before the last launch.",
            REMEDY,
            (
                f"last call of thread {tables.tid(each.main)} ends at {each.last_call_ns / 1e9:.6f} s",
                f"last launch of process {tables.pid(each.main)} at {each.last_launch_ns / 1e9:.6f} s",
            ),
            window,
            Severity.PROBLEM,
        )
        for each in context.silences
    ]


def _dropped(trace: Trace, window: Window) -> list[Finding]:
    return [
        _finding(
            "capture/impossible_rows",
            f"{rows} rows of {table} cannot be true (no start, or an end before it) and were left out.",
            "Export afresh; if they are still there, the capture itself is damaged.",
            (),
            window,
            Severity.WARNING,
        )
        for table, rows in sorted(trace.dropped.items())
    ]


def _has_program_ranges(trace: Trace) -> bool:
    return not bool(of_library(trace[tables.RANGES]).all())


SECTION = SectionSpec("capture_check", "Is the capture complete?", (), run)
