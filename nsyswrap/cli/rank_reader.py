"""Reads the captures of many ranks, in this process or in several: first what joins them, then what compares them.

The captures are read twice where they do not fit in memory together; otherwise once.
"""

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from nsyswrap.base.errors import ExportError
from nsyswrap.capture.recorded_run import PROFILER_COST, recorded_host, recorded_steps_alone, recorded_value
from nsyswrap.capture_file import xray_of
from nsyswrap.cli.inputs import sqlite_export
from nsyswrap.events.host_record import read_record
from nsyswrap.hardware.profiler_cost import read_cost
from nsyswrap.hardware.steps_alone import read_steps_alone
from nsyswrap.loop.context import Settings, TraceContext, find_context
from nsyswrap.many.worker import Worker
from nsyswrap.ranks.heads import Head, Joint, head_of, rank_times
from nsyswrap.ranks.rank_report import RankReport
from nsyswrap.ranks.rank_times import RankTimes
from nsyswrap.trace.load import load_export
from nsyswrap.trace.tables import KERNELS, Trace, distinct

# What was read stays in memory up to this size of the exports in each process. Source: ours; a trace in memory takes
# one to two times the size of its export, so that two processes stay below 4 GB.
HELD_BYTES = 700_000_000
# Starting a process costs about as much as reading this many small captures. Source: measured, 2 s and 0.1 s.
WORTH_A_PROCESS = 24
MOST_PROCESSES = 8


class RankCapture(NamedTuple):
    """A capture of one rank.

    Attributes:
        world_size: The number of ranks, if known.
    """

    path: Path
    name: str
    rank: int | None
    world_size: int | None


@dataclass(frozen=True)
class Unreadable:
    """A capture that cannot be read, and why."""

    name: str
    reason: str


def rank_report(source: RankCapture, trace: Trace) -> RankReport:
    """Return the report of a rank, with what `profile` recorded beside it."""
    return RankReport(
        *(source.name, trace, source.rank, source.world_size),
        host=read_record(recorded_host(source.path), trace.epoch_ns),
        profiler_cost=read_cost(recorded_value(source.path, PROFILER_COST)),
        steps_alone=read_steps_alone(recorded_steps_alone(source.path)),
        xray=partial(xray_of, source.path),
    )


class RankReader:
    """Reads the captures of several ranks one after another, and holds as many of them as fit into memory."""

    def __init__(self, sources: Sequence[RankCapture], settings: Settings) -> None:
        self._sources, self._settings = sources, settings
        self._held: dict[int, TraceContext] = {}
        self._held_bytes = 0

    def heads(self) -> list[Head | Unreadable]:
        """Return what joins the ranks, in the order of the captures."""
        found: list[Head | Unreadable] = []
        for number, source in enumerate(self._sources):
            try:
                context = self._read(source)
            except ExportError as error:
                found.append(Unreadable(source.name, str(error)))
                continue
            size = context.trace.capture.bytes
            if self._held_bytes + size <= HELD_BYTES:
                self._held[number] = context
                self._held_bytes += size
                # What is held is no garbage: the collector need not look at a thousand traces again and again.
                gc.freeze()
            found.append(head_of(context, source.name, source.rank, source.world_size))
        return found

    def times(self, joints: Sequence[Joint | None]) -> list[list[RankTimes]]:
        """Return what compares the ranks, in the order of the captures; nothing where ``joints`` has None."""
        found = []
        for number, (source, joint) in enumerate(zip(self._sources, joints, strict=True)):
            context = self._held.pop(number, None)
            found.append([] if joint is None else rank_times(context or self._read(source), joint))
        return found

    def _read(self, source: RankCapture) -> TraceContext:

        with sqlite_export(source.path) as export:
            trace = load_export(export, os.environ)
        processes = distinct(trace[KERNELS]["process"].to_numpy()).tolist()
        launched = {} if source.rank is None else dict.fromkeys(processes, source.rank)
        report = rank_report(source, trace)
        settings = replace(self._settings, host=report.host, profiler_cost=report.profiler_cost)
        return find_context(trace, replace(settings, launched_as=launched))


def _answers(sources: Sequence[RankCapture], settings: Settings) -> Callable[[Sequence[Joint | None] | None], object]:
    """Return what answers the messages of ``Readers`` in another process: None for heads, then joints for times."""
    reader = RankReader(sources, settings)
    return lambda joints: reader.heads() if joints is None else reader.times(joints)


class Readers:
    """Reads the captures of a job with several processes."""

    def __init__(self, sources: Sequence[RankCapture], settings: Settings, count: int) -> None:
        self._count, self._total = count, len(sources)
        self._remote = [Worker(_answers, sources[each::count], settings) for each in range(count)]
        for each in self._remote:
            each.send(None)

    def heads(self) -> list[Head | Unreadable]:
        """Return what joins the ranks, in the order of the captures."""
        found: list[Head | Unreadable] = [Unreadable("", "")] * self._total
        for place, each in enumerate(self._remote):
            found[place :: self._count] = each.answer()  # type: ignore[call-overload]
        return found

    def times(self, joints: Sequence[Joint | None]) -> list[list[RankTimes]]:
        """Return what compares the ranks, in the order of the captures."""
        for place, each in enumerate(self._remote):
            each.send(joints[place :: self._count])
        found: list[list[RankTimes]] = [[]] * self._total
        for place, each in enumerate(self._remote):
            found[place :: self._count] = each.answer()  # type: ignore[call-overload]
        return found

    def end(self) -> None:
        """End the processes."""
        for each in self._remote:
            each.end()


@contextmanager
def reading(sources: Sequence[RankCapture], settings: Settings) -> Iterator[RankReader | Readers]:
    """Yield the reader of some captures: several processes where there is enough to read for them, else this one."""
    cores = len(os.sched_getaffinity(0))
    count = min(cores, len(sources) // WORTH_A_PROCESS, MOST_PROCESSES)
    if count <= 1:
        yield RankReader(sources, settings)
        return
    readers = Readers(sources, settings, count)
    try:
        yield readers
    finally:
        readers.end()
