"""Whether the capture is complete, and how much time of the window can be wrong if events are missing."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from nsyswrap.attribution.copy_table import find_migrations
from nsyswrap.base import units
from nsyswrap.base.interval import Interval
from nsyswrap.base.intervals import Window
from nsyswrap.base.row_sums import typed_table
from nsyswrap.events.operations import COPY, MEMSET
from nsyswrap.loop.context import TraceContext
from nsyswrap.model import Fact, Finding, Section, Severity
from nsyswrap.rules import capture
from nsyswrap.rules.program_kind import Wording
from nsyswrap.sections.missing_events import (
    COMPLAINTS,
    MissingEvents,
    affected_ns,
    find_missing,
    hidden_graphs,
    lacks_ranges,
    lost_ranges,
)
from nsyswrap.sections.spec import Kind, PageGroup, SectionSpec
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Trace, array

# There is a warning, or a problem, if at least this share of the window can be wrong. Source: ours.
WARNING_SHARE, PROBLEM_SHARE = 0.01, 0.20

COMPLETE, INCOMPLETE = "yes, as far as it can tell", "no"
AFFECTED = "affected_ns"
UNRECORDED, COPIES_UNRECORDED = "launches_without_record", "copies_without_record"
MEMSETS_UNRECORDED = "memsets_without_record"
ONLY_OPERATIONS = "only_operations"


def run(context: TraceContext, window: Window) -> Section:
    """Return whether the capture holds all events, as far as it can tell, and how much time can be wrong if not.

    ``affected_ns`` is that time, summed over the GPUs in use; ``affected_share`` its share of their windows.
    """
    trace = context.trace
    missing = find_missing(context, window)
    affected = affected_ns(context, window, missing)
    share = affected / (window.length_ns * max(len(context.operations.used_in(window)), 1))
    findings = [*_incomplete(missing, affected, share, window), *_dropped(trace, window), *_no_ranges(trace, window)]
    messages = trace[tables.DIAGNOSTICS]
    texts = messages["text"][np.isin(array(messages, "severity"), COMPLAINTS)]
    counted = sorted(Counter(map(str, texts)).items(), key=lambda each: (-each[1], each[0]))
    return SECTION.made(
        window,
        facts=(
            Fact("complete", INCOMPLETE if affected else COMPLETE, "text"),
            Fact(AFFECTED, affected, "ns"),
            Fact("affected_share", share, "share"),
            *_missing_work(context),
            Fact("cuda_rows", trace.event_counts.get("CUDA", 0), "count"),
            Fact("nvtx_rows", trace.event_counts.get("NVTX", 0), "count"),
        ),
        tables={"diagnostics": typed_table(counted, {"text": str, "count": np.int64})},
        findings=tuple(findings),
        notes=(*_harmless(missing, affected), *_migrations(context, window), *_doubtful_gpus(context)),
    )


def calls_without_record(context: TraceContext) -> tuple[int, int, int]:
    """Return how many calls have no record of the GPU: launches of kernels or CUDA graphs, copies, and memsets."""
    kernels, copies, memsets = (len(each.rows) for each in context.unrecorded_launches.each)
    return kernels + len(hidden_graphs(context)), copies, memsets


def _missing_work(context: TraceContext) -> Iterator[Fact]:
    """Yield how many calls have no record, and what ran on the GPUs where that was no kernel."""
    labels = (UNRECORDED, COPIES_UNRECORDED, MEMSETS_UNRECORDED)
    for label, lost in zip(labels, calls_without_record(context), strict=True):
        if lost:
            yield Fact(label, lost, "count")
    if len(context.operations.start) and not context.operations.has_kernels:
        yield Fact(ONLY_OPERATIONS, only_operations(context), "text")


def only_operations(context: TraceContext) -> str:
    """Return the copies and memsets of a capture in words: ``1 memset of 1.47 µs``, ``2 copies, 9.00 µs in all``."""
    operations = context.operations
    counts = [(int((operations.kind == kind).sum()), name) for kind, name in ((COPY, "copy"), (MEMSET, "memset"))]
    named = " and ".join(units.counted(count, name) for count, name in counts if count)
    length = units.duration(int((operations.end - operations.start).sum()))
    return f"{named} of {length}" if len(operations.start) == 1 else f"{named}, {length} in all"


def outweighs(check: Section | None, lost_ns: int) -> bool:
    """Return whether missing events can change more time than the finding's time lost."""
    affected = check.fact(AFFECTED) if check else None
    return affected is not None and isinstance(affected.value, int) and affected.value > lost_ns


def _incomplete(missing: Sequence[MissingEvents], affected: int, share: float, window: Window) -> Iterator[Finding]:
    """Yield one finding on all missing events that can change time of the window, with the advice on most of it."""
    if not affected:
        return
    changing = sorted((each for each in missing if each.affected_ns), key=lambda each: -each.affected_ns)
    severity = Severity.PROBLEM if share >= PROBLEM_SHARE else Severity.WARNING
    bound = f"{units.duration(affected)} of the window ({units.share(share)})"
    yield _finding(
        capture.INCOMPLETE.key,
        f"The capture is incomplete: at most {bound} can be wrong.",
        changing[0].advice,
        tuple(line for each in changing for line in each.evidence),
        window,
        severity if share >= WARNING_SHARE else Severity.NOTE,
        affected,
    )


def _harmless(missing: Sequence[MissingEvents], affected: int) -> Iterator[str]:
    """Yield a sentence for each kind of missing event that changes nothing in the window."""
    for each in missing:
        if not (affected and each.affected_ns):
            yield f"{'; '.join(each.evidence)}. That changes nothing in the window."


def _no_ranges(trace: Trace, window: Window) -> Iterator[Finding]:
    """Yield a finding where NVTX was traced and the program's ranges are not in the capture."""
    if not lacks_ranges(trace) or lost_ranges(trace):
        return
    yield _finding(
        capture.NO_RANGES.key,
        "NVTX was traced, but the capture holds no range of the program.",
        Wording(
            "Put NVTX ranges around the phases. If the program has them, run nsyswrap doctor: some versions of the "
            "Python package nvtx do not reach some versions of nsys.",
            "Put NVTX ranges around the phases of the program (nvtxRangePush and nvtxRangePop), and around each step.",
        ),
        (),
        window,
        Severity.NOTE,
    )


def _migrations(context: TraceContext, window: Window) -> Iterator[str]:
    operations = context.operations
    inside = (operations.start < window.end_ns) & (operations.end > window.start_ns)
    by_faults = find_migrations(context).by_faults
    for chosen, who in ((by_faults, "page faults start them"), (~by_faults, "the program prefetches them")):
        count = int((inside & operations.migration & chosen).sum())
        if count:
            yield f"{units.count(count)} migrations of unified memory in the window: {who}."


def _finding(  # noqa: PLR0913, PLR0917 - one value a field
    rule: str,
    headline: str,
    advice: str,
    evidence: tuple[str, ...],
    window: Window,
    severity: Severity,
    lost_ns: int = 0,
) -> Finding:
    return Finding(rule, severity, headline, lost_ns, Interval(0, 0, 0), advice, evidence, None, window)


def _doubtful_gpus(context: TraceContext) -> Iterator[str]:
    """Yield notes on processes whose operations may have run on other GPUs than the report shows."""
    trace, processes = context.trace, tables.distinct(context.operations.process)
    if trace.gpu_numbers is None:
        if len(processes) > 1 and len(trace.gpus) != 1:
            yield (
                f"{len(processes)} processes use GPUs, and the capture does not show how CUDA_VISIBLE_DEVICES numbers "
                "them for each process: equal numbers of two processes count as one GPU."
            )
        return
    doubtful = {number for (number, _), gpus in trace.gpu_numbers.items() if len(gpus) > 1}
    for number in sorted(doubtful & set(tables.pid_column(processes).tolist())):
        yield f"The capture names several GPUs for one GPU number of process {number}: the report uses the highest."


def _dropped(trace: Trace, window: Window) -> list[Finding]:
    return [
        _finding(
            capture.IMPOSSIBLE_ROWS.key,
            f"Left out: {units.counted(rows, 'row')} of {what}.",
            "Export afresh; if the rows are still there, the capture itself is damaged.",
            (),
            window,
            Severity.NOTE,
        )
        for what, rows in sorted(trace.dropped.items())
    ]


SECTION = SectionSpec(
    key="capture_check",
    title="Is the capture complete?",
    run=run,
    place=270,
    group=PageGroup.ABOUT,
    columns={"diagnostics": "text count"},
    kinds={Kind.TEXT: "text"},
    facts={
        "cuda_rows": "CUDA events",
        "nvtx_rows": "NVTX events",
        "affected_ns": "time affected",
        "affected_share": "share affected",
    },
)
