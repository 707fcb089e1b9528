"""What running collectives beside the backward pass would save, on steps that can be checked by eye."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from export_builder import ExportBuilder, global_id, thread

from nsyswrap.events.operations import COMMUNICATION, COMPUTE
from nsyswrap.loop.context import TraceContext, find_context
from nsyswrap.report import choose_window
from nsyswrap.tables import Trace
from nsyswrap.what_if.changes import Gains, gains
from nsyswrap.what_if.communication_overlap import (
    AVERAGING_SHARE,
    Step,
    beside_backward,
    exposed,
    slowdown,
    steps_of,
)

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


def found(trace: Trace) -> tuple[TraceContext, Gains]:
    """The context, and the gain on GPU 0 over the measured steps."""
    context = find_context(trace)
    window = choose_window(context)
    return context, gains(context, window, lambda one, within: beside_backward(one, within, 0))


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
    context = find_context(trace_of(trained(ExportBuilder().gpu(), blocks, 6)))
    kernels, collectives = (np.flatnonzero(context.operations.kind == kind) for kind in (COMPUTE, COMMUNICATION))
    assert slowdown(context, kernels, collectives, 0).tolist() == pytest.approx([slower] * len(kernels))
    assert slowdown(context, kernels, collectives[:0], 0).tolist() == [1] * len(kernels)
    assert slowdown(context, kernels, collectives, 7).tolist() == [1] * len(kernels), "nothing is known of such a GPU"


def step(kernels: list[int], slower: list[float], collectives: list[int]) -> Step:
    return Step(np.array(kernels), np.array(slower), np.array(collectives))


def test_collectives_run_beside_the_first_kernels() -> None:
    """All but the first layer's; kernels lose what they are slower by, and gradients are divided."""
    divided = AVERAGING_SHARE * 100
    assert step([1000], [1.0], [10, 90]).saved() == pytest.approx(90 - divided)
    assert step([1000], [2.0], [10, 90]).saved() == pytest.approx(45 - divided)
    assert step([20, 1000], [2.0, 1.0], [10, 90]).saved() == pytest.approx(90 - 20 - divided), "40 beside the first"
    assert step([20, 1000], [1.0, 2.0], [10, 90]).saved() == pytest.approx(90 - 35 - divided), "70 beside the second"


def test_what_finds_no_room_is_not_hidden() -> None:
    assert step([30], [1.0], [10, 90]).saved() == pytest.approx(30 - AVERAGING_SHARE * 100)
    assert step([], [], [10, 90]).saved() == 0
    assert step([1000], [1.0], [90]).saved() == 0, "one collective needs all gradients"
    assert step([1000], [1.0], []).saved() == 0


def test_the_gain_is_replayed(trace_of: TraceOf) -> None:
    """Of 6 collectives of 49 us, 5 run beside a kernel that they do not delay."""
    context, gained = found(trace_of(trained(ExportBuilder().gpu(), 132, 6)))
    steps = len(context.steps.measured_inside(choose_window(context)))
    assert gained.high_ns == pytest.approx(steps * (5 - 6 * AVERAGING_SHARE) * 49 * US, rel=0.05)
    assert gained.low_ns == pytest.approx((gained.high_ns or 0) / 2, rel=0.05)
    assert "but for the first layer's" in gained.said[0]


def test_what_kernels_lose_meanwhile_is_no_gain(trace_of: TraceOf) -> None:
    """Kernels take twice as long: half of what is hidden."""
    context, gained = found(trace_of(trained(ExportBuilder().gpu(), 264, 6)))
    steps = len(context.steps.measured_inside(choose_window(context)))
    assert gained.high_ns == pytest.approx(steps * (2.5 - 6 * AVERAGING_SHARE) * 49 * US, rel=0.05)


def test_what_is_hidden_already_is_no_gain(trace_of: TraceOf) -> None:
    """A collective beside the kernels, and one of 50 us behind them that stays there."""
    builder = ExportBuilder().gpu()
    for number in range(STEPS):
        at = number * STEP
        builder.range(f"batch {number}", at, at + STEP - 1).range("backward", at + US, at + 60 * US)
        builder.kernel(at + 30 * US, at + 430 * US, "gemm", gridX=132, blockX=1024, launched=(at + 2 * US, at + 4 * US))
        for place, (start, end) in enumerate(((100, 400), (440, 490))):
            called = (at + (6 + 2 * place) * US, at + (7 + 2 * place) * US)
            ran = at + start * US, at + end * US
            builder.kernel(*ran, ALL_REDUCE, gridX=CHANNELS, blockX=544, streamId=8, launched=called)
        builder.call("cudaDeviceSynchronize", at + 70 * US, at + 492 * US)
    context = find_context(trace_of(builder))
    rows = np.flatnonzero(context.operations.kind == COMMUNICATION)
    assert set(exposed(context, rows).tolist()) == {0, 50 * US}
    change = beside_backward(context, choose_window(context), 0).high
    of_hidden, of_exposed = (exposed(context, change.operations) == length for length in (0, 50 * US))
    factors = np.asarray(change.factor)
    assert factors[of_hidden] == pytest.approx(1)
    assert factors[of_exposed] == pytest.approx(AVERAGING_SHARE)


def test_collectives_of_all_gpus_change_together(trace_of: TraceOf) -> None:
    """One that gets shorter on one GPU alone still waits for the other."""
    alone = trained(ExportBuilder().gpu(), 132, 6)
    both = trained(trained(ExportBuilder().gpu().gpu(1), 132, 6), 132, 6, pid=4712, device=1)
    context, gained = found(trace_of(both))
    assert gained.high_ns == pytest.approx(found(trace_of(alone))[1].high_ns, rel=0.05)
    changed = beside_backward(context, choose_window(context), 0).high.operations
    assert set(context.operations.device_id[changed].tolist()) == {0, 1}
    assert (context.operations.kind[changed] == COMMUNICATION).all()


def test_without_steps_and_phases_all_kernels_give_room(trace_of: TraceOf) -> None:
    builder = ExportBuilder().gpu()
    builder.kernel(30 * US, 430 * US, "gemm", gridX=132, blockX=1024, launched=(2 * US, 4 * US))
    for place in range(4):
        start = (440 + 50 * place) * US
        called = ((6 + 2 * place) * US, (7 + 2 * place) * US)
        builder.kernel(start, start + 49 * US, ALL_REDUCE, gridX=CHANNELS, blockX=544, streamId=8, launched=called)
    builder.call("cudaDeviceSynchronize", 70 * US, 642 * US)
    context = find_context(trace_of(builder))
    (whole,) = steps_of(context, np.arange(len(context.operations.start)), 0)
    assert whole.kernels.tolist() == [400 * US]
    assert whole.collectives.tolist() == [49 * US] * 4
