"""The critical path adds up to the run and names the work that the run waits for."""

import numpy as np
import pytest
from analysis_fixtures import window
from export_builder import ExportBuilder, trace_of
from simulations import US, simulate_trace

from nsyswrap.base.intervals import merge
from nsyswrap.what_if.critical_path import NOTHING_LEFT, PathKind, bounds_after, critical_path
from nsyswrap.what_if.dependency_graph import Change
from nsyswrap.what_if.simulate import Simulation


def queued(kernel: int, between: int) -> Simulation:
    """Return a run of five kernels of a given length and launch distance in µs. Each waits for the one before it."""
    builder, free = ExportBuilder(), 0
    for number in range(5):
        begin = max(number * between + 10, free + 1)
        free = begin + kernel
        builder.kernel(begin * US, free * US, launched=(number * between * US, (number * between + 4) * US))
    return simulate_trace(trace_of(builder), window(0, 10_000 * US))


@pytest.mark.parametrize(
    ("kernel", "between", "words"),
    [
        (100, 10, "After that, compute sets the pace"),
        (5, 100, "After that, the CPU sets the pace"),
    ],
)
def test_what_bounds_a_run_is_what_takes_most_of_its_path(kernel: int, between: int, words: str) -> None:
    assert bounds_after(queued(kernel, between)) == words


def test_kernels_that_a_change_makes_short_leave_the_host_on_the_path() -> None:
    simulation = queued(100, 60)
    faster = Change(operations=simulation.operations, factor=0.1)
    assert max(critical_path(simulation), key=critical_path(simulation).__getitem__) is PathKind.COMPUTE
    changed = critical_path(simulation, faster)
    assert (max(changed, key=changed.__getitem__), changed[PathKind.COMPUTE]) == (PathKind.CPU, 10 * US)


def test_a_run_with_nothing_left_says_so() -> None:
    simulation = queued(100, 10)
    calls = np.arange(len(simulation.context.trace.frames["calls"]))
    starts = simulation.context.trace.frames["calls"]["start"].to_numpy()
    ends = simulation.context.trace.frames["calls"]["end"].to_numpy()
    everything = Change(
        host=merge(np.append(starts, 0), np.append(ends, 10_000 * US)),
        operations=simulation.operations,
        factor=0.0,
        waits=calls,
    )
    assert bounds_after(simulation, everything) == NOTHING_LEFT
