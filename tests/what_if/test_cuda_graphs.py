"""The change "CUDA graphs": which launches become one, and what stays."""

from collections.abc import Callable

import pytest
from analysis_fixtures import window
from export_builder import MAIN, ExportBuilder, trace_of
from simulations import US, saved_us, simulate_trace

from nsyswrap.base.intervals import Spans, total
from nsyswrap.what_if.changes.cuda_graphs import cuda_graphs

Fill = Callable[[ExportBuilder], object]
KERNELS, PACE = 20, 20


def launches(fill: Fill = lambda builder: builder, late: int = 0) -> ExportBuilder:
    """Return twenty kernels of 2 µs, one launched every 20 µs in a call of 4 µs; the second half late by some µs."""
    builder = ExportBuilder()
    for number in range(KERNELS):
        at = (number * PACE + (late if number >= KERNELS // 2 else 0)) * US
        builder.kernel(at + 10 * US, at + 12 * US, launched=(at, at + 4 * US))
    fill(builder)
    return builder


def saved(builder: ExportBuilder) -> int:
    """Return what the change saves, in µs."""
    return saved_us(simulate_trace(trace_of(builder), window(0, 2_000 * US)), cuda_graphs)


def host_us(builder: ExportBuilder) -> int:
    """Return how much time of the host is in the change, in µs."""
    host = cuda_graphs(simulate_trace(trace_of(builder), window(0, 2_000 * US))).change.host
    assert not isinstance(host, Spans)
    return int(total(host[MAIN])) // US


def test_a_run_of_launches_becomes_one_and_the_kernels_stay() -> None:
    """The run takes 392 µs. The launch takes 4 µs, the latency 6 and the kernels 40, which is all that is left."""
    assert saved(launches()) == pytest.approx(392 - 50, abs=KERNELS)


@pytest.mark.parametrize(
    "fill",
    [
        lambda builder: builder.call("cudaStreamSynchronize", 195 * US, 197 * US),
        lambda builder: builder.copy(196 * US, 197 * US, launched=(190 * US, 192 * US)),
        lambda builder: builder.range("forward", 0, 198 * US).range("backward", 198 * US, 400 * US),
    ],
    ids=["wait", "copy", "phase"],
)
def test_a_graph_ends_where_its_launch_cannot_go_on(fill: Fill) -> None:
    """Then there are two runs. The time from one launch to the next, 20 µs, is saved 18 times instead of 19 times."""
    assert (host_us(launches()), host_us(launches(fill))) == (19 * PACE, 18 * PACE)


def test_one_long_launch_takes_as_long_as_a_graph_usually_does() -> None:
    """The last launch call takes 100 µs instead of 4."""
    builder = launches()
    builder.kernel(510 * US, 512 * US, launched=(400 * US, 500 * US))
    assert saved(builder) > saved(launches()) + 90
