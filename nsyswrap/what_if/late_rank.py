"""The change "the late rank is in time": it saves what kept it longer than the ranks that wait for it.

Those get faster as well, since no collective waits beside their kernels: the rank has to be in time for them.
"""

import numpy as np

from nsyswrap.attribution.attribution import RULES
from nsyswrap.attribution.launch_pace import usual_gap_ns
from nsyswrap.base.intervals import Indices, Spans, clip, covered, merge, total
from nsyswrap.events.operations import COMPUTE, COPY
from nsyswrap.loop.context import TraceContext
from nsyswrap.ranks.activity import COMPUTES, COPIES, USUAL, account_of, code_of
from nsyswrap.ranks.collectives import Collectives
from nsyswrap.ranks.late_ranks import LateRank
from nsyswrap.ranks.lateness import Lateness
from nsyswrap.ranks.same_work import UNNAMED
from nsyswrap.rules.idle import DATA_WAIT
from nsyswrap.trace import tables
from nsyswrap.what_if.beside_waits import without_waits
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.saving import WhatIf
from nsyswrap.what_if.simulate import Simulation


def in_time(lateness: Lateness, late: LateRank, simulation: Simulation) -> WhatIf:
    """Return the change: the rank saves the time that kept it, chance left out.

    Args:
        lateness: Who waits for whom, and why.
        late: The late rank.
        simulation: The run as it was.
    """
    context, activity = simulation.context, lateness.activities[late.device_id]
    charges = lateness.charges.of(~np.isin(lateness.charges.rule.astype(str), list(UNNAMED)))
    mine = (charges.late == late.device_id) & (charges.waiting != late.device_id)
    collectives = simulation.collectives
    parts = np.flatnonzero(np.isin(collectives.group, charges.collective[mine]))
    sooner = min(
        _shorter_ns(context, collectives, parts[collectives.device_id[parts] == each]) for each in late.waiting
    )
    part = (min(late.net.point, late.lost_ns) + sooner) / max(int(charges.wait_ns[mine].sum()), 1)
    # A rank that waits may be ahead: it is seen to wait for a part of the late rank's window.
    until = int(collectives.arrival[parts].max(initial=0))
    spans, rows, factors, loader = [], [], [], 1.0
    for code in np.unique(charges.account[mine]).tolist():
        rule, phase = account_of(int(code), len(lateness.phases))
        phase = context.phases.code(lateness.phase_name(phase))
        at = np.flatnonzero(activity.accounts == code_of(rule, phase, len(context.phases.names)))
        if not len(at):
            continue
        its = activity.spans[int(at[0])]
        excess = part * int(charges.wait_ns[mine & (charges.account == code)].sum())
        seen = total(clip(its, int(its.start[0]), until)) if len(its.start) else 0
        share = min(excess / max(seen, 1), 1.0)
        if rule == DATA_WAIT.key:
            loader = 1 - share
        if rule.removeprefix(USUAL) in RULES:
            its = _between_calls(simulation, late.device_id, its)
            spans.append(Spans(its.end - np.rint((its.end - its.start) * share).astype(np.int64), its.end))
        elif rule in {COMPUTES, COPIES}:
            chosen = _operations(simulation, late.device_id, COMPUTE if rule == COMPUTES else COPY, phase)
            rows.append(chosen)
            factors.append(np.full(len(chosen), 1 - share))
    start, end = (np.concatenate([np.empty(0, np.int64), *(each[side] for each in spans)]) for side in (0, 1))
    change = Change(
        host=dict.fromkeys(threads_of(simulation, late.device_id), merge(start, end)),
        operations=np.concatenate([np.empty(0, np.intp), *rows]),
        factor=np.concatenate([np.empty(0), *factors]),
        loader_factor=loader,
    )
    return WhatIf(
        change,
        "the rank is without the idle time, kernel time and host time that make it late by more than chance",
    )


def _shorter_ns(context: TraceContext, collectives: Collectives, parts: Indices) -> int:
    """Return how much shorter the kernels beside some collectives are without their waits, in ns."""
    operations, change = context.operations, without_waits(context, collectives, parts, 1.0)
    length = operations.end[change.operations] - operations.start[change.operations]
    return round(float((length * (1 - np.asarray(change.factor))).sum()))


def _between_calls(simulation: Simulation, device: int, idle: Spans) -> Spans:
    """Return the idle time of a GPU; a gap that is longer than usual is extended to the calls of the host around it."""
    graph = simulation.graph
    mine = np.flatnonzero(np.isin(graph.thread, threads_of(simulation, device)))
    start, end = graph.work_start[mine], graph.work_end[mine]
    usual = usual_gap_ns(simulation.context, device, simulation.sample)
    chosen = covered(idle, start, end) > usual
    return merge(np.concatenate([idle.start, start[chosen]]), np.concatenate([idle.end, end[chosen]]))


def threads_of(simulation: Simulation, device: int) -> list[int]:
    """Return the launching threads of the processes that a GPU's operations belong to."""
    operations, ran = simulation.context.operations, simulation.operations
    processes = np.unique(operations.process[ran[operations.device_id[ran] == device]])
    threads = np.array(simulation.threads, np.int64)
    found: list[int] = threads[np.isin(tables.process_of(threads), processes)].tolist()
    return found


def _operations(simulation: Simulation, device: int, kind: int, phase: int) -> Indices:
    """Return the simulated operations of one GPU, kind and phase, as rows of the context's operations."""
    context, ran = simulation.context, simulation.operations
    mine = (context.operations.device_id[ran] == device) & (context.operations.kind[ran] == kind)
    found: Indices = ran[mine & (context.phase_of_operations[ran] == phase)]
    return found
