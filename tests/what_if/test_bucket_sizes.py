"""The change "buckets of another size": when buckets are ready, and what is left of them after the backward pass."""

import numpy as np
import pytest
from export_builder import ExportBuilder, trace_of
from simulations import US, simulate_trace

from nsyswrap.what_if.bucket_sizes import Buckets, buckets_of, half_as_large, latency_ns, twice_as_large

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
STEP, STEPS = 1000 * US, 8
NCCL = 7


def buckets(ready: list[int], length: list[int], over: int = 400) -> Buckets:
    """Return the buckets of a pass that begins at 0."""
    return Buckets(0, over, np.array(ready, np.int64), np.array(length, np.int64))


@pytest.mark.parametrize(
    ("length", "latency", "half", "twice"),
    [
        (100, 0, 450, 600),  # the end is half of the last bucket; two in one wait for the gradients of both
        (100, 100, 500, 500),  # all is latency: halves take as long as the whole, and two in one as one
        (400, 0, 900, 1200),  # the links are the limit: halves begin 100 earlier
        (10, 0, 405, 420),
    ],
)
def test_buckets_are_sent_one_after_another_when_they_are_ready(
    length: int, latency: int, half: int, twice: int
) -> None:
    """Two buckets are ready at 200 and 400, when the pass ends."""
    given = buckets([200, 400], [length, length])
    assert given.end == max(400, 200 + length) + length
    assert given.divided(2, latency).end == half
    assert given.doubled(latency).end == twice


def test_the_last_of_three_buckets_stays_alone() -> None:
    given = buckets([100, 200, 400], [50, 50, 50])
    assert given.doubled(20).ready.tolist() == [200, 400]
    assert given.doubled(20).length.tolist() == [80, 50]


def trained(sizes: tuple[int, ...] = (), lengths: tuple[int, int] = (100, 100)) -> ExportBuilder:
    """Return steps with two kernels of 200 us, and a bucket of 100 us behind each; with sizes, NCCL recorded them.

    ::

        compute      |## 30 to 230 ##|## 230 to 430 ##|            |adam|
        buckets                      |= 100 us =|     |= 100 us =|
    """
    builder = ExportBuilder().gpu()
    if sizes:
        builder.domain("NCCL", NCCL)
    for number in range(STEPS):
        at = number * STEP
        builder.range(f"batch {number}", at, at + STEP - 1).range("backward", at + US, at + 20 * US)
        builder.range("optimizer", at + 20 * US, at + 24 * US)
        for place, start in enumerate((30, 230)):
            call = at + (2 + 6 * place) * US
            builder.kernel(at + start * US, at + (start + 200) * US, "bwd", launched=(call, call + US))
            sent = call + 3 * US
            ran = at + (start + 200) * US, at + (start + 200 + lengths[place]) * US
            builder.kernel(*ran, ALL_REDUCE, launched=(sent, sent + US), stream=8)
            if sizes:
                said = f'{{"NCCL communicator ID":5,"Message size [bytes]":{sizes[place]},"Reduction operation":"Sum"}}'
                builder.range("ncclAllReduce", sent - 10, sent + US + 10, domain=NCCL, jsonText=said)
        builder.kernel(at + 531 * US, at + 551 * US, "adam", launched=(at + 21 * US, at + 22 * US))
        builder.call("cudaDeviceSynchronize", at + 26 * US, at + 553 * US)
    return builder


def test_a_bucket_is_ready_when_the_kernels_launched_before_it_have_ended() -> None:
    found = list(buckets_of(0, simulate_trace(trace_of(trained()))))
    assert found
    for each in found:
        assert (each.over - each.begun, each.length.tolist()) == (400 * US, [100 * US, 100 * US])
        assert (each.ready - each.begun).tolist() == [200 * US, 400 * US]


def test_smaller_buckets_leave_half_of_the_last_one() -> None:
    """A bucket of twice the size takes twice as long, so half of the last bucket is saved."""
    simulation = simulate_trace(trace_of(trained((1 << 20, 2 << 20), (50, 100))))
    assert latency_ns(0, simulation) == pytest.approx(0, abs=1)
    fix = half_as_large(0, simulation)
    assert fix is not None
    factor = np.asarray(fix.change.factor)
    behind = simulation.context.operations.start[fix.change.operations] % STEP == 430 * US
    assert factor[behind] == pytest.approx(0.5)
    assert factor[~behind] == pytest.approx(1)


def test_without_sizes_the_latency_is_not_known_and_nothing_is_said() -> None:
    simulation = simulate_trace(trace_of(trained()))
    assert latency_ns(0, simulation) is None
    assert half_as_large(0, simulation) is None
    assert twice_as_large(0, simulation) is None


def test_sizes_that_do_not_change_the_length_are_all_latency() -> None:
    """A bucket of ten times the size takes as long: two buckets in one take as long as one, and halves save nothing."""
    simulation = simulate_trace(trace_of(trained((1 << 20, 10 << 20))))
    assert latency_ns(0, simulation) == pytest.approx(100 * US)
    smaller, larger = half_as_large(0, simulation), twice_as_large(0, simulation)
    assert smaller is not None
    assert larger is not None
    # The first bucket waits for the second one, and both together end as the second one did.
    for each in (smaller, larger):
        assert np.asarray(each.change.factor) == pytest.approx(1)


def test_sizes_that_are_nearly_equal_show_no_latency() -> None:
    assert latency_ns(0, simulate_trace(trace_of(trained((1 << 20, 3 << 19))))) is None
