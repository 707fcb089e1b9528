"""Why the GPU was idle: the attribution of each idle nanosecond to a rule, a cause and a phase, with evidence."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.attribution.attribution import RULES, Attribution
from nsyswrap.attribution.causes import CAUSES
from nsyswrap.attribution.idle_accounts import idle_accounts, numbered, sums_by_gap
from nsyswrap.base.intervals import NOTHING, Window
from nsyswrap.base.row_sums import typed_table
from nsyswrap.events import api_calls
from nsyswrap.events.duration_stats import statistics
from nsyswrap.events.thread_states import NO_NAME, ThreadStates
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import NO_PHASE
from nsyswrap.model import Fact, Finding, Section
from nsyswrap.ranks.many import OtherRanks
from nsyswrap.sections.spec import About, Kind, SectionSpec
from nsyswrap.trace import tables

# {name} is the call that shows the cause, {thread} the thread that launches.
EVIDENCE = {
    "not_traced": "the capture does not show what ran or which thread launched it",
    "queued": "launched by {name} on thread {thread}, not begun yet",
    "launch": "{name} is open on thread {thread}",
    "profiler": "profiler overhead on thread {thread}: {name}",
    "module_load": "{name} is open on thread {thread}",
    "allocation": "{name} is open on thread {thread}",
    "blocking_copy": "{name} blocks thread {thread}",
    "synchronization": "{name} blocks thread {thread}",
    "peer_wait": "thread {thread} is in {name}",
    "data_wait": "thread {thread} waits for data in {name}",
    "data_work": "thread {thread} prepares data itself",
    "lock": "thread {thread} waits for a lock in {name}",
    "off_cpu": "thread {thread} has no CPU core",
    "garbage_collection": "{name} on thread {thread}",
    "file_io": "thread {thread} is in {name}",
    "cpu": "thread {thread} runs code outside CUDA calls",
    "unknown": "thread {thread} waits in {name} for another thread",
}
RECORDING = "nsys records the calls of thread {thread}"
IN_CALL = "thread {thread} is in {name}"
FIRST_LAUNCH = "{name} on thread {thread} loads the kernel: this is its first launch"
OFF_CPU_IN_CALL = "thread {thread} waits, off the CPU, in {name}"
UNTRACED = "thread {thread}: waiting or working, operating system calls were not recorded"
WAITS_LOOK_LIKE_WORK = "waits of the host look like work"
UNEXPLAINED = ("unknown", "not_traced")


class IdleSums(NamedTuple):
    """The idle time of each device in all."""

    by_account: pd.DataFrame
    patterns: pd.DataFrame


def find_idle_sums(
    context: TraceContext, window: Window, attributions: tuple[Attribution, ...], others: OtherRanks
) -> IdleSums:
    """Return the idle time of each device by rule, cause and phase, and pattern by pattern.

    That of ranks that are not shown in detail is by rule, cause and phase only.
    """
    texts, sums = dict.fromkeys(("cause", "rule", "phase"), str), dict.fromkeys(("idle_ns", "gap_count"), np.int64)
    of_device = {each.device_id: idle_accounts(each, context.phases) for each in attributions} | dict(others.idle)
    rows = [(device, *row) for device in sorted(of_device) for row in of_device[device]]
    steps = context.steps.measured_count if window.is_of_steps else 0
    columns = {"count": np.int64, "median_ns": np.float64, "idle_ns": np.int64, "per_step": np.float64}
    # The idle time of one rule and phase in one gap counts as one gap.
    patterns = [
        (*row, row[3] / steps if steps else math.nan)
        for each in attributions
        for row in _device_patterns(context, each)
    ]
    return IdleSums(
        typed_table(rows, {"device_id": np.int64, **texts, **sums}),
        typed_table(patterns, {"device_id": np.int64, "rule": str, "phase": str, **columns}),
    )


def find_idle_gaps(context: TraceContext, states: ThreadStates, attributions: tuple[Attribution, ...]) -> pd.DataFrame:
    """Return the table of gaps: the rows of each device, one after another."""
    every = [_gaps(context, states, each) for each in attributions]
    return pd.concat(every, ignore_index=True) if len(every) > 1 else every[0]


def run(
    context: TraceContext,
    window: Window,
    idle_sums: IdleSums,
    idle_gaps: pd.DataFrame,
    idle_findings: tuple[Finding, ...],
) -> Section:
    """Return the idle time of each device by rule, cause and phase, gap by gap and pattern by pattern."""
    by_account = idle_sums.by_account
    idle = int(by_account["idle_ns"].sum())
    unknown = int(by_account.loc[by_account["cause"].isin(UNEXPLAINED), "idle_ns"].sum())
    notes = []
    if tables.OS_CALLS.name in context.trace.absent:
        looks = "no call names a wait of the host" if len(context.trace[tables.SCHEDULING]) else WAITS_LOOK_LIKE_WORK
        notes.append(f"Operating system calls were not recorded, so {looks}: add osrt to the traces.")
    if not context.phases.main_thread:
        notes.append("No range names a phase, so idle time has no phase: add NVTX ranges, or name yours with --phase.")
    return SECTION.made(
        window,
        facts=(
            Fact("idle_ns", idle, "ns"),
            Fact("explained_share", (idle - unknown) / idle if idle else 1.0, "share"),
        ),
        tables={"attribution": by_account, "gaps": idle_gaps, "patterns": idle_sums.patterns},
        findings=idle_findings,
        notes=tuple(notes),
    )


def _gaps(context: TraceContext, states: ThreadStates, attribution: Attribution) -> pd.DataFrame:
    """Return a row for each piece of idle time, in order of time."""
    pieces = attribution.pieces
    names = [context.phases.name(code) for code in range(NO_PHASE, len(context.phases.names))]
    return pd.DataFrame(
        {
            "device_id": np.broadcast_to(np.int64(attribution.device_id), len(pieces.start)),
            "start_ns": pieces.start,
            "end_ns": pieces.end,
            "cause": _category(pieces.cause, CAUSES),
            "rule": _category(attribution.rule, RULES),
            "phase": _category(pieces.phase - NO_PHASE, names),
            "evidence": _evidence(context, states, attribution),
        },
        copy=False,
    )


def _device_patterns(context: TraceContext, attribution: Attribution) -> list[tuple[int, str, str, int, float, int]]:
    """Return the rows of one device, without ``per_step``."""
    pieces = attribution.pieces
    width = len(context.phases.names) + 1
    codes, unique = numbered(
        lambda some: attribution.rule[some].astype(np.int64) * width + pieces.phase[some] + 1,
        len(pieces.start),
        len(RULES) * width,
    )
    parts = [(codes[:0], NOTHING.start), *sums_by_gap(codes, pieces)]
    code, length = (np.concatenate(each) for each in zip(*parts, strict=True))
    summed = statistics(code, length, len(unique))
    values = (summed[name].tolist() for name in ("count", "median_ns", "total_ns"))
    rows = []
    for each, count, median, idle in zip(unique.tolist(), *values, strict=True):
        rule, phase = divmod(each, width)
        rows.append((attribution.device_id, RULES[rule], context.phases.name(phase - 1), count, median, idle))
    return sorted(rows, key=lambda row: (-row[5], row[1], row[2]))


def _evidence(context: TraceContext, states: ThreadStates, attribution: Attribution) -> "pd.Series[Any]":
    """Return a sentence for each piece as a categorical column, since few sentences are distinct."""
    pieces = attribution.pieces
    thread_ids, width = pieces.threads, len(states.names) + 1
    # No name has the largest index, so that it becomes the last one here.
    codes, unique = numbered(
        lambda some: (
            (pieces.cause[some].astype(np.int64) * len(thread_ids) + pieces.owner[some]) * width
            + np.minimum(pieces.name[some], width - 1)
        ),
        len(pieces.start),
        len(CAUSES) * len(thread_ids) * width,
    )
    untraced = tables.OS_CALLS.name in context.trace.absent
    texts = []
    for each in unique:
        rest, index = divmod(int(each), width)
        name = index if index < width - 1 else NO_NAME
        cause, thread = divmod(rest, len(thread_ids))
        texts.append(_sentence(CAUSES[cause], int(thread_ids[thread]), name, states, untraced=untraced))
    merged, distinct = pd.factorize(np.array(texts, dtype=object))
    return _category(merged.astype(np.int32)[codes] if len(codes) else codes, distinct)


def _category(codes: npt.NDArray[np.integer[Any]], names: Iterable[str]) -> "pd.Series[Any]":
    """Return a categorical column from codes and the names that they refer to."""
    return pd.Series(pd.Categorical.from_codes(codes, pd.Index(list(names), dtype=object)))


def _sentence(cause: str, thread: int, name: int, states: ThreadStates, *, untraced: bool) -> str:
    template = EVIDENCE[cause]
    if cause == "unknown" and (name == NO_NAME or untraced):
        template = UNTRACED
    elif cause == "profiler" and name == NO_NAME:
        template = RECORDING
    elif cause == "cpu" and name != NO_NAME:
        template = IN_CALL
    elif cause == "off_cpu" and name != NO_NAME:
        template = OFF_CPU_IN_CALL
    elif cause == "module_load" and name != NO_NAME and api_calls.is_launch(states.names[name]):
        template = FIRST_LAUNCH
    call = states.names[name] if name != NO_NAME else "a call"
    return template.format(name=call, thread=tables.tid(thread))


SECTION = SectionSpec(
    key="idle",
    title="Why the GPU was idle",
    run=run,
    about=About.BOTH,
    of_operations=True,
    place=20,
    on_page_only=False,
    columns={
        "attribution": "device_id cause rule phase idle_ns gap_count",
        "gaps": "device_id start_ns end_ns cause rule phase evidence",
        "patterns": "device_id rule phase count median_ns idle_ns per_step",
    },
    kinds={Kind.TEXT: "evidence", Kind.NUMBER: "per_step"},
    headings={"gap_count": "gaps", "per_step": "gaps a step"},
    facts={"idle_ns": "idle time", "explained_share": "idle time whose cause is shown"},
)
