"""The findings on idle time: one for each device and rule that takes enough of the window."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np
import pandas as pd

from nsyswrap.attribution.attribution import Attribution
from nsyswrap.attribution.root_causes import ROOT_CAUSES
from nsyswrap.attribution.sampled_lines import spelled
from nsyswrap.base import units
from nsyswrap.base.intervals import Spans, Window, covered, innermost, merge, overlay
from nsyswrap.base.rows import taken
from nsyswrap.events import api_calls
from nsyswrap.events.host_record import find_marks
from nsyswrap.events.off_cpu import has_switches
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.injected_ranges import of_operators
from nsyswrap.loop.phase_detection import of_library
from nsyswrap.model import ENDED_AT, MOST_SAMPLES, Finding, Severity
from nsyswrap.rules import host, memory, rule_of
from nsyswrap.rules.idle import CPU, LOCK, PROFILER, UNKNOWN
from nsyswrap.sections.host_time import RULE_OF
from nsyswrap.sections.idle_advice import NO_CORE, OWN_RULES, advice_for, calls_meanwhile, core_use, page_use
from nsyswrap.sections.places import LISTED, place_lines
from nsyswrap.sections.severity import make_finding, ordered, worth_printing
from nsyswrap.trace import tables
from nsyswrap.trace.tables import Frame, array
from nsyswrap.what_if.changes import fix_of
from nsyswrap.what_if.fix import LostTime
from nsyswrap.what_if.saving import NO_SAVING, Saving, predict
from nsyswrap.what_if.simulate import Simulation

# The kinds of marks of work that nsyswrap marks.
MARKED = (api_calls.GARBAGE_COLLECTION, api_calls.CHECKPOINT, api_calls.TOKENIZER)
# The rules of time whose reason the capture does not show: a range of the program names the place.
PLACED = (CPU.key, UNKNOWN.key, host.UNTRACED_WAIT.key)
# What is known to be saved, by rule and advice.
Savings = dict[tuple[str, str], Saving]
OWN_CAUSES = {each.rule.key: each.own_causes for each in ROOT_CAUSES if each.own_causes}


def find_idle_findings(
    simulation: Simulation, attributions: tuple[Attribution, ...], idle_gaps: pd.DataFrame, window: Window
) -> tuple[Finding, ...]:
    """Return one finding for each device and rule that takes at least 2 % of the window."""
    found, first = [], 0
    known: Savings = {}
    # Where allocations were recorded, the section on memory has the rule on churn.
    churn = memory.CHURN.key if len(simulation.context.trace[tables.MEMORY]) else ""
    for each in attributions:
        mine = idle_gaps.iloc[first : first + len(each.rule)]
        first += len(each.rule)
        found += [
            _finding(simulation, known, LostTime(rule, attributions), each, mine)
            for rule in OWN_RULES
            if rule != churn and worth_printing(each.idle_of(rule), window)
        ]
    return ordered(found)


def _finding(
    simulation: Simulation, known: Savings, lost_time: LostTime, attribution: Attribution, gaps: pd.DataFrame
) -> Finding:
    rule = lost_time.rule
    context, window = simulation.context, attribution.window
    advice, lost = advice_for(context, simulation.states, attribution, rule), attribution.idle_of(rule)
    in_ranges = _in_ranges(context, attribution, rule) if rule in PLACED else []
    mostly = f", in range {in_ranges[0][1]}" if in_ranges and 2 * in_ranges[0][0] > lost else ""
    rows = np.flatnonzero(attribution.of_rule(rule))
    length = attribution.pieces.length_of(rows)
    if len(rows) > LISTED:
        # Only the longest are sorted.
        mine = np.flatnonzero(length >= np.partition(length, -LISTED)[-LISTED])
        rows, length = rows[mine], length[mine]
    order = np.argsort(-length, kind="stable")[:LISTED]
    chosen = gaps.iloc[rows[order]]
    longest = tuple(
        f"{units.duration(ns)} at {start / 1e9:.6f} s: {evidence}"
        for ns, start, evidence in zip(length[order].tolist(), chosen["start_ns"], chosen["evidence"], strict=True)
    )
    return make_finding(
        rule=rule_of(rule),
        headline=advice.headline.format(share=units.share(lost / window.length_ns), range=mostly),
        lost_ns=lost,
        saving=_saving(simulation, known, replace(lost_time, advice=advice.advice)),
        advice=advice.advice,
        evidence=(
            *per_step(context, lost, window),
            *(untraced(context, attribution) if rule == CPU.key else ()),
            *(core_use(context, window) if rule in NO_CORE else ()),
            *(page_use(context, window) if rule == host.PAGE_FAULTS.key else ()),
            *(meanwhile(context, attribution) if rule == LOCK.key else ()),
            *_marked(context, attribution, rule),
            *costliest_line(context, attribution, rule),
            *_by_phase(context, attribution, rule),
            *(f"{units.duration(ns)} in range {text}" for ns, text in in_ranges[:LISTED]),
            *longest,
        ),
        device_id=attribution.device_id,
        window=window,
        is_note=not rule_of(rule).can_save,
        usual_share=lost / window.length_ns if rule_of(rule).is_slight else None,
        worst=Severity.WARNING if rule_of(rule).is_slight else Severity.PROBLEM,
    )


def _saving(simulation: Simulation, known: Savings, lost: LostTime) -> Saving:
    """Return what fixing a rule saves, and add it to those that are known.

    A fix is one of the program, on all ranks and GPUs, so it is simulated once for all devices.
    """
    if not rule_of(lost.rule).can_save:
        # Time that is not traced cannot be predicted. No change of the program saves the time of the profiler.
        return NO_SAVING if lost.rule == PROFILER.key else Saving(None, None, ())
    key = (lost.rule, lost.advice)
    if key not in known:
        known[key] = predict(simulation, lambda run: fix_of(lost.rule).change(run, lost))
    return known[key]


def per_step(context: TraceContext, lost_ns: int, window: Window) -> tuple[str, ...]:
    """Return the time lost in a step as a line of evidence; empty where the window is not made of steps."""
    # Steps of one process: all ranks run the same steps at the same time.
    steps = context.steps.measured_count
    if not window.is_of_steps or not steps:
        return ()
    return (f"{units.duration(lost_ns // steps)} a step, in {window.label}",)


def meanwhile(context: TraceContext, attribution: Attribution) -> Iterator[str]:
    """Yield what another thread does while the launching threads wait for a lock, as a line of evidence."""
    for (thread, call), ns in islice(calls_meanwhile(context, attribution).items(), 1):
        yield f"meanwhile, {thread} is in {call} for {units.duration(ns)}"


def untraced(context: TraceContext, attribution: Attribution) -> tuple[str, ...]:
    """Return a line of evidence where neither calls of the operating system nor switches show a wait; else none."""
    owners = attribution.pieces.threads[tables.distinct(attribution.pieces.owner[attribution.of_rule(CPU.key)])]
    if tables.OS_CALLS.name not in context.trace.absent or all(
        has_switches(context.trace, int(each)) for each in owners
    ):
        return ()
    return ("it may wait there as well: operating system calls were not recorded (add osrt to the traces)",)


def _marked(context: TraceContext, attribution: Attribution, rule: str) -> tuple[str, ...]:
    """Return the marks with most of a rule's idle time, as lines of evidence: what ran, and where it was called."""
    mark = next((each for each in MARKED if RULE_OF[each] == rule), None)
    if mark is None:
        return ()
    marks = find_marks(context.trace)
    pieces = attribution.pieces.of(attribution.of_rule(rule))
    idle: dict[str, int] = {}
    mine = marks[marks["kind"] == mark]
    for (thread, text), each in mine.groupby(["thread", "text"], sort=True):
        own = pieces.of(np.flatnonzero(pieces.is_thread(int(str(thread)))))
        inside = covered(merge(array(each, "start"), array(each, "end")), own.start, own.end)
        idle[str(text)] = idle.get(str(text), 0) + int(inside.sum())
    longest = sorted(((ns, text) for text, ns in idle.items() if ns), key=lambda row: (-row[0], row[1]))
    return tuple(f"{units.duration(ns)} in {text}" for ns, text in longest[:LISTED])


def costliest_line(context: TraceContext, attribution: Attribution, rule: str) -> tuple[str, ...]:
    """Return the line of Python with most of a rule's idle time as a line of evidence; empty where it is not known.

    It is the one with most samples. Where there are none, it is the line of the X-ray step whose launches end most of
    that time.
    """
    if found := _most_sampled(attribution, rule):
        return found
    mine = attribution.of_rule(rule)
    ender, length = attribution.ender[attribution.pieces.gap[mine]], attribution.pieces.length_of(mine)
    found = place_lines(context, ender[ender >= 0], length[ender >= 0], ENDED_AT)[:1]
    return tuple(f"{each} (X-ray step)" for each in found)


def _most_sampled(attribution: Attribution, rule: str) -> tuple[str, ...]:
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
