"""Why the GPU was idle: the attribution of each idle nanosecond to a rule, a cause and a phase, with evidence."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import tables
from nsyswrap.attribution.attribution import RULES, Attribution
from nsyswrap.attribution.causes import CAUSES
from nsyswrap.attribution.pieces import Pieces
from nsyswrap.events.duration_stats import summarize
from nsyswrap.events.thread_states import NO_NAME, ThreadStates
from nsyswrap.intervals import Times, Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import NO_PHASE
from nsyswrap.model import Fact, Section
from nsyswrap.sections.idle_findings import find_findings
from nsyswrap.sections.spec import SectionSpec
from nsyswrap.what_if.simulate import Simulation

TITLE = "Why the GPU was idle"

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
UNTRACED = "thread {thread}: waiting or working, operating system calls were not traced"
UNEXPLAINED = ("unknown", "not_traced")


def run(
    context: TraceContext,
    window: Window,
    states: ThreadStates,
    attributions: tuple[Attribution, ...],
    simulation: Simulation,
) -> Section:
    """Return the idle time of each device by rule, cause and phase, gap by gap and pattern by pattern."""
    by_account = pd.concat([_by_account(context, each) for each in attributions], ignore_index=True)
    gaps = pd.concat([_gaps(context, states, each) for each in attributions], ignore_index=True)
    idle = int(by_account["idle_ns"].sum())
    unknown = int(by_account.loc[by_account["cause"].isin(UNEXPLAINED), "idle_ns"].sum())
    return Section(
        key="idle",
        title=TITLE,
        window=window,
        facts=(
            Fact("idle_ns", idle, "ns"),
            Fact("explained_share", (idle - unknown) / idle if idle else 1.0, "share"),
        ),
        tables={
            "attribution": by_account,
            "gaps": gaps,
            "patterns": pd.concat([_patterns(context, each, window) for each in attributions], ignore_index=True),
        },
        findings=find_findings(simulation, attributions, gaps, window),
        notes=_notes(context),
    )


def _notes(context: TraceContext) -> tuple[str, ...]:
    notes = []
    if tables.OS_CALLS.name in context.trace.absent:
        notes.append(
            "Operating system calls were not traced, so waits of the host look like work: add osrt to the traces."
        )
    if not context.phases.main_thread:
        notes.append("No range names a phase, so idle time has no phase: add NVTX ranges, or name yours with --phase.")
    return tuple(notes)


def _by_account(context: TraceContext, attribution: Attribution) -> pd.DataFrame:
    """Return idle time and the number of gaps by rule, cause and phase, largest first."""
    pieces = attribution.pieces
    width = len(context.phases.names) + 1
    key = (attribution.rule.astype(np.int64) * len(CAUSES) + pieces.cause) * width + (pieces.phase + 1)
    codes, unique = pd.factorize(key)
    idle = np.zeros(len(unique), np.int64)
    np.add.at(idle, codes, pieces.length)
    accounts = [divmod(int(each), width) for each in unique]
    frame = pd.DataFrame(
        {
            "device_id": np.full(len(unique), attribution.device_id),
            "cause": [CAUSES[account % len(CAUSES)] for account, _ in accounts],
            "rule": [RULES[account // len(CAUSES)] for account, _ in accounts],
            "phase": [context.phases.name(phase - 1) for _, phase in accounts],
            "idle_ns": idle,
            "gap_count": _gaps_of(pieces.gap, codes, len(unique)),
        }
    )
    return frame.sort_values(
        ["idle_ns", "rule", "cause", "phase"], ascending=[False, True, True, True], ignore_index=True
    )


def _gaps_of(gap: npt.NDArray[np.intp], codes: npt.NDArray[np.intp], count: int) -> npt.NDArray[np.intp]:
    """Return in how many gaps each code occurs, shape (count,)."""
    # A gap counts once for each code in it. Pieces are ordered by gap, so the keys are almost sorted.
    keys = np.sort(gap * np.int64(count + 1) + codes, kind="stable")
    fresh = np.append(True, keys[1:] != keys[:-1])[: len(keys)]
    return np.bincount(keys[fresh] % (count + 1), minlength=count)


def _gaps(context: TraceContext, states: ThreadStates, attribution: Attribution) -> pd.DataFrame:
    """Return a row for each piece of idle time, in order of time."""
    pieces = attribution.pieces
    names = [context.phases.name(code) for code in range(NO_PHASE, len(context.phases.names))]
    return pd.DataFrame(
        {
            "device_id": np.full(len(pieces.start), attribution.device_id),
            "start_ns": pieces.start,
            "end_ns": pieces.end,
            "cause": _category(pieces.cause, CAUSES),
            "rule": _category(attribution.rule, RULES),
            "phase": _category(pieces.phase - NO_PHASE, names),
            "evidence": _evidence(context, states, attribution),
        },
        copy=False,
    )


def _patterns(context: TraceContext, attribution: Attribution, window: Window) -> pd.DataFrame:
    """Return the number and median length of the gaps of each rule and phase, most idle time first.

    The idle time of one rule and phase in one gap counts as one gap. ``per_step`` is the number of gaps in a step; NaN
    where the window is not made of steps.
    """
    pieces = attribution.pieces
    key = attribution.rule.astype(np.int64) * (len(context.phases.names) + 1) + pieces.phase + 1
    codes, unique = pd.factorize(key)
    summed = summarize(*_by_gap(codes, pieces), len(unique))
    steps = context.steps.measured_count if window.is_of_steps else 0
    count = summed["count"].to_numpy(np.int64)
    found = pd.DataFrame(
        {
            "device_id": np.full(len(unique), attribution.device_id),
            "rule": [RULES[int(each) // (len(context.phases.names) + 1)] for each in unique],
            "phase": [context.phases.name(int(each) % (len(context.phases.names) + 1) - 1) for each in unique],
            "count": count,
            "median_ns": summed["median_ns"].to_numpy(float),
            "idle_ns": summed["total_ns"].to_numpy(np.int64),
            "per_step": count / steps if steps else np.full(len(unique), np.nan),
        }
    )
    return found.sort_values(["idle_ns", "rule", "phase"], ascending=[False, True, True], ignore_index=True)


def _by_gap(codes: npt.NDArray[np.intp], pieces: Pieces) -> tuple[npt.NDArray[np.intp], Times]:
    """Return the code and the total length of all pieces of one code in one gap; pieces are ordered by gap."""
    order = np.argsort(codes.astype(np.min_scalar_type(len(codes))), kind="stable")
    code, gap = codes[order], pieces.gap[order]
    first = np.flatnonzero(np.append(True, (code[1:] != code[:-1]) | (gap[1:] != gap[:-1]))[: len(code)])
    length: Times = np.add.reduceat(pieces.length[order], first) if len(first) else pieces.length
    return code[first], length


def _evidence(context: TraceContext, states: ThreadStates, attribution: Attribution) -> "pd.Series[Any]":
    """Return a sentence for each piece as a categorical column, since few sentences are distinct."""
    pieces = attribution.pieces
    threads, thread_ids = pd.factorize(pieces.thread)
    key = (pieces.cause.astype(np.int64) * len(thread_ids) + threads) * (NO_NAME + 1) + pieces.name
    codes, unique = pd.factorize(key)
    untraced = tables.OS_CALLS.name in context.trace.absent
    texts = []
    for each in unique:
        rest, name = divmod(int(each), NO_NAME + 1)
        cause, thread = divmod(rest, len(thread_ids))
        texts.append(_sentence(CAUSES[cause], int(thread_ids[thread]), name, states, untraced=untraced))
    merged, distinct = pd.factorize(np.array(texts, dtype=object))
    return _category(merged[codes] if len(codes) else codes, distinct)


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
    call = states.names[name] if name != NO_NAME else "a call"
    return template.format(name=call, thread=tables.tid(thread))


SECTION = SectionSpec("idle", TITLE, (), run, of_operations=True)
