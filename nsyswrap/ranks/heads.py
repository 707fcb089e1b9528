"""What a report of many ranks needs of each report before its ranks are compared: identity, clock, steps, collectives.

It is small, so that it can go from one process to another, and so that a thousand fit in memory.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from nsyswrap.attribution.attribution import Attribution, find_attributions
from nsyswrap.attribution.copy_table import find_copies
from nsyswrap.attribution.idle_accounts import idle_accounts
from nsyswrap.attribution.launch_pace import find_launches
from nsyswrap.base.intervals import Spans, Times, Window
from nsyswrap.loop.context import TraceContext, find_calls, find_states
from nsyswrap.loop.step_detection import Shared
from nsyswrap.model import Gpu, Session
from nsyswrap.ranks.activity import activity_of
from nsyswrap.ranks.clocks import Clock, Ends, find_ends
from nsyswrap.ranks.collectives import Timed, split
from nsyswrap.ranks.identity import Ranks, communicators_in, devices_in, find_ranks
from nsyswrap.ranks.in_step import find_lags
from nsyswrap.ranks.parts import Parts, find_parts
from nsyswrap.ranks.rank_times import RankTimes, split_of, times_of


@dataclass(frozen=True)
class Head:
    """What joins the reports of a job: the summary of one report, without its events. Times are in ns of its own clock.

    Attributes:
        name: Its file, for messages.
        rank: Its rank, as its launcher, its folder or its file says; None if unknown.
        world_size: The number of ranks, as its launcher says; None if unknown.
        bytes: Size of the file.
        epoch_ns: Time 0 in ns since 1970, UTC; None if unknown.
        session: How it was made.
        gpus: Its GPUs.
        uuids: UUID of each, by device id, as far as it is known.
        devices: The GPUs that its tables name, ascending.
        communicators: Ids of the communicators that NCCL recorded.
        ranks: Its ranks.
        ends: Its collectives, to join the clocks.
        steps: Its steps that count: process, name, start, end, warm_up.
        step_source: Source of the window of steps.
        extent: Start of its first operation and end of its last.
        phases: Names of its phases.
        parts: Its communication kernels.
    """

    name: str
    rank: int | None
    world_size: int | None
    bytes: int
    epoch_ns: int | None
    session: Session
    gpus: tuple[Gpu, ...]
    uuids: Mapping[int, str]
    devices: tuple[int, ...]
    communicators: frozenset[int]
    ranks: Ranks
    ends: Ends
    steps: pd.DataFrame
    step_source: str
    extent: tuple[int, int]
    phases: tuple[str, ...]
    parts: Parts

    @property
    def processes(self) -> frozenset[int]:
        """Return the global ids of the processes of its ranks."""
        return frozenset(rank.process for rank in self.ranks.each)


@dataclass(frozen=True)
class Joint:
    """What a report must know of the whole job, to compare its ranks with the others.

    Attributes:
        clock: The clock of the report.
        window: The window, by the clock of the job.
        steps: What its processes share with the others, by the clock of the job.
        devices: Number of each of its GPUs among all.
        timed: Its collectives on each of its GPUs, by the clock of the job.
    """

    clock: Clock
    window: Window
    steps: Shared
    devices: Mapping[int, int]
    timed: Mapping[int, Timed]


def head_of(context: TraceContext, name: str, rank: int | None, world_size: int | None) -> Head:
    """Return the summary of one report, to join it with the others of the job.

    Args:
        context: Its trace, events and loop.
        name: Its file.
        rank: Its rank, if known.
        world_size: The number of ranks, if known.
    """
    trace, operations = context.trace, context.operations
    ran = len(operations.start) > 0
    extent = (int(operations.start.min()), int(operations.end.max())) if ran else (0, 1)
    columns = ["process", "name", "start", "end", "warm_up"]
    return Head(
        name=name,
        rank=rank,
        world_size=world_size,
        bytes=trace.capture.bytes,
        epoch_ns=trace.epoch_ns,
        session=trace.session,
        gpus=trace.gpus,
        uuids=trace.gpu_uuids,
        devices=devices_in(trace),
        communicators=communicators_in(trace),
        ranks=find_ranks(trace, operations, context.settings.launched_as),
        ends=find_ends(trace, operations),
        steps=context.steps.counted[columns].reset_index(drop=True),
        step_source=context.steps.source,
        extent=extent,
        phases=context.phases.names,
        parts=find_parts(trace, operations),
    )


def rank_times(context: TraceContext, joint: Joint) -> list[RankTimes]:
    """Return the times of each GPU of a report, with its number among all.

    Args:
        context: The trace of the report, its events and its loop, in its own clock.
        joint: What it must know of the job.
    """
    window = _moved_window(joint.window, joint.clock.from_first)
    start_ns, end_ns = joint.clock.from_first(np.array([joint.steps.start_ns, joint.steps.end_ns], np.int64)).tolist()
    shared = replace(joint.steps, start_ns=start_ns, end_ns=end_ns)
    context = replace(context, steps=replace(context.steps, of_job=shared))
    parts = find_parts(context.trace, context.operations)
    lags = find_lags(context, parts)
    states = find_states(context, window)
    calls = find_calls(context, window, states)
    found = []
    copies, launches = find_copies(context, window), find_launches(context, window)
    for each in find_attributions(context, states, window, calls, copies, launches):
        mine, timed = parts.on(each.device_id), joint.timed[each.device_id]
        start, end = parts.start[mine], parts.end[mine]
        own = Timed(start, np.clip(start + timed.arrival - timed.start, start, end), end)
        exclusive = context.operations.exclusive(each.device_id, each.window)
        activity = activity_of(context, each, split(exclusive, own))
        of_job = joint.window if each.window == window else _moved_window(each.window, joint.clock.to_first)
        moved = [_moved(spans, joint.clock, each.window, of_job) for spans in exclusive]
        idle = idle_accounts(_of_job(each, joint.clock, of_job), context.phases)
        split_ = split_of(split(moved, timed), timed, of_job)
        times = times_of(context, each.window, activity, own, lags[mine], split_)
        found.append(replace(times, device_id=joint.devices[each.device_id], idle=idle))
    return found


def _moved_window(window: Window, to_clock: Callable[[Times], Times]) -> Window:
    """Return a window by another clock."""
    start, end = to_clock(np.array([window.start_ns, window.end_ns], np.int64)).tolist()
    return replace(window, start_ns=start, end_ns=max(end, start + 1))


def _of_job(attribution: Attribution, clock: Clock, window: Window) -> Attribution:
    """Return the idle time of a device by the clock of the job, in a window of that."""
    pieces = attribution.pieces
    start, end = _moved(Spans(pieces.start, pieces.end), clock, attribution.window, window)
    return replace(attribution, pieces=replace(pieces, start=start, end=end))


def _moved(spans: Spans, clock: Clock, own: Window, window: Window) -> Spans:
    """Return spans by the clock of the job, in which their own window is another: what fills one fills the other."""
    start, end = (np.clip(clock.to_first(each), window.start_ns, window.end_ns) for each in (spans.start, spans.end))
    start[spans.start == own.start_ns] = window.start_ns
    end[spans.end == own.end_ns] = window.end_ns
    return Spans(start, end)
