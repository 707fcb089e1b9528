"""The saving of communication that overlaps the backward pass, on steps that can be checked by eye."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from export_builder import ExportBuilder, global_id, thread, trace_of
from simulations import US, saved_us, simulate_trace

from nsyswrap.base.intervals import Indices
from nsyswrap.events.operations import COMMUNICATION, COMPUTE
from nsyswrap.loop.context import TraceContext, find_context
from nsyswrap.what_if.communication_overlap import (
    Step,
    beside_backward,
    exposed,
    fewer_bytes,
    is_reduction,
    overlaps_already,
    slowdown,
    steps_of,
)
from nsyswrap.what_if.saving import WhatIf
from nsyswrap.what_if.simulate import Simulation

STEPS, WARM_UP, STEP = 12, 2, 1_000 * US
MEASURED = STEPS - WARM_UP
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
CHANNELS = 24


def trained(builder: ExportBuilder, blocks: int, collectives: int, pid: int = 4711, device: int = 0) -> ExportBuilder:
    """Add steps of 1 ms: a kernel in forward and one of 400 µs in backward, then collectives, 300 µs with their gaps.

    All work is launched at the start of the step, and the host waits for it at the end. Blocks have 1024 threads, so
    a multiprocessor holds two.
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


def beside(simulation: Simulation) -> WhatIf:
    """Return the change of overlapping communication on GPU 0."""
    return beside_backward(0, simulation)


def collectives_of(context: TraceContext, device: int = 0) -> Indices:
    operations = context.operations
    return np.flatnonzero((operations.kind == COMMUNICATION) & (operations.device_id == device))


@pytest.mark.parametrize(
    ("blocks", "slower"),
    [
        (132, 1),  # half a wave of 264: 108 multiprocessors still hold it
        (216, 1),  # 108 multiprocessors hold at most 216 at once
        (264, 2),  # one wave that fills the GPU becomes two
        (264 * 50, 62 / 50),  # 50 waves become 61.1 waves of 216, so 62
    ],
)
def test_kernels_get_slower_by_whole_waves(blocks: int, slower: float) -> None:
    """Kernels keep their speed without a collective and on an unknown GPU."""
    context = find_context(trace_of(trained(ExportBuilder().gpu(), blocks, 6)))
    kernels, collectives = (np.flatnonzero(context.operations.kind == kind) for kind in (COMPUTE, COMMUNICATION))
    assert slowdown(context, kernels, collectives, 0).tolist() == pytest.approx([slower] * len(kernels))
    assert slowdown(context, kernels, collectives[:0], 0).tolist() == [1] * len(kernels)
    assert slowdown(context, kernels, collectives, 7).tolist() == [1] * len(kernels)


@pytest.mark.parametrize(
    ("kernels", "slower", "saved"),
    [
        ([1000], [1.0], 100),
        ([1000], [2.0], 50),  # the kernel loses half of the overlapped time
        ([20, 1000], [2.0, 1.0], 80),  # 40 overlap the first kernel, which loses 20; 60 overlap the second
        ([20, 1000], [1.0, 2.0], 60),  # 20 overlap the first kernel; 80 overlap the second, which loses 40
        ([30], [1.0], 30),  # the other 70 stay after the backward pass
        ([], [], 0),
    ],
)
def test_collectives_run_beside_the_first_kernels(kernels: list[int], slower: list[float], saved: float) -> None:
    """Two collectives take 100 ns."""
    step = Step(np.array(kernels, np.int64), np.array(slower), np.array([10, 90]))
    assert step.saved(0) == pytest.approx(saved)


def test_division_of_the_gradients_is_no_saving() -> None:
    """The time of dividing the gradients is subtracted from the saving, which is never below 0."""
    step = Step(np.array([1000]), np.array([1.0]), np.array([10, 90]))
    assert [step.saved(averaging) for averaging in (0.0, 25.0, 100.0, 120.0)] == [100, 75, 0, 0]


def test_without_collectives_nothing_is_saved() -> None:
    assert Step(np.array([1000]), np.array([1.0]), np.empty(0, np.int64)).saved(0) == 0


def test_overlap_removes_the_hidden_collectives() -> None:
    """There are six collectives of 49 µs, and all of them go.

    They save 299 µs a step: from 3 µs after the end of the kernels, when the first collective begins, to the end of the
    last one.
    """
    simulation = simulate_trace(trace_of(trained(ExportBuilder().gpu(), 132, 6)))
    change = beside(simulation).change
    assert change.factor == pytest.approx([0.0] * 6 * MEASURED)
    assert saved_us(simulation, beside) == MEASURED * 299


def test_averaging_takes_a_part_of_a_pass_of_the_optimizer() -> None:
    """The optimizer's kernel takes 20 µs a step. Division takes 2/7 of that."""
    builder = trained(ExportBuilder().gpu(), 132, 6)
    for number in range(STEPS):
        at = number * STEP
        builder.range("optimizer", at, at + US)
        builder.kernel(at + 8 * US, at + 28 * US, "adam", launched=(at, at + US))
    change = beside(simulate_trace(trace_of(builder))).change
    assert change.factor == pytest.approx([1 - (294 - 20 * 2 / 7) / 294] * 6 * MEASURED)


def overlapping() -> ExportBuilder:
    """Return steps with a collective of 300 µs during the backward kernel and one of 50 µs after it."""
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
    return builder


def test_hidden_collectives_save_nothing() -> None:
    """The exposed collective disappears, and the hidden one stays."""
    simulation = simulate_trace(trace_of(overlapping()))
    context, change = simulation.context, beside(simulation).change
    assert set(exposed(context, collectives_of(context)).tolist()) == {0, 50 * US}
    hidden = exposed(context, change.operations) == 0
    assert hidden.sum() == (~hidden).sum() == MEASURED
    assert np.asarray(change.factor)[hidden] == pytest.approx(1)
    assert np.asarray(change.factor)[~hidden] == pytest.approx(0)


def test_collectives_overlap_already_where_most_of_their_time_begins_in_the_backward_pass() -> None:
    """Of 350 µs a step, 300 µs begin before the backward kernel ends. Only the short collectives begin after it."""
    context = find_context(trace_of(overlapping()))
    rows = collectives_of(context)
    length = context.operations.end[rows] - context.operations.start[rows]
    assert overlaps_already(context, rows, 0)
    assert not overlaps_already(context, rows[length == 50 * US], 0)
    assert not overlaps_already(context, rows[:0], 0)


def test_collectives_behind_the_backward_pass_do_not_overlap_yet() -> None:
    """Kernels of the other GPU, whose backward pass lasts until the end of the step, do not count."""
    builder = trained(ExportBuilder().gpu().gpu(1), 132, 6)
    for number in range(STEPS):
        at = number * STEP
        builder.kernel(at + 10 * US, at + 999 * US, device=1, launched=(at + 61 * US, at + 62 * US))
    context = find_context(trace_of(builder))
    assert not overlaps_already(context, collectives_of(context), 0)


@pytest.mark.parametrize(("hidden", "overlaps"), [(50, False), (51, True)])
def test_half_of_the_time_is_not_most_of_it(hidden: int, overlaps: bool) -> None:  # noqa: FBT001
    """One collective begins during the kernel, and one of 50 µs begins after it."""
    builder = ExportBuilder().gpu().kernel(30 * US, 430 * US, launched=(2 * US, 4 * US))
    builder.kernel(100 * US, (100 + hidden) * US, ALL_REDUCE, stream=8, launched=(6 * US, 7 * US))
    builder.kernel(440 * US, 490 * US, ALL_REDUCE, stream=8, launched=(8 * US, 9 * US))
    context = find_context(trace_of(builder))
    assert overlaps_already(context, collectives_of(context), 0) is overlaps


def test_reductions_are_known_by_the_name_of_their_kernel() -> None:
    """AllReduce and ReduceScatter carry gradients; other collectives, kernels and copies do not."""
    names = ("AllReduce_Sum_f32_RING_LL", "ReduceScatter_Sum_bf16_RING_LL", "AllGather_RING_LL", "Broadcast_RING_LL")
    builder = ExportBuilder().gpu()
    for number, name in enumerate((*(f"ncclDevKernel_{each}" for each in (*names, "SendRecv")), "gemm")):
        builder.kernel(number * 100, number * 100 + 50, name, launched=(number * 10, number * 10 + 5))
    context = find_context(trace_of(builder.copy(700, 750, launched=(80, 85))))
    rows = np.arange(7)
    assert is_reduction(context, rows).tolist() == [True, True, False, False, False, False, False]
    assert is_reduction(context, rows[::-1]).tolist() == [False, False, False, False, False, True, True]
    assert is_reduction(context, rows[:0]).tolist() == []


def test_other_collectives_do_not_move_beside_the_backward_pass() -> None:
    """The next layer needs the result of an AllGather, so only the reductions after it change."""
    builder = trained(ExportBuilder().gpu(), 132, 6)
    for number in range(STEPS):
        at = number * STEP
        gather = at + 10 * US, at + 25 * US
        builder.kernel(*gather, "ncclDevKernel_AllGather_RING_LL", stream=8, launched=(at + US, at + 2 * US))
    simulation = simulate_trace(trace_of(builder))
    change = beside(simulation).change
    assert len(change.operations) == 6 * MEASURED
    assert is_reduction(simulation.context, change.operations).all()
    assert len(fewer_bytes(simulation).change.operations) == 7 * MEASURED


def test_fewer_bytes_shorten_the_collectives_of_all_gpus() -> None:
    """With half the bytes, six collectives of 49 µs take half of their time."""
    both = trained(trained(ExportBuilder().gpu().gpu(1), 132, 6), 132, 6, pid=4712, device=1)
    simulation = simulate_trace(trace_of(both))
    change = fewer_bytes(simulation).change
    operations = simulation.context.operations
    assert set(operations.device_id[change.operations].tolist()) == {0, 1}
    assert (operations.kind[change.operations] == COMMUNICATION).all()
    assert change.factor == 0.5
    assert saved_us(simulation, fewer_bytes) == pytest.approx(MEASURED * 6 * 49 / 2, abs=5)


def test_collectives_of_all_gpus_change_together() -> None:
    """A collective that gets shorter on one GPU alone would still wait for the other GPU."""
    alone = trained(ExportBuilder().gpu(), 132, 6)
    both = trained(trained(ExportBuilder().gpu().gpu(1), 132, 6), 132, 6, pid=4712, device=1)
    simulation = simulate_trace(trace_of(both))
    changed = beside(simulation).change.operations
    assert set(simulation.context.operations.device_id[changed].tolist()) == {0, 1}
    assert (simulation.context.operations.kind[changed] == COMMUNICATION).all()
    found = saved_us(simulation, beside)
    assert found == pytest.approx(saved_us(simulate_trace(trace_of(alone)), partial(beside_backward, 0)), rel=0.01)


def test_without_steps_and_phases_all_kernels_give_room() -> None:
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
