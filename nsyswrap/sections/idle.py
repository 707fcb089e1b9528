"""Why the GPU was idle: its gaps, each nanosecond with a cause, a phase and the evidence for it."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import tables
from nsyswrap.attribution.causes import CAUSES, Pieces
from nsyswrap.attribution.root_causes import NAMES, explain_roots
from nsyswrap.events.thread_states import NO_NAME, ThreadStates
from nsyswrap.intervals import Window
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import NO_PHASE
from nsyswrap.model import Fact, Section
from nsyswrap.sections.idle_findings import IdleTables, findings
from nsyswrap.sections.spec import SectionSpec

# {name} is the call that shows the cause, {thread} the thread that feeds the GPU.
EVIDENCE = {
    "not_traced": "the capture does not show what ran or who launched it",
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
    "off_cpu": "thread {thread} is off the CPU",
    "cpu": "thread {thread} runs code between launches",
    "unknown": "thread {thread} waits in {name} for another thread",
}
HOST_WAIT = "thread {thread} is in {name}"
UNTRACED = "thread {thread}: waiting or working, operating system calls were not traced"


def run(context: TraceContext, window: Window) -> Section:
    """Return the gaps of each device and what they cost by cause and phase."""
    states = context.states(window)
    causes, found_gaps, roots = [], [], []
    for device in context.operations.used_in(window):
        explained = explain_roots(context, states, device, window)
        causes.append(_by_cause(context, explained.pieces, device))
        found_gaps.append(_gaps_table(context, states, explained.pieces, device))
        rooted = replace(explained.pieces, cause=explained.finding)
        roots.append(
            IdleTables(
                by_cause=_by_cause(context, rooted, device),
                gaps=found_gaps[-1].assign(
                    cause=_category(explained.finding, NAMES), process=tables.process_of(explained.pieces.thread)
                ),
                lines=context.root_lines[device, window],
            )
        )
    everywhere = roots[0].gaps if len(roots) == 1 else pd.concat([device.gaps for device in roots], ignore_index=True)
    by_cause, gaps = pd.concat(causes, ignore_index=True), pd.concat(found_gaps, ignore_index=True)
    idle = int(by_cause["idle_ns"].sum())
    unknown = int(by_cause.loc[by_cause["cause"].isin(["unknown", "not_traced"]), "idle_ns"].sum())
    return Section(
        key="idle",
        title="Why the GPU was idle",
        window=window,
        facts=(
            Fact("idle_ns", idle, "ns"),
            Fact("explained_share", (idle - unknown) / idle if idle else 1.0, "share"),
        ),
        tables={"causes": by_cause, "gaps": gaps},
        findings=tuple(
            sorted(
                (each for device in roots for each in findings(context, device, everywhere, window)),
                key=lambda finding: finding.order,
            )
        ),
        notes=_notes(context),
    )


def _notes(context: TraceContext) -> tuple[str, ...]:
    notes = []
    if tables.OS_CALLS.name in context.trace.absent:
        notes.append(
            "Operating system calls were not traced, so a wait of the host cannot be told from its work: "
            "add osrt to the traces."
        )
    if not context.phases.main_thread:
        notes.append("No range names a phase, so idle time has no phase: add NVTX ranges, or name yours with --phase.")
    return tuple(notes)


def _by_cause(context: TraceContext, pieces: Pieces, device: int) -> pd.DataFrame:
    """Return idle time and the number of gaps by cause and phase, dearest first."""
    width = len(context.phases.names) + 1
    key = pieces.cause.astype(np.int64) * width + (pieces.phase + 1)
    codes, unique = pd.factorize(key)
    length = pieces.end - pieces.start
    idle = np.zeros(len(unique), np.int64)
    np.add.at(idle, codes, length)
    # Pieces stand in order of their gaps, so these keys are nearly sorted: a gap counts once for each cause in it.
    keys = np.sort(pieces.gap * np.int64(len(unique) + 1) + codes, kind="stable")
    fresh = np.append(True, keys[1:] != keys[:-1])[: len(keys)]
    count = np.bincount(keys[fresh] % (len(unique) + 1), minlength=len(unique))
    frame = pd.DataFrame(
        {
            "device_id": np.full(len(unique), device),
            "cause": [NAMES[int(k) // width] for k in unique],
            "phase": [context.phases.name(int(k) % width - 1) for k in unique],
            "idle_ns": idle,
            "gap_count": count,
        }
    )
    return frame.sort_values(["idle_ns", "cause", "phase"], ascending=[False, True, True], ignore_index=True)


def _gaps_table(context: TraceContext, states: ThreadStates, pieces: Pieces, device: int) -> pd.DataFrame:
    names = [context.phases.name(code) for code in range(NO_PHASE, len(context.phases.names))]
    return pd.DataFrame(
        {
            "device_id": np.full(len(pieces.start), device),
            "start_ns": pieces.start,
            "end_ns": pieces.end,
            "cause": _category(pieces.cause, CAUSES),
            "phase": _category(pieces.phase - NO_PHASE, names),
            "evidence": _evidence(context, states, pieces),
        },
        copy=False,
    )


def _evidence(context: TraceContext, states: ThreadStates, pieces: Pieces) -> "pd.Series[Any]":
    """Return a sentence for each piece; few are distinct, so each is written once."""
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
    """Return texts that repeat as codes into the distinct ones."""
    return pd.Series(pd.Categorical.from_codes(codes, pd.Index(list(names), dtype=object)))


def _sentence(cause: str, thread: int, name: int, states: ThreadStates, *, untraced: bool) -> str:
    template = EVIDENCE[cause]
    if cause == "unknown" and (name == NO_NAME or untraced):
        template = UNTRACED
    elif cause == "cpu" and name != NO_NAME:
        template = HOST_WAIT
    call = states.names[name] if name != NO_NAME else "a call"
    return template.format(name=call, thread=tables.tid(thread))


SECTION = SectionSpec("idle", "Why the GPU was idle", (), run, of_operations=True)
