"""Reports of ranks made from other reports: one for each process, each with its own clock; and jobs of many ranks."""

from dataclasses import replace

import numpy as np
from export_builder import ExportBuilder, global_id

from nsyswrap.ranks.rank_report import RankReport
from nsyswrap.trace import tables
from nsyswrap.trace.tables import SPECS, Trace, array

EPOCH = 1_700_000_000_000_000_000
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def split(trace: Trace, offsets: list[int], *, epochs: bool = True) -> list[RankReport]:
    """Return one report for each process that used a GPU, as if each had been recorded alone.

    Args:
        trace: A report of several processes.
        offsets: How far the clock of each report is ahead of the clock of the first, in ns. Its times differ by this.
        epochs: Whether each report states its correct start in UTC; otherwise all state the same start.
    """
    processes = tables.distinct(array(trace[tables.KERNELS], "process")).tolist()
    return [
        RankReport(f"rank-{number}", _of_process(trace, process, offset, offset if epochs else 0), number, len(offsets))
        for number, (process, offset) in enumerate(zip(processes, offsets, strict=True))
    ]


def _of_process(trace: Trace, process: int, offset: int, stated: int) -> Trace:
    frames = {}
    for spec in SPECS:
        frame = trace[spec]
        owner = next((name for name in ("process", "thread") if name in spec.columns), None)
        if owner is not None:
            frame = frame[(array(frame, owner) & ~np.int64(tables.THREAD_MASK)) == process]
        moved = {name: array(frame, name) - offset for name in ("start", "end") if name in spec.columns}
        frames[spec.name] = frame.assign(**moved).reset_index(drop=True)
    return replace(trace, frames=frames, epoch_ns=EPOCH + stated)


def job(ranks: int, steps: int, late: dict[int, int], step: int = 1_000_000, reduce: str = REDUCE) -> ExportBuilder:
    """Return a data-parallel job: each rank loads, computes and reduces; late ranks load for longer.

    ::

        rank 0    |load|#### compute ####|......wait......|==reduce==|
        rank 1    |..... load ......|#### compute ########|==reduce==|

    Args:
        ranks: Number of ranks.
        steps: Number of steps.
        late: Additional loading time in ns, by rank.
        step: Length of a step without a late rank, in ns.
        reduce: Name of the kernel that reduces.
    """
    built, most = ExportBuilder(), max(late.values(), default=0)
    load, compute = step // 10, step // 2
    for rank in range(ranks):
        process = global_id(5000 + rank)
        main = process | (5000 + rank)
        built.gpu(rank)
        for number in range(steps):
            at = 1000 + number * (step + most)
            ready = at + load + late.get(rank, 0)
            arrival, end = ready + compute, at + step + most
            last = at + load + most + compute
            about = {"device": rank, "process": process}
            built.range(f"step {number}", at, end, thread=main)
            built.range("data", at, ready - 20, thread=main)
            built.os_call("poll", at + 10, ready - 30, thread=main)
            built.range("forward", ready - 20, ready, thread=main)
            built.kernel(ready, arrival, "gemm", launched=(ready - 10, ready - 8), thread=main, **about)
            built.kernel(arrival, last + 100, reduce, launched=(ready - 6, ready - 4), thread=main, stream=8, **about)
            built.kernel(last + 110, end - 10, "adam", launched=(ready - 3, ready - 2), thread=main, **about)
            built.call("cudaDeviceSynchronize", ready - 1, end - 5, thread=main)
    return built
