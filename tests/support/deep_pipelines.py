"""Exports of pipelines of many stages, by the 1F1B and the interleaved schedule, with hosts or GPUs that are late.

::

    stage 0    |F0|F1|F2|F3|........................|B0|F4|.|B1|
    stage 1       |F0|F1|F2|..................|B0|F3|.|B1|F4|
    stage 2          |F0|F1|............|B0|F2|.|B1|F3|.|
    stage 3             |F0| B0 |F1| B1 |F2| B2 |F3| B3 |

A message is one kernel on each of two stages. It ends on both when both have begun and it was sent. A plain loop over
all stages computes the times; with a stage that is late and without it, so that a test knows what the lateness costs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from export_builder import ExportBuilder, global_id

FIRST_PID = 6000
SEND = "ncclDevKernel_SendRecv"
TRANSFER, LAUNCH, READ, BEGIN = 5_000, 2_000, 10_000, 50_000
LENGTHS = {"fwd": 100_000, "bwd": 200_000, "adam": 20_000}
# As many blocks fill all multiprocessors ten times.
GRID = 1320


class Item(NamedTuple):
    """One thing that a rank does.

    Attributes:
        name: "fwd", "bwd", "adam" or "message".
    """

    name: str
    microbatch: int
    peer: int = -1
    step: int = 0


class Done(NamedTuple):
    """An item with its start, its end, and the end of the last wait or work of the host before it, in ns."""

    item: Item
    start: int
    end: int
    launched_after: int


@dataclass(frozen=True)
class Pipeline:
    """A pipeline.

    Attributes:
        plan: What each rank does in a step, in order.
        late: Work of the host before the forward pass of one microbatch, in ns, by rank and microbatch.
        factors: How many times as long the kernels of a rank take.
        late_steps: Steps in which the host is late; all where it is empty.
    """

    plan: Sequence[Sequence[Item]]
    late: Mapping[tuple[int, int], int] = field(default_factory=dict)
    factors: Mapping[int, float] = field(default_factory=dict)
    late_steps: frozenset[int] = frozenset()


def one_forward_one_backward(stages: int, microbatches: int) -> list[list[Item]]:
    """Return the 1F1B schedule: a message that sends one way and receives the other way is one kernel.

    Source: NVIDIA/Megatron-LM, megatron/core/pipeline_parallel/schedules.py,
    forward_backward_pipelining_without_interleaving.
    """
    found = []
    for stage in range(stages):
        warm, last = min(stages - stage - 1, microbatches), stage == stages - 1
        its: list[Item] = []

        def message(batch: int, peer: int, its: list[Item] = its) -> None:
            if 0 <= peer < stages:
                its.append(Item("message", batch, peer))

        for batch in range(warm):
            message(batch, stage - 1)
            its.append(Item("fwd", batch))
            message(batch, stage + 1)
        rest = microbatches - warm
        if rest:
            message(warm, stage - 1)
        for batch in range(rest):
            its.append(Item("fwd", warm + batch))
            if not last:
                message(batch, stage + 1)
            its.append(Item("bwd", batch))
            message(batch, stage - 1)
        for batch in range(rest, microbatches):
            message(batch, stage + 1)
            its.append(Item("bwd", batch))
            message(batch, stage - 1)
        found.append(its)
    return found


def interleaved(ranks: int, chunks: int) -> list[list[Item]]:
    """Return a schedule in which each rank has several stages: all forward passes of a chunk, then the next chunk.

    There is one microbatch less than ranks, so that each message finds its receiver without a buffer.
    """
    batches, stages = ranks - 1, ranks * chunks
    found: list[list[Item]] = [[] for _ in range(ranks)]
    passes = [("fwd", range(stages), 1), ("bwd", range(stages - 1, -1, -1), -1)]
    for name, order, way in passes:
        for chunk in range(chunks) if way > 0 else range(chunks - 1, -1, -1):
            for rank in range(ranks):
                stage = chunk * ranks + rank
                for batch in range(batches):
                    if stage != order[0]:
                        found[rank].append(Item("message", batch, (rank - way) % ranks))
                    found[rank].append(Item(name, batch))
                    if stage != order[-1]:
                        found[rank].append(Item("message", batch, (rank + way) % ranks))
    return found


def timed(job: Pipeline, steps: int, *, late: bool = True) -> list[list[Done]]:
    """Return what each rank does, by a plain loop over all ranks. At the end of a step the host reads the loss.

    Raises:
        ValueError: Ranks wait for one another.
    """
    left = [[each._replace(step=step) for step in range(steps) for each in (*its, Item("adam", 0))] for its in job.plan]
    found: list[list[Done]] = [[] for _ in left]
    free, host = [BEGIN] * len(left), [0] * len(left)
    while any(left):
        moved = False
        for rank, its in enumerate(left):
            while its and its[0].name != "message":
                item = its.pop(0)
                if late and (works := _late_ns(job, rank, item)):
                    host[rank] = free[rank] + works
                    free[rank] = host[rank] + LAUNCH
                length = round(LENGTHS[item.name] * job.factors.get(rank, 1))
                found[rank].append(Done(item, free[rank], free[rank] + length, host[rank]))
                free[rank] += length
                if item.name == "adam":
                    host[rank] = free[rank] + READ
                    free[rank] = host[rank] + LAUNCH
                moved = True
        for rank, its in enumerate(left):
            peer = its[0].peer if its else -1
            if peer >= 0 and left[peer] and left[peer][0].peer == rank:
                end = max(free[rank], free[peer]) + TRANSFER
                for one in (rank, peer):
                    found[one].append(Done(left[one].pop(0), free[one], end, host[one]))
                    free[one] = end
                moved = True
        if not moved:
            raise ValueError([its[0] for its in left if its])
    return found


def _late_ns(job: Pipeline, rank: int, item: Item) -> int:
    """Return how long the host of a rank works before an item, in ns."""
    if item.name != "fwd" or (job.late_steps and item.step not in job.late_steps):
        return 0
    return job.late.get((rank, item.microbatch), 0)


def step_ns(job: Pipeline, steps: int, *, late: bool = True) -> float:
    """Return the mean length of the steps after the first two, which fill the pipeline."""
    ends = [each.end for each in timed(job, steps, late=late)[0] if each.item.name == "adam"]
    return (ends[-1] - ends[1]) / (steps - 2)


def built(job: Pipeline, steps: int) -> ExportBuilder:
    made = ExportBuilder()
    for rank, its in enumerate(timed(job, steps)):
        process = global_id(FIRST_PID + rank)
        made.gpu(rank).domain("NCCL", 3, thread=process)
        payload = f'{{"NCCL communicator ID":99,"No. of ranks":{len(job.plan)},"Rank":{rank},"CUDA device":{rank}}}'
        made.range("ncclCommInitRank", 1, 2, thread=process | (FIRST_PID + rank), domain=3, jsonText=payload)
        _add(made, rank, its)
    return made


def _add(made: ExportBuilder, rank: int, its: Sequence[Done]) -> None:
    """Add one rank: its host launches as far ahead as it can, and waits for the GPU before its own work."""
    process = global_id(FIRST_PID + rank)
    main = process | (FIRST_PID + rank)
    given = {"device": rank, "process": process, "thread": main}
    launch, before, idle, begun = 1_000, 0, 0, 900
    for item, start, end, after in its:
        if after > before:
            made.call("cudaStreamSynchronize", launch, idle + 10, thread=main)
            launch, before = after, after
        if item.name == "message":
            payload = f'{{"NCCL communicator ID":99,"Message size [bytes]":4096,"Peer rank":{item.peer}}}'
            made.range("ncclGroupEnd", launch, launch + 8, thread=main, domain=3, jsonText=payload)
            made.kernel(start, end, SEND, launched=(launch + 1, launch + 3), stream=8, **given)
        else:
            shape = {"stream": 7, "gridX": GRID}
            made.kernel(start, end, item.name, launched=(launch + 1, launch + 3), **shape, **given)
        launch, idle = launch + 10, end
        if item.name == "adam":
            made.range(f"step {item.step}", begun, end + READ - 200, thread=main)
            begun = end + READ - 100
    made.call("cudaStreamSynchronize", launch, idle + 10, thread=main)
