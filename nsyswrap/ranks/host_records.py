"""What was recorded beside the reports of ranks, as one: the samples of the host, and what nsys adds to each call."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import TypeVar

from nsyswrap.base.interval import Interval
from nsyswrap.events.host_record import NO_RECORD, HostRecord, Samples
from nsyswrap.hardware.profiler_cost import KINDS, CallCost, ProfilerCost, Slowdown
from nsyswrap.ranks.clocks import Clock

Key = TypeVar("Key")


def host_of_job(records: Sequence[HostRecord], clocks: Sequence[Clock], gpus: Sequence[frozenset[str]]) -> HostRecord:
    """Return the samples of all ranks, by the clock of the first report.

    Each rank samples its own processes, and all GPUs of its host. On several hosts two processes may have one number;
    these are left out, and so are quota, cores and GPUs, which differ from host to host.

    Args:
        records: The samples beside each report, by its own clock.
        clocks: The clock of each report.
        gpus: UUIDs of the GPUs that each report lists; reports of one host have some in common.
    """
    sampled = [place for place, record in enumerate(records) if len(record.times)]
    if not sampled:
        return NO_RECORD
    moved = [_moved(records[place], clocks[place]) for place in sampled]
    first = moved[0]
    of_one_host = all(gpus[sampled[0]] & gpus[place] for place in sampled)
    return replace(
        first if of_one_host else HostRecord(times=first.times),
        spent_ns=sum(each.spent_ns for each in moved),
        threads=_together([each.threads for each in moved], is_one_host=of_one_host),
        processes=_together([each.processes for each in moved], is_one_host=of_one_host),
    )


def _moved(record: HostRecord, clock: Clock) -> HostRecord:
    """Return samples by the clock of the first report."""
    return replace(
        record,
        times=clock.to_first(record.times),
        throttled=_samples_moved(record.throttled, clock),
        threads={key: _samples_moved(each, clock) for key, each in record.threads.items()},
        processes={key: _samples_moved(each, clock) for key, each in record.processes.items()},
        gpus=tuple(replace(each, samples=_samples_moved(each.samples, clock)) for each in record.gpus),
    )


def _samples_moved(samples: Samples, clock: Clock) -> Samples:
    return replace(samples, at=clock.to_first(samples.at)) if len(samples.at) else samples


def _together(tables: Sequence[Mapping[Key, Samples]], *, is_one_host: bool) -> dict[Key, Samples]:
    """Return the samples of one host by the first table that has a key; of several, those that one table has alone."""
    counts = Counter(key for table in tables for key in table)
    every = ((key, each) for table in reversed(tables) for key, each in table.items())
    return {key: each for key, each in every if is_one_host or counts[key] == 1}


def cost_of_job(costs: Sequence[ProfilerCost | None]) -> ProfilerCost | None:
    """Return what nsys adds to each call, with bounds that hold for all ranks; None where no report has it.

    Args:
        costs: What was measured beside each report.
    """
    known = [each for each in costs if each is not None]
    calls = {kind: [each.calls[kind] for each in known if kind in each.calls] for kind in KINDS}
    if not known:
        return None
    every = {kind: _cost(each) for kind, each in calls.items() if each}
    armed = [each.armed for each in known if each.armed is not None]
    return ProfilerCost(every, max(each.pace_range for each in known), max(armed, default=None))


def _cost(costs: Sequence[CallCost]) -> CallCost:
    """Return the least, the usual and the most of several costs."""
    slowdowns = [each.slowdown for each in costs if each.slowdown is not None]
    return CallCost(
        Interval(
            min(each.added.low for each in costs),
            median(each.added.point for each in costs),
            max(each.added.high for each in costs),
        ),
        alone=median(each.alone for each in costs),
        slowdown=Slowdown(median(each.usual for each in slowdowns), max(each.high for each in slowdowns))
        if slowdowns
        else None,
    )
