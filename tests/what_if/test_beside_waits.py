"""Kernels beside a collective that waits take longer, and no longer where a change takes the wait away."""

import numpy as np
import pytest
from export_builder import ExportBuilder, global_id, thread, trace_of
from simulations import simulate_trace

from nsyswrap.base.intervals import Spans
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.simulate import Simulation

US, STEPS = 1_000, 8
STEP, LATE = 2_000 * US, 600 * US
SUM = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def simulated(blocks: int) -> Simulation:
    """Return steps of two ranks; the host of rank 1 works 600 us longer. Rank 0 computes beside the sum that waits.

    ::

        rank 0    |first|....other, 1,000 us....|
                        |==sum, waits==|==|
        rank 1    ...600 us...|first|==|....other, 1,000 us....|

    Args:
        blocks: Of the kernel of the sum.
    """
    builder = ExportBuilder().gpu().gpu(1)
    for number in range(STEPS):
        at = number * STEP
        for rank, late in ((0, 0), (1, LATE)):
            host, begin = at + late, at + late + 10 * US
            about = {"globalPid": global_id(4711 + rank), "thread": thread(4711 + rank, 4711 + rank), "deviceId": rank}
            ends, sum_ends = begin + 100 * US, at + LATE + 10 * US + 100 * US + 50 * US
            builder.kernel(begin, ends, "first", launched=(host, host + 4 * US), **about)
            launched = (host + 5 * US, host + 9 * US)
            builder.kernel(ends, sum_ends, SUM, launched=launched, streamId=8, gridX=blocks, **about)
            launched = (host + 10 * US, host + 14 * US)
            builder.kernel(ends, ends + 1_000 * US, "other", launched=launched, **about)
            main = thread(4711 + rank, 4711 + rank)
            end = at + STEP - 10 * US
            builder.call("cudaDeviceSynchronize", host + 20 * US, end, thread=main)
            builder.range(f"step {number}", at, end + 5 * US, thread=main)
    return simulate_trace(trace_of(builder))


@pytest.mark.parametrize(("blocks", "shorter_us"), [(33, 150), (66, 300), (0, 0)])
def test_without_its_wait_a_collective_leaves_its_multiprocessors(blocks: int, shorter_us: int) -> None:
    """A sum of 33 blocks keeps a quarter of 132 multiprocessors: of 600 us beside its wait, 150 us are its own."""
    simulation = simulated(blocks)
    late = next(each for each in simulation.threads if each & 0xFFFFFF == 4712)
    in_time = Change(host={late: Spans(np.arange(STEPS) * STEP, np.arange(STEPS) * STEP + LATE)})
    faster = simulation.without_waits(simulation.graph.run(in_time))
    assert faster is not None
    operations, rows = simulation.context.operations, faster.operations
    assert set(operations.device_id[rows].tolist()) <= {0}
    saved = (operations.end[rows] - operations.start[rows]) * (1 - np.asarray(faster.factor))
    measured = simulation.context.steps.measured_count
    assert saved.sum() / measured / US == pytest.approx(shorter_us, rel=0.02)
    assert simulation.without_waits(simulation.graph.run()) is None
