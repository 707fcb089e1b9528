"""What running collectives beside the backward pass would save, on steps that can be checked by eye."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from export_builder import ExportBuilder, global_id, thread

from nsyswrap.analyses.base import Study
from nsyswrap.analyses.hidden_collectives import beside_backward, slowdown
from nsyswrap.analyses.operations import COMMUNICATION, COMPUTE
from nsyswrap.analyses.replay_changes import Gains, gains
from nsyswrap.report import choose_window
from nsyswrap.tables import Trace

TraceOf = Callable[[ExportBuilder], Trace]
US = 1_000
STEPS, STEP = 12, 1_000 * US
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
CHANNELS = 24


def trained(builder: ExportBuilder, blocks: int, collectives: int, pid: int = 4711, device: int = 0) -> ExportBuilder:
    """Steps of 1 ms: a kernel in forward and one of 400 µs in backward, then collectives, 300 µs in all.

    Everything is launched at the begin of the step, whose end waits for it. Blocks have 1024 threads: a multiprocessor
    holds two.
    """
    main = thread(pid, pid)
    whose: dict[str, Any] = {"deviceId": device, "globalPid": global_id(pid), "thread": main}
    for number in range(STEPS):
        at = number * STEP
        builder.range(f"batch {number}", at, at + STEP - 1, thread=main)
        builder.range("forward", at + US, at + 19 * US, thread=main)
        builder.range("backward", at + 20 * US, at + 60 * US, thread=main)
        for place, (start, end) in enumerate(((30, 290), (292, 692))):
            called = (at + (2 + 20 * place) * US, at + (4 + 20 * place) * US)
            builder.kernel(at + start * US, at + end * US, "gemm", gridX=blocks, blockX=1024, launched=called, **whose)
        length = 300 // collectives
        for place in range(collectives):
            start = at + (695 + place * length) * US
            called = (at + (30 + 4 * place) * US, at + (32 + 4 * place) * US)
            end = start + (length - 1) * US
            builder.kernel(start, end, ALL_REDUCE, gridX=CHANNELS, blockX=544, streamId=8, launched=called, **whose)
        builder.call("cudaDeviceSynchronize", at + 70 * US, end + 2 * US, thread=main)
    return builder


def found(trace: Trace) -> tuple[Study, Gains]:
    """The study, and the gain on GPU 0 over the steady steps."""
    study = Study(trace)
    window = choose_window(study)
    return study, gains(study, window, lambda one, within: beside_backward(one, within, 0))


@pytest.mark.parametrize(
    ("blocks", "slower"),
    [
        (132, 1),  # half a wave of 264: 108 multiprocessors still hold it
        (216, 1),  # the most that they hold at once
        (264, 2),  # one wave that fills the GPU becomes two
        (264 * 50, 62 / 50),  # many waves: 61.1 of 216
    ],
)
def test_kernels_get_slower_by_whole_waves(blocks: int, slower: float, trace_of: TraceOf) -> None:
    study, _ = found(trace_of(trained(ExportBuilder().gpu(), blocks, 6)))
    window = choose_window(study)
    operations = study.operations
    kernels = np.flatnonzero(operations.kind == COMPUTE)
    assert slowdown(study, window, 0, kernels) == pytest.approx(slower)
    assert slowdown(study, window, 0, kernels[:0]) == 1


def test_all_but_the_last_collective_of_a_step_are_hidden(trace_of: TraceOf) -> None:
    """Of 6 collectives of 49 µs, 5 run beside a kernel that they do not delay."""
    study, gained = found(trace_of(trained(ExportBuilder().gpu(), 132, 6)))
    steps = len(study.steps.steady_inside(choose_window(study)))
    assert gained.high_ns == pytest.approx(steps * 5 * 49 * US, rel=0.05)
    assert gained.low_ns == pytest.approx((gained.high_ns or 0) / 2, rel=0.05)
    assert "1.00 times as long" in gained.said[0]


def test_what_kernels_lose_meanwhile_is_no_gain(trace_of: TraceOf) -> None:
    """Kernels take twice as long: half of what is hidden."""
    _, free = found(trace_of(trained(ExportBuilder().gpu(), 132, 6)))
    _, slowed = found(trace_of(trained(ExportBuilder().gpu(), 264, 6)))
    assert slowed.high_ns == pytest.approx((free.high_ns or 0) / 2, rel=0.05)


def test_a_single_collective_cannot_be_hidden(trace_of: TraceOf) -> None:
    """It needs all gradients."""
    _, gained = found(trace_of(trained(ExportBuilder().gpu(), 132, 1)))
    assert gained.high_ns == 0


def test_collectives_of_all_gpus_change_together(trace_of: TraceOf) -> None:
    """One that gets shorter on one GPU alone still waits for the other."""
    alone = trained(ExportBuilder().gpu(), 132, 6)
    both = trained(trained(ExportBuilder().gpu().gpu(1), 132, 6), 132, 6, pid=4712, device=1)
    study, gained = found(trace_of(both))
    assert gained.high_ns == pytest.approx(found(trace_of(alone))[1].high_ns, rel=0.05)
    what = beside_backward(study, choose_window(study), 0)
    changed = what.high.operations
    assert set(study.operations.device_id[changed].tolist()) == {0, 1}
    assert (study.operations.kind[changed] == COMMUNICATION).all()


def test_there_must_be_room_beside_the_kernels(trace_of: TraceOf) -> None:
    """Collectives of 2.4 ms a step behind a backward pass of 100 µs."""
    builder = ExportBuilder().gpu()
    for number in range(STEPS):
        at = number * 3 * STEP
        builder.range(f"batch {number}", at, at + 3 * STEP - 1).range("backward", at + US, at + 60 * US)
        builder.kernel(at + 30 * US, at + 130 * US, "gemm", gridX=132, blockX=1024, launched=(at + 2 * US, at + 4 * US))
        for place in range(24):
            start = at + (132 + 100 * place) * US
            called = (at + (6 + 2 * place) * US, at + (7 + 2 * place) * US)
            builder.kernel(start, start + 99 * US, ALL_REDUCE, gridX=CHANNELS, blockX=544, streamId=8, launched=called)
        builder.call("cudaDeviceSynchronize", at + 70 * US, start + 101 * US)
    study, gained = found(trace_of(builder))
    steps = len(study.steps.steady_inside(choose_window(study)))
    assert gained.high_ns == pytest.approx(steps * 100 * US, rel=0.05)
