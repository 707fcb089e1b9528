"""Many ranks as one job, from the heads of their reports: clocks, collectives, and which ranks to show in detail.

A full analysis of a thousand ranks takes long, and its page would be unreadable. Ledgers, idle time by cause,
collectives and waits are of all ranks. All else is of a few: those that others wait for, the one that waits longest, a
usual one, and the first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.attribution.idle_accounts import IdleAccount
from nsyswrap.base.intervals import Indices, Window
from nsyswrap.events.operations import Operations
from nsyswrap.loop.step_detection import Steps
from nsyswrap.model import Gpu
from nsyswrap.ranks.clocks import Clock, find_clocks
from nsyswrap.ranks.collectives import Collectives, matched
from nsyswrap.ranks.heads import Head, Joint
from nsyswrap.ranks.identity import Rank, Ranks
from nsyswrap.ranks.join import (
    REPORT_BITS,
    UNKNOWN_NS,
    ReportIdentity,
    check_clocks,
    check_distinct,
    check_one_job,
    check_together,
    job_notes,
    number_gpus,
)
from nsyswrap.ranks.late_ranks import LateRank
from nsyswrap.ranks.parts import NONE, Parts
from nsyswrap.ranks.rank_times import RankTimes

# Up to so many reports, all ranks are shown in detail. Source: ours; a host has eight GPUs, and eight fit on a page.
ALL_IN_DETAIL = 8
# So many ranks that others wait for are shown in detail at most. Ours.
MOST_LATE = 4


@dataclass(frozen=True)
class ManyRanks:
    """The ranks of a job in one clock.

    Attributes:
        heads: What is known of each report, in order of rank.
        clocks: The clock of each report.
        gpu_numbers: The number of each GPU of each report among all.
        gpus: All GPUs, by number.
        ranks: All ranks.
        steps: The steps of all ranks.
        extent: Start of the first operation and end of the last, in ns.
        collectives: The collectives of all ranks; ``row`` counts in the report of the rank.
        clock_errors: How wrong the times of each process can be, in ns, by global id.
        notes: Missing ranks and what still holds; how exact the clock is.
    """

    heads: Sequence[Head]
    clocks: Sequence[Clock]
    gpu_numbers: Sequence[Mapping[int, int]]
    gpus: tuple[Gpu, ...]
    ranks: Ranks
    steps: Steps
    extent: tuple[int, int]
    collectives: Collectives
    clock_errors: Mapping[int, int]
    notes: tuple[str, ...]

    @property
    def phases(self) -> tuple[str, ...]:
        """Return the names of the phases of all ranks, each once."""
        return tuple(dict.fromkeys(name for head in self.heads for name in head.phases))

    def joint(self, number: int, window: Window) -> Joint:
        """Return what one report must know of the job.

        Args:
            number: The report.
            window: The window, by the clock of the job.
        """
        timed = {device: self.collectives.timed(each) for device, each in self.gpu_numbers[number].items()}
        return Joint(self.clocks[number], window, self.steps.shared, self.gpu_numbers[number], timed)

    def report_of(self, device: int) -> int:
        """Return the report of a GPU."""
        return next(number for number, known in enumerate(self.gpu_numbers) if device in known.values())


def join_heads(heads: Sequence[Head]) -> ManyRanks:
    """Return the ranks of a job in one clock.

    Args:
        heads: What is known of each report, in order of rank.

    Raises:
        UsageError: The reports are not of one job, or a rank is there twice.
        CannotTellError: Nothing tells how the clocks of the reports differ.
    """
    check_one_job([ReportIdentity(each.name, each.rank, each.world_size, each.communicators) for each in heads])
    check_distinct((each.name, each.epoch_ns, each.processes) for each in heads)
    clocks = find_clocks([each.epoch_ns for each in heads], [each.ends for each in heads])
    check_clocks(names := [each.name for each in heads], clocks)
    known = [({gpu.device_id: gpu for gpu in each.gpus}, each.uuids, each.devices) for each in heads]
    numbers, gpus = number_gpus(known)
    extents = [
        tuple(clock.to_first(np.array(head.extent, np.int64)).tolist())
        for head, clock in zip(heads, clocks, strict=True)
    ]
    check_together(names, [(first, last) for first, last in extents])
    size = next((each.world_size for each in heads if each.world_size is not None), None)
    ranks = _ranks(heads, numbers)
    errors = {
        rank.process + (number << REPORT_BITS): UNKNOWN_NS if clock.error_ns is None else clock.error_ns
        for number, (head, clock) in enumerate(zip(heads, clocks, strict=True))
        for rank in head.ranks.each
        if number
    }
    return ManyRanks(
        heads=heads,
        clocks=clocks,
        gpu_numbers=numbers,
        gpus=gpus,
        ranks=ranks,
        steps=_steps(heads, clocks),
        extent=(min(first for first, _ in extents), max(last for _, last in extents)),
        collectives=matched(ranks, _parts(heads, clocks, numbers)),
        clock_errors=errors,
        notes=job_notes(len(heads), size, clocks),
    )


def _ranks(heads: Sequence[Head], numbers: Sequence[Mapping[int, int]]) -> Ranks:
    """Return all ranks, with the number that NCCL, MPI or the launcher gave them, or else in order."""
    ranks = [
        replace(rank, process=rank.process + (place << REPORT_BITS), device_id=its[rank.device_id])
        for place, (head, its) in enumerate(zip(heads, numbers, strict=True))
        for rank in head.ranks.each
    ]
    ranks = [replace(rank, number=at) if rank.source == "order" else rank for at, rank in enumerate(ranks)]
    if len({rank.number for rank in ranks}) < len(ranks):
        ranks = [Rank(at, rank.process, rank.device_id, "order") for at, rank in enumerate(ranks)]
    size = max((head.ranks.world_size for head in heads), default=0)
    return Ranks(tuple(sorted(ranks, key=lambda rank: rank.number)), max(size, len(ranks)))


def _steps(heads: Sequence[Head], clocks: Sequence[Clock]) -> Steps:
    frames = []
    for number, (head, clock) in enumerate(zip(heads, clocks, strict=True)):
        its = {name: clock.to_first(head.steps[name].to_numpy(np.int64)) for name in ("start", "end")}
        frames.append(head.steps.assign(process=head.steps["process"] + (number << REPORT_BITS), **its))
    whole = pd.concat(frames, ignore_index=True)
    return Steps(whole, source="pattern" if all(head.step_source == "pattern" for head in heads) else "steps")


def _parts(heads: Sequence[Head], clocks: Sequence[Clock], numbers: Sequence[Mapping[int, int]]) -> Parts:
    """Return the communication kernels of all ranks by one clock, in order of start."""
    kinds = tuple(sorted({kind for head in heads for kind in head.parts.kinds}))
    counts: dict[int, int] = {}
    columns: list[dict[str, npt.NDArray[Any]]] = []
    for place, (head, clock) in enumerate(zip(heads, clocks, strict=True)):
        its = head.parts
        counts |= its.rank_counts
        device = np.array([numbers[place][int(each)] for each in its.device_id.tolist()], np.int32)
        kind = np.array([kinds.index(each) for each in its.kinds] or [0], np.intp)[its.kind]
        columns.append({
            **{name: getattr(its, name) for name in ("row", "communicator", "stream", "library", "link", "bytes")},
            "start": clock.to_first(its.start),
            "end": clock.to_first(its.end),
            "device_id": device,
            "process": its.process + (place << REPORT_BITS),
            "kind": kind,
        })  # fmt: skip
    whole = {name: np.concatenate([each[name] for each in columns]) for name in columns[0]}
    # As operations of one capture: by start, those that start together by end.
    order = np.lexsort([whole["device_id"], whole["end"], whole["start"]])
    return Parts(**{name: values[order] for name, values in whole.items()}, kinds=kinds, rank_counts=counts)


@dataclass(frozen=True)
class OtherRanks:
    """What a report holds about ranks that it does not show in detail.

    Attributes:
        ledgers: Ledger of each of their GPUs: ns by row.
        idle: Idle time of each of their GPUs.
        detailed: Why each rank in detail was chosen, by its number.
    """

    ledgers: Mapping[int, Mapping[str, int]]
    idle: Mapping[int, Sequence[IdleAccount]]
    detailed: Mapping[int, str]


NO_OTHERS = OtherRanks({}, {}, {})


def in_detail(many: ManyRanks, times: Sequence[RankTimes], late: Sequence[LateRank]) -> dict[int, str]:
    """Return the GPUs of the ranks to show in detail, each with the reason.

    Args:
        many: The ranks.
        times: The times of each GPU in the window.
        late: The ranks that others wait for, the costliest first.
    """
    reasons: dict[int, str] = {each.device_id: "others wait for it" for each in late[:MOST_LATE]}
    waits = {each.device_id: each.ledger["communication_wait_ns"] for each in times}
    order = sorted(waits, key=lambda device: (waits[device], device))
    first = many.ranks.each[0]
    for device, why in (
        (order[-1], "it waits longest"),
        (order[0], "it waits least"),
        (order[len(order) // 2], "its wait is the median"),
        (first.device_id, "it is the first, which often logs and writes checkpoints"),
    ):
        reasons.setdefault(device, why)
    return dict(sorted(reasons.items()))


def restricted(
    collectives: Collectives, shown: Ranks, operations: Operations, trace_parts: Parts
) -> tuple[Collectives, Indices]:
    """Return the collectives of a trace that holds some ranks, with its rows and the arrivals of all ranks.

    It also returns their indices among those of all ranks.

    Args:
        collectives: The collectives of all ranks.
        shown: The ranks of the trace.
        operations: The operations of the trace.
        trace_parts: The communication kernels of the trace.
    """
    chosen = np.flatnonzero(np.isin(collectives.device_id, operations.devices))
    row = np.empty(len(chosen), np.intp)
    for device in operations.devices:
        row[collectives.device_id[chosen] == device] = trace_parts.row[trace_parts.on(device)]
    order = np.argsort(row, kind="stable")
    chosen, row = chosen[order], row[order]
    place = np.full(len(collectives.row), NONE, np.intp)
    place[chosen] = np.arange(len(chosen))
    group, last = collectives.group[chosen], collectives.last[chosen]
    # Where no other rank of a collective is shown, nothing ties it to another GPU of the trace.
    counts = np.bincount(group[group >= 0], minlength=int(group.max(initial=-1)) + 1)
    group = np.where((group >= 0) & (counts[np.maximum(group, 0)] > 1), group, NONE) if len(counts) else group
    number = {rank.device_id: rank.number for rank in collectives.ranks.each}
    ranks = tuple(replace(rank, number=number.get(rank.device_id, rank.number)) for rank in shown.each)
    arrays = ("start", "end", "device_id", "arrival", "communicator", "kind", "bytes")
    found = replace(
        collectives,
        ranks=Ranks(tuple(sorted(ranks, key=lambda rank: rank.number)), len(ranks)),
        row=row,
        group=group,
        last=np.where(last >= 0, place[last], NONE),
        **{name: getattr(collectives, name)[chosen] for name in arrays},
    )
    return found, chosen
