"""Exports of the ranks of a job, generated: stragglers, clocks that differ and drift, lost ranks, ranks that end early.

``Job`` describes a data-parallel job. ``exports`` writes one export a rank, each in the clock of its own host, as nsys
would. ``grown`` makes more ranks out of the reports of a real job, with delays inserted into them.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from export_builder import ExportBuilder, global_id

from nsyswrap.ranks.rank_report import RankReport
from nsyswrap.trace import tables
from nsyswrap.trace.load import load_export
from nsyswrap.trace.tables import SPECS, Trace, array

EPOCH = 10**18
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
LOAD, FORWARD, PART, TRANSFER, OPTIMIZER, LAUNCH = 100_000, 300_000, 200_000, 60_000, 50_000, 1_000
FIRST_PID = 5000


@dataclass(frozen=True)
class Clock:
    """The clock of one host.

    Attributes:
        ahead_ns: How far it is ahead at the start of the job.
        drift_ppm: How much faster it runs, in millionths.
        recording_ns: When the recording of the rank began, by the true clock; negative is before the job.
        states_start: Whether the export states its start in UTC.
    """

    ahead_ns: int = 0
    drift_ppm: float = 0.0
    recording_ns: int = -1_000_000
    states_start: bool = True

    def shown(self, true_ns: int) -> int:
        """Return what an export shows for a true time: ns since the recording began, by this clock."""
        return round((true_ns - self.recording_ns) * (1 + self.drift_ppm / 1e6))

    @property
    def epoch_ns(self) -> int:
        """Return the start of the recording in UTC as this clock has it."""
        return EPOCH + self.recording_ns + self.ahead_ns + round(self.recording_ns * self.drift_ppm / 1e6)


@dataclass(frozen=True)
class Job:
    """A data-parallel job: in each step a rank loads, computes and reduces; it waits for the last bucket.

    ::

        rank 0    |load|## forward ##|# part #|# part #|......wait.....|opt|
                                              |=bucket=|   |..wait..==|
        rank 1    |... load (delayed) ...|## forward ##|# part #|# part #||opt|

    Attributes:
        delays: Additional loading time in ns, by rank and step; all ranks have the same number of steps.
        clocks: The clock of each rank; a true clock where there are too few.
        buckets: Number of collectives in a step.
        pause: Idle time between two steps, in ns.
        jitter: How much later than the first rank a collective may end on another one, in ns.
        lost: Ranks whose export is not there.
        ends_after: Number of recorded steps of ranks that end early.
    """

    delays: Sequence[Sequence[int]]
    clocks: Sequence[Clock] = ()
    buckets: int = 2
    pause: int = 0
    jitter: int = 0
    lost: frozenset[int] = frozenset()
    ends_after: Mapping[int, int] = field(default_factory=dict)

    @property
    def ranks(self) -> int:
        return len(self.delays)

    @property
    def steps(self) -> int:
        return len(self.delays[0])

    def clock(self, rank: int) -> Clock:
        return self.clocks[rank] if rank < len(self.clocks) else Clock()


@dataclass(frozen=True)
class Schedule:
    """True times of a job in ns, shape (steps, ranks) or (steps, ranks, buckets).

    Attributes:
        begin: Start of each step; the same on all ranks.
        ready: End of loading.
    """

    begin: npt.NDArray[np.int64]
    ready: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]


def schedule(job: Job) -> Schedule:
    shape = (job.steps, job.ranks)
    begin, ready = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    starts, ends = np.zeros((*shape, job.buckets), np.int64), np.zeros((*shape, job.buckets), np.int64)
    drawn = np.random.default_rng(7).integers(job.jitter + 1, size=ends.shape)
    at = 0
    for step in range(job.steps):
        begin[step] = at
        ready[step] = at + LOAD + np.array([each[step] for each in job.delays], np.int64)
        free = np.zeros(job.ranks, np.int64)
        for bucket in range(job.buckets):
            computed = ready[step] + 2 * LAUNCH + FORWARD + (bucket + 1) * PART
            starts[step, :, bucket] = np.maximum(computed, free)
            free = starts[step, :, bucket].max() + TRANSFER + drawn[step, :, bucket]
            ends[step, :, bucket] = free
        at = int(free.max()) + 200 + OPTIMIZER + 1000 + job.pause
    return Schedule(begin, ready, starts, ends)


def built(job: Job, rank: int, times: Schedule) -> ExportBuilder:
    clock, made = job.clock(rank), ExportBuilder()
    process, main = global_id(FIRST_PID + rank), global_id(FIRST_PID + rank, FIRST_PID + rank)
    about = {"device": 0, "process": process, "thread": main}
    made.gpu(0, uuid=f"4e1393c6-{rank:08}")
    made.row("ANALYSIS_DETAILS", globalVid=1 << 48, duration=10**9, startTime=0, stopTime=10**9)
    if clock.states_start:
        made.row("TARGET_INFO_SESSION_START_TIME", utcEpochNs=clock.epoch_ns, utcTime="2026-01-02T03:04:05")
    at = clock.shown
    for step in range(job.ends_after.get(rank, job.steps)):
        begin, ready = int(times.begin[step, rank]), int(times.ready[step, rank])
        first, last = ready + 2 * LAUNCH, int(times.ends[step, rank, -1])
        over = last + 200 + OPTIMIZER
        made.range(f"step {step}", at(begin), at(over + 500), thread=main)
        made.range("data", at(begin), at(ready), thread=main)
        made.os_call("poll", at(begin + 10), at(ready - 30), thread=main)
        made.range("forward", at(ready), at(ready + LAUNCH), thread=main)
        works = [("fwd", first, first + FORWARD, 7)]
        for bucket in range(job.buckets):
            begun = first + FORWARD + bucket * PART
            works.append(("bwd", begun, begun + PART, 7))
            works.append((REDUCE, int(times.starts[step, rank, bucket]), int(times.ends[step, rank, bucket]), 8))
        works.append(("adam", last + 200, over, 7))
        for place, (name, start, end, stream) in enumerate(works):
            launch = ready + 50 * place
            given = {**about, "stream": stream}
            made.kernel(at(start), at(end), name, launched=(at(launch), at(launch + 40)), **given)
        made.call("cudaDeviceSynchronize", at(ready + LAUNCH), at(over + 100), thread=main)
    return made


def exports(job: Job, folder: Path) -> list[Path]:
    """Write the export of each rank that is not lost, as `nsyswrap profile` leaves them, and return their paths."""
    times, found = schedule(job), []
    for rank in range(job.ranks):
        if rank in job.lost:
            continue
        place = folder / f"rank-{rank}"
        place.mkdir(parents=True, exist_ok=True)
        found.append(built(job, rank, times).write(place / "capture.sqlite"))
        values = {"RANK": str(rank), "WORLD_SIZE": str(job.ranks)}
        record = {"schema": "nsyswrap.run/1", "environment": {"names": [], "values": values}}
        (place / "run.json").write_text(json.dumps(record))
    return found


def reports(job: Job, folder: Path) -> list[RankReport]:
    kept = [rank for rank in range(job.ranks) if rank not in job.lost]
    return [
        RankReport(f"rank-{rank}", load_export(path), rank, job.ranks)
        for rank, path in zip(kept, exports(job, folder), strict=True)
    ]


def pipeline(batches: int) -> tuple[ExportBuilder, list[tuple[tuple[int, int], tuple[int, int]]]]:
    """Return a pipeline of three stages, and GPU and start of both kernels of each message.

    ::

        stage 0    |## batch 0 ##|send|## batch 1 ##|send|
        stage 1    |....... receives .|## batch 0 ##|send|
        stage 2    |................ receives ...........|## batch 0 ##|

    Each stage computes longer than the one before it, so that all but the first wait. NCCL's ranges name the peers.
    """
    made, messages = ExportBuilder(), []
    for rank in range(3):
        process = global_id(FIRST_PID + rank)
        made.domain("NCCL", 3, thread=process)
        payload = f'{{"NCCL communicator ID":77,"No. of ranks":3,"Rank":{rank},"CUDA device":0}}'
        made.range("ncclCommInitRank", 1, 2, thread=process | 1, domain=3, jsonText=payload)
    free = [1000] * 3
    for _ in range(batches):
        for rank in range(3):
            if rank:
                messages.append(_message(made, rank - 1, rank, free))
            process = global_id(FIRST_PID + rank)
            end = free[rank] + (400_000, 100_000, 50_000)[rank]
            launched = (free[rank] - 600, free[rank] - 500)
            about = {"device": rank, "process": process, "thread": process | 1}
            made.kernel(free[rank], end, "gemm", launched=launched, gridX=(64, 16, 8)[rank], **about)
            free[rank] = end + 10
    return made, messages


def _message(made: ExportBuilder, source: int, target: int, free: list[int]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Add a message from one stage to the next, after all that both have done."""
    end = max(free[source], free[target]) + 20_000
    starts = []
    for rank, peer, name in ((source, target, "ncclSend"), (target, source, "ncclRecv")):
        process, start = global_id(FIRST_PID + rank), free[rank]
        payload = f'{{"NCCL communicator ID":77,"Message size [bytes]":64,"Peer rank":{peer}}}'
        made.range(name, start - 300, start - 100, thread=process | 1, domain=3, jsonText=payload)
        about = {"device": rank, "process": process, "thread": process | 1, "stream": 8}
        made.kernel(start, end, "ncclDevKernel_SendRecv", launched=(start - 250, start - 200), **about)
        starts.append((rank, start))
        free[rank] = end + 1000
    return starts[0], starts[1]


Move = Callable[[npt.NDArray[np.int64]], npt.NDArray[np.int64]]


def grown(real: Sequence[RankReport], ranks: int, delays: Mapping[int, int]) -> list[RankReport]:
    """Return reports of more ranks than a real job had: copies of its ranks, with delays inserted.

    A delayed rank arrives later at the last collective of each step, and all others wait that much longer in it::

        real       |## backward ##||==last collective==|
        delayed    |## backward ##|      ||==last collective==|
        others     |## backward ##||.......==last collective==|

    Args:
        real: The reports of the real ranks, in one clock, with equal numbers of steps and collectives.
        ranks: How many ranks to make.
        delays: By rank, how much later it is in each step, in ns.
    """
    most, made = max(delays.values(), default=0), []
    for rank in range(ranks):
        source = real[rank % len(real)]
        late = delays.get(rank, 0)
        at = _last_collectives([each.trace for each in real], rank % len(real))
        points = np.concatenate([at.start - 1, at.arrival])
        lengths = np.repeat([late, most - late], len(at.start))
        trace = _moved(source.trace, _insertion(points, lengths))
        made.append(RankReport(f"rank-{rank}", _of_rank(trace, rank), rank, ranks))
    return made


@dataclass(frozen=True)
class _Last:
    """Start of the last collective of each step on one rank, and when the last rank arrived at it, in ns."""

    start: npt.NDArray[np.int64]
    arrival: npt.NDArray[np.int64]


def _collectives(trace: Trace) -> npt.NDArray[np.int64]:
    frame = trace[tables.KERNELS]
    mine = ["nccl" in trace.text(int(each)) for each in frame["name_id"]]
    return array(frame, "start")[mine]


def _last_collectives(traces: Sequence[Trace], which: int) -> _Last:
    every = [_collectives(trace) for trace in traces]
    latest = np.max(np.stack(every), axis=0)
    ranges = traces[which][tables.RANGES]
    steps = ranges[ranges["text"].astype(str).str.match(r"(?:step|batch) \d+$")]
    place = np.searchsorted(every[which], array(steps, "end")) - 1
    place = np.unique(place[place >= 0])
    return _Last(every[which][place], np.maximum(latest[place], every[which][place]) + 1)


def _insertion(points: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> Move:
    """Return the map from times to times with more time inserted at some points."""
    order = np.argsort(points, kind="stable")
    sums = np.concatenate([[0], np.cumsum(lengths[order])]).astype(np.int64)
    return lambda times: times + sums[np.searchsorted(points[order], times, side="left")]


def _moved(trace: Trace, move: Move) -> Trace:
    frames = {}
    for spec in SPECS:
        frame = trace[spec]
        columns: dict[str, Any] = {name: move(array(frame, name)) for name in ("start", "end") if name in spec.columns}
        frames[spec.name] = frame.assign(**columns)
    return replace(trace, frames=frames)


def _of_rank(trace: Trace, rank: int) -> Trace:
    """Return a trace as that of another rank, with a GPU and a process of its own."""
    frames, gpu = {}, trace.gpus[0]
    shift = np.int64(rank) << tables.THREAD_BITS
    for spec in SPECS:
        frame, columns = trace[spec], {}
        for name in ("process", "thread", "end_thread"):
            if name in spec.columns:
                values = array(frame, name)
                columns[name] = np.where(values > 0, values + shift, values)
        if "device_id" in spec.columns:
            columns["device_id"] = np.zeros(len(frame), np.int32)
        if spec is tables.NCCL_CALLS:
            columns["rank"] = np.where(array(frame, "rank") >= 0, rank, -1).astype(np.int32)
        frames[spec.name] = frame.assign(**columns)
    return replace(
        trace, frames=frames, gpus=(replace(gpu, device_id=0),), gpu_uuids={0: f"made-{rank}"}, gpu_numbers=None
    )
