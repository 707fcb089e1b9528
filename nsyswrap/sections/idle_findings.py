"""The findings on idle time: one for each device and rule that takes enough of the window."""

from collections.abc import Callable, Iterator
from functools import cache, partial

import numpy as np
import pandas as pd

from nsyswrap import tables, units
from nsyswrap.attribution.attribution import Attribution
from nsyswrap.attribution.root_causes import (
    ROOT_CAUSES,
    allocator_churn,
    between_operations,
    blocking_waits,
    capture_overhead,
    checkpoint,
    cpu_quota,
    page_faults,
    tokenizer,
    untraced_wait,
    worker_start,
)
from nsyswrap.attribution.sampled_lines import spelled
from nsyswrap.events import api_calls
from nsyswrap.events.host_marks import find_marks
from nsyswrap.events.off_cpu import has_switches
from nsyswrap.intervals import Spans, Window, covered, innermost, merge, overlay
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import of_library
from nsyswrap.loop.range_names import of_operators
from nsyswrap.model import MOST_SAMPLES, Finding, Severity
from nsyswrap.rows import taken
from nsyswrap.sections.idle_advice import ADVICE, SMALL_COPIES, Advice, advice_for, core_use, page_use
from nsyswrap.sections.severity import make_finding, worth_printing
from nsyswrap.tables import Frame, array
from nsyswrap.what_if import changes
from nsyswrap.what_if.changes import NO_SAVING, Saving, WhatIf, predict
from nsyswrap.what_if.simulate import Simulation

WORST_GAPS = 3
# The rules of time without a core.
NO_CORE = ("idle/off_cpu", cpu_quota.RULE)
# The rules of work that nsyswrap marks, and the kind of its marks.
MARKED = {
    "idle/garbage_collection": api_calls.GARBAGE_COLLECTION,
    checkpoint.RULE: api_calls.CHECKPOINT,
    tokenizer.RULE: api_calls.TOKENIZER,
}
# The rules of time whose reason the capture does not show: a range of the program names the place.
PLACED = ("idle/cpu", "idle/unknown", untraced_wait.RULE)
OWN_CAUSES = {each.rule: each.own_causes for each in ROOT_CAUSES if each.own_causes}


def find_idle_findings(
    simulation: Simulation, attributions: tuple[Attribution, ...], idle_gaps: pd.DataFrame, window: Window
) -> tuple[Finding, ...]:
    """Return one finding for each device and rule that takes at least 2 % of the window.

    Args:
        simulation: The run as it was.
        attributions: The idle time of each device.
        idle_gaps: The table of gaps: the rows of each attribution, one after another.
        window: Interval of the findings.
    """
    found, first = [], 0
    # A fix of the program is one for all devices, so it is simulated once.
    of_program = cache(partial(_saving_of_program, simulation, attributions))
    for each in attributions:
        mine = idle_gaps.iloc[first : first + len(each.rule)]
        first += len(each.rule)
        found += [
            _finding(simulation, of_program, each, rule, mine)
            for rule in _printed_here(simulation.context)
            if worth_printing(each.idle_of(rule), window)
        ]
    return tuple(sorted(found, key=lambda finding: finding.order))


def _printed_here(context: TraceContext) -> Iterator[str]:
    """Yield the rules of ``ADVICE``; where allocations were recorded, the section on memory has the rule on churn."""
    churn = allocator_churn.RULE if len(context.trace[tables.MEMORY]) else ""
    yield from (rule for rule in ADVICE if rule != churn)


def _finding(
    simulation: Simulation,
    of_program: Callable[[str, Advice, float], Saving],
    attribution: Attribution,
    rule: str,
    gaps: pd.DataFrame,
) -> Finding:
    context, window = simulation.context, attribution.window
    advice, lost = advice_for(context, simulation.states, attribution, rule), attribution.idle_of(rule)
    share = _mark_share(context, attribution) if rule == capture_overhead.RULE else 0.0
    in_ranges = _in_ranges(context, attribution, rule) if rule in PLACED else []
    saving = _saving_of_device(simulation, attribution, rule) or of_program(rule, advice, share)
    return make_finding(
        rule=rule,
        headline=advice.headline.format(share=units.share(lost / window.length_ns), range=_mostly(in_ranges, lost)),
        lost_ns=lost,
        saving=saving,
        advice=advice.advice,
        evidence=(
            *per_step(context, lost, window),
            *(untraced(context, attribution) if rule == "idle/cpu" else ()),
            *(core_use(context, window) if rule in NO_CORE else ()),
            *(page_use(context, window) if rule == page_faults.RULE else ()),
            *_marked(context, attribution, rule),
            *most_sampled(attribution, rule),
            *_by_phase(context, attribution, rule),
            *(f"{units.duration(ns)} in range {text}" for ns, text in in_ranges[:WORST_GAPS]),
            *_longest(gaps, attribution, rule),
        ),
        device_id=attribution.device_id,
        window=window,
        is_note=not advice.can_save,
        usual_share=lost / window.length_ns if advice.is_slight else None,
        worst=Severity.WARNING if advice.is_slight else Severity.PROBLEM,
    )


def _saving_of_device(simulation: Simulation, attribution: Attribution, rule: str) -> Saving | None:
    """Return what fixing a rule on one device saves; None where the fix is one of the whole program."""
    chosen = attribution.of_rule(rule)
    if rule == between_operations.RULE:
        between = Spans(taken(attribution.pieces.start, chosen), taken(attribution.pieces.end, chosen))
        return predict(simulation, partial(changes.fewer_operations, between, attribution.device_id))
    return None


def _saving_of_program(
    simulation: Simulation, attributions: tuple[Attribution, ...], rule: str, advice: Advice, mark_share: float
) -> Saving:
    """Return what fixing a rule saves; the change applies to all ranks, since they run the same program.

    Args:
        simulation: The run as it was.
        attributions: The idle time of each device.
        rule: The rule.
        advice: Its advice.
        mark_share: Share of the rule's idle time that the marks of ranges take, where the rule is about them.
    """
    if not advice.can_save:
        # Time that is not traced cannot be predicted. No change of the program saves the time of the profiler.
        return NO_SAVING if rule == "idle/profiler" else Saving(None, None, None, ())
    cause = rule.removeprefix("idle/")
    if cause in changes.OF_CAUSE:
        return predict(simulation, changes.OF_CAUSE[cause])
    spans = host_spans(simulation, attributions, rule)
    of_root: dict[str, Callable[[Simulation], WhatIf]] = {
        allocator_churn.RULE: changes.allocation,
        blocking_waits.RULE: changes.one_copy if advice.advice == SMALL_COPIES else changes.reads,
        worker_start.RULE: partial(changes.worker_starts, spans),
        capture_overhead.RULE: partial(changes.marks, spans, mark_share),
    }
    return predict(simulation, of_root.get(rule, partial(changes.idle_host, spans)))


def _mark_share(context: TraceContext, attribution: Attribution) -> float:
    """Return an upper bound of the share of the rule's idle time that the marks of ranges take."""
    chosen = attribution.of_rule(capture_overhead.RULE)
    pieces, spent = attribution.pieces.of(chosen), 0.0
    for thread, marks in capture_overhead.find_marks(context, attribution.window).items():
        mine = pieces.is_thread(thread)
        spent += float(marks.time_inside(pieces.start[mine], pieces.end[mine]).sum())
    return spent / max(int(pieces.length.sum()), 1)


def host_spans(simulation: Simulation, attributions: tuple[Attribution, ...], rule: str) -> dict[int, Spans]:
    """Return the idle time of a rule that each launching thread would save, by thread.

    A thread would save the idle time that any thread of its process explains.
    """
    of_process: dict[int, Spans] = {}
    for process in {thread & ~tables.THREAD_MASK for thread in simulation.threads}:
        mine = [each.of_rule(rule) & each.pieces.is_process(process) for each in attributions]
        chosen = list(zip(attributions, mine, strict=True))
        of_process[process] = merge(
            np.concatenate([taken(each.pieces.start, rows) for each, rows in chosen]),
            np.concatenate([taken(each.pieces.end, rows) for each, rows in chosen]),
        )
    return {thread: of_process[thread & ~tables.THREAD_MASK] for thread in simulation.threads}


def per_step(context: TraceContext, lost_ns: int, window: Window) -> tuple[str, ...]:
    """Return the time lost in a step as a line of evidence; empty where the window is not made of steps."""
    # Steps of one process: all ranks run the same steps at the same time.
    steps = context.steps.measured_count
    if not window.is_of_steps or not steps:
        return ()
    return (f"{units.duration(lost_ns // steps)} a step, in {window.label}",)


def untraced(context: TraceContext, attribution: Attribution) -> tuple[str, ...]:
    """Return a line of evidence where neither calls of the operating system nor switches show a wait; else none."""
    owners = attribution.pieces.threads[tables.distinct(attribution.pieces.owner[attribution.of_rule("idle/cpu")])]
    if tables.OS_CALLS.name not in context.trace.absent or all(
        has_switches(context.trace, int(each)) for each in owners
    ):
        return ()
    return ("it may wait there as well: operating system calls were not recorded (add osrt to the traces)",)


def _marked(context: TraceContext, attribution: Attribution, rule: str) -> tuple[str, ...]:
    """Return the marks with most of a rule's idle time, as lines of evidence: what ran, and where it was called."""
    if rule not in MARKED:
        return ()
    marks = find_marks(context.trace)
    pieces = attribution.pieces.of(attribution.of_rule(rule))
    idle: dict[str, int] = {}
    mine = marks[marks["kind"] == MARKED[rule]]
    for (thread, text), each in mine.groupby(["thread", "text"], sort=True):
        own = pieces.of(np.flatnonzero(pieces.is_thread(int(str(thread)))))
        inside = covered(merge(array(each, "start"), array(each, "end")), own.start, own.end)
        idle[str(text)] = idle.get(str(text), 0) + int(inside.sum())
    longest = sorted(((ns, text) for text, ns in idle.items() if ns), key=lambda row: (-row[0], row[1]))
    return tuple(f"{units.duration(ns)} in {text}" for ns, text in longest[:WORST_GAPS])


def most_sampled(attribution: Attribution, rule: str) -> tuple[str, ...]:
    """Return the line of Python with most samples as a line of evidence; empty where there is no sample.

    Where the rule is about a kind of call, samples inside such calls count before others.
    """
    lines = attribution.lines[attribution.lines["rule"] == rule]
    in_calls = lines[lines["cause"].isin(OWN_CAUSES.get(rule, ()))]
    lines = in_calls if len(in_calls) else lines
    if not len(lines):
        return ()
    by_line = lines.groupby(["file", "line", "function"], as_index=False)["sample_count"].sum()
    most = by_line.iloc[int(by_line["sample_count"].argmax())]
    where = spelled(Frame(str(most["function"]), str(most["file"]), int(most["line"])))
    return (f"{MOST_SAMPLES}{where}, {most['sample_count']} of {by_line['sample_count'].sum()}",)


def _by_phase(context: TraceContext, attribution: Attribution, rule: str) -> tuple[str, ...]:
    """Return a line for each phase: idle time and number of gaps, largest first."""
    chosen = attribution.of_rule(rule)
    phase, gap = taken(attribution.pieces.phase, chosen), taken(attribution.pieces.gap, chosen)
    length = attribution.pieces.length_of(chosen)
    rows = []
    for code in tables.distinct(phase).tolist():
        mine = phase == code
        # Pieces are ordered by gap.
        gaps = int(np.count_nonzero(np.diff(taken(gap, mine), prepend=-1)))
        rows.append((int(taken(length, mine).sum()), context.phases.where(code), gaps))
    rows.sort(key=lambda row: (-row[0], row[1]))
    return tuple(f"{units.duration(idle)} {where}, {units.counted(count, 'gap')}" for idle, where, count in rows)


def _in_ranges(context: TraceContext, attribution: Attribution, rule: str) -> list[tuple[int, str]]:
    """Return the idle time of a rule by the innermost range that is open on its thread, largest first.

    Ranges that are steps or phases do not count, nor those of libraries and operators.
    """
    ranges = context.trace[tables.RANGES]
    named = ~of_operators(ranges) & ~of_library(ranges) & ~np.isin(array(ranges, "start"), context.steps.frame["start"])
    named[context.phases.marked.index.to_numpy()] = False
    pieces = attribution.pieces.of(attribution.of_rule(rule))
    start, end, thread = (array(ranges, name)[named] for name in ("start", "end", "thread"))
    code = ranges["text"].cat.codes.to_numpy()[named]
    idle = np.zeros(len(ranges["text"].cat.categories), np.int64)
    for each in np.intersect1d(thread, pieces.threads).tolist():
        mine, of_thread = thread == each, np.flatnonzero(pieces.is_thread(each))
        opened = innermost(start[mine], end[mine], code[mine])
        _, at, low, high = overlay(Spans(pieces.start[of_thread], pieces.end[of_thread]), opened.spans)
        np.add.at(idle, opened.code[at], high - low)
    rows = [(int(idle[at]), str(ranges["text"].cat.categories[at])) for at in np.flatnonzero(idle).tolist()]
    return sorted(rows, key=lambda row: (-row[0], row[1]))


def _mostly(in_ranges: list[tuple[int, str]], lost: int) -> str:
    """Return the range with more than half of some time as a part of a sentence; empty where there is none."""
    return f", in range {in_ranges[0][1]}" if in_ranges and 2 * in_ranges[0][0] > lost else ""


def _longest(gaps: pd.DataFrame, attribution: Attribution, rule: str) -> tuple[str, ...]:
    """Return the longest pieces of a rule with their evidence."""
    rows = np.flatnonzero(attribution.of_rule(rule))
    length = attribution.pieces.length_of(rows)
    if len(rows) > WORST_GAPS:
        # Only the longest are sorted.
        mine = np.flatnonzero(length >= np.partition(length, -WORST_GAPS)[-WORST_GAPS])
        rows, length = rows[mine], length[mine]
    order = np.argsort(-length, kind="stable")[:WORST_GAPS]
    chosen = gaps.iloc[rows[order]]
    return tuple(
        f"{units.duration(ns)} at {start / 1e9:.6f} s: {evidence}"
        for ns, start, evidence in zip(length[order].tolist(), chosen["start_ns"], chosen["evidence"], strict=True)
    )
