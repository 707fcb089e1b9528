"""How fast the cores and the GPU were while a program was recorded: slower in some steps than in others.

Two threads share a core where the CPU has two for each, and on a shared machine the other one may belong to somebody
else. While it runs, the code of the program is slower. From the launch of one kernel to the launch of the
next, a thread runs the same code in each step, so how long that takes shows the pace of its core::

    step       |   fast    |   fast    |       slow        |       slow        |
    launches    a   b c  d  a   b c  d  a     b   c    d    a     b   c    d

Threads run on different cores, so each has its own pace. The pace of the GPU, whose clocks change with its load and its
temperature, follows from the lengths of the same kernels.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.base.intervals import Times, Window
from nsyswrap.base.memo import memo
from nsyswrap.base.rows import chosen, taken
from nsyswrap.events.operations import COMPUTE
from nsyswrap.loop.context import TraceContext
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array, coded

# Fewer steps, or fewer launches in a step, show no pace. Source: ours; medians of fewer values vary by more than a
# tenth.
FEWEST_STEPS = 10
FEWEST_LAUNCHES = 20
# The clock of the multiprocessors changes in steps of so many Hz. Another run may be one step faster or slower, for
# example where the GPU is warmer. Source: `nvidia-smi -q -d SUPPORTED_CLOCKS` of an H100.
CLOCK_STEP_HZ = 15_000_000
# The pace of the fastest steps; the very fastest may be an error of the clock.
FASTEST_PERCENTILE = 5
SLOWEST_PERCENTILE = 100 - FASTEST_PERCENTILE


class ThreadPace(NamedTuple):
    """The pace of a thread.

    Attributes:
        slowdown: How much slower it was in a sample than in its fastest steps; at least 1.
        shown: How much slower it was in its slowest steps than in its fastest ones; at least 1.
    """

    slowdown: float
    shown: float


UNKNOWN_PACE = ThreadPace(1.0, 1.0)


@memo
def find_paces(context: TraceContext, window: Window, sample: Window) -> dict[int, ThreadPace]:
    """Return the pace of each launching thread in a sample, compared with the steps of a window.

    Threads whose pace is not known are left out.
    """
    thread, at, relative = _launches(context, window)
    steps = context.steps.measured_inside(window)
    found = {
        each: _pace(at[mine], relative[mine], (array(steps, "start"), array(steps, "end")), sample)
        for each in tables.distinct(thread).tolist()
        for mine in [thread == each]
    }
    return {each: pace for each, pace in found.items() if pace is not None}


@memo
def kernel_factors(context: TraceContext, window: Window, sample: Window) -> tuple[float, float]:
    """Return how long kernels take in the fastest and in the slowest steps of a window, relative to a sample.

    The lengths of a step's kernels are compared with the mean lengths of kernels with the same names; windows of too
    few steps show no difference. Another run may have a clock that is a step higher or lower, where the clock of the
    GPUs is known.
    """
    fastest, slowest = _of_steps(context, window, sample)
    step = clock_step(context)
    return fastest * (1 - step), slowest * (1 + step)


def clock_step(context: TraceContext) -> float:
    """Return a step of the clock as a share of the clock of the slowest GPU that was used; 0 where it is unknown."""
    used = set(tables.distinct(context.operations.device_id).tolist())
    clocks = [gpu.clock_hz for gpu in context.trace.gpus if gpu.device_id in used and gpu.clock_hz > 0]
    return min(CLOCK_STEP_HZ / min(clocks), 1.0) if clocks else 0.0


def _of_steps(context: TraceContext, window: Window, sample: Window) -> tuple[float, float]:
    """Return how long kernels take in the fastest and in the slowest steps of a window, relative to a sample."""
    operations = context.operations
    rows = operations.from_table(tables.KERNELS)
    begun = taken(operations.start, rows)
    is_inside = (taken(operations.kind, rows) == COMPUTE) & (begun >= window.start_ns) & (begun < window.end_ns)
    rows, start = chosen(is_inside, rows, begun)
    length = (taken(operations.end, rows) - start).astype(np.float64)
    name = taken(coded(context.trace[tables.KERNELS], "name_id").codes, taken(operations.row, rows))
    kind, _ = tables.groups([taken(operations.device_id, rows), name])
    usual = pd.Series(length).groupby(kind).transform("mean").to_numpy()
    so_far = [np.append(0.0, np.cumsum(each)) for each in (length, usual)]

    def paces(begin: Times, end: Times) -> npt.NDArray[np.float64]:
        first, last = np.searchsorted(start, begin), np.searchsorted(start, end)
        enough = last - first >= FEWEST_LAUNCHES
        took, wanted = (each[last[enough]] - each[first[enough]] for each in so_far)
        found: npt.NDArray[np.float64] = took / np.maximum(wanted, 1.0)
        return found

    steps = context.steps.measured_inside(window)
    of_steps = paces(array(steps, "start"), array(steps, "end"))
    of_sample = paces(np.array([sample.start_ns]), np.array([sample.end_ns]))
    if len(of_steps) < FEWEST_STEPS or not of_sample.all() or not len(of_sample):
        return 1.0, 1.0
    fastest, slowest = np.percentile(of_steps, [FASTEST_PERCENTILE, SLOWEST_PERCENTILE]) / of_sample[0]
    return min(float(fastest), 1.0), max(float(slowest), 1.0)


def _pace(
    at: Times, relative: npt.NDArray[np.float64], steps: tuple[Times, Times], sample: Window
) -> ThreadPace | None:
    """Return the pace of a thread in a sample, compared with its steps; None where it is not known.

    Args:
        at: When it launched each kernel, ascending.
        relative: How long it took from there to its next launch, relative to the usual.
        steps: Begins and ends of the steps.
        sample: The part of interest.
    """
    first, last = (np.searchsorted(at, side) for side in steps)
    enough = last - first >= FEWEST_LAUNCHES
    inside = relative[slice(*np.searchsorted(at, [sample.start_ns, sample.end_ns]))]
    if enough.sum() < FEWEST_STEPS or len(inside) < FEWEST_LAUNCHES:
        return None
    paces = [float(np.median(relative[a:b])) for a, b in zip(first[enough], last[enough], strict=True)]
    fastest, slowest = np.percentile(paces, [FASTEST_PERCENTILE, SLOWEST_PERCENTILE])
    return ThreadPace(max(float(np.median(inside) / fastest), 1.0), float(slowest / fastest))


@memo
def _launches(context: TraceContext, window: Window) -> tuple[Times, Times, npt.NDArray[np.float64]]:
    """Return the thread and the time of each launch of a kernel in a window, and how long it took to the next launch.

    The launches are in the order of their times. The length is relative to the median of all launches of the same
    kernel by the same thread that the same kernel follows.
    """
    operations, calls = context.operations, context.trace[tables.CALLS]
    threads, names = coded(calls, "thread"), coded(context.trace[tables.KERNELS], "name_id")
    kernels = operations.from_table(tables.KERNELS)
    call = taken(operations.call, kernels)
    call, kernels = chosen(call >= 0, call, kernels)
    # The nodes of a graph have one call, which says nothing about any of them.
    call, kernels = chosen(taken(np.bincount(call, minlength=len(calls)), call) == 1, call, kernels)
    start = taken(array(calls, "start"), call)
    call, kernels, start = chosen((start >= window.start_ns) & (start < window.end_ns), call, kernels, start)
    thread = taken(threads.codes, call)
    order = np.lexsort((start, thread))
    start, thread = taken(start, order), taken(thread, order)
    name = taken(names.codes, taken(operations.row, taken(kernels, order)))
    same = thread[1:] == thread[:-1]
    length, start, thread, before, after = chosen(same, np.diff(start), start[:-1], thread[:-1], name[:-1], name[1:])
    kind, _ = tables.groups([thread, before, after])
    usual = pd.Series(length.astype(np.float64)).groupby(kind).transform("median")
    relative = (length / usual.clip(lower=1.0)).to_numpy()
    by_time = np.argsort(start, kind="stable")
    return taken(threads.ids, taken(thread, by_time)), taken(start, by_time), taken(relative, by_time)
