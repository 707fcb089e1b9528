"""How long the steps of a sample take in a simulation.

A step begins and ends between two moments of its thread. In the simulation these move, and the begin of the step
divides the time between them as before::

    recorded    |moment|--------step begins------|moment|
    simulated   |moment|----step begins--|moment|

So what a thread does between its steps, such as a wait for another program, does not count.

A sample is a part of a window. What a change saves may differ from step to step, and the steps of the sample may be
longer or shorter than those of the window. So the typical steps of a sample count: those recorded with nearly the
median length of the window's steps.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from nsyswrap.base.intervals import NOTHING, Indices, Spans, Times, Window
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array
from nsyswrap.what_if.simulate import Simulation

NO_STEPS = np.empty(0)
NOTHING_BY_THREAD: Mapping[int, Spans] = MappingProxyType({})
# The typical steps of a sample are a quarter of them, and at least so many. Source: ours.
FEWEST_TYPICAL = 5


def simulated_steps(
    simulation: Simulation, happened: Times, *, whole: bool = False, without: Mapping[int, Spans] = NOTHING_BY_THREAD
) -> npt.NDArray[np.float64]:
    """Return the lengths of the measured steps of a sample in a simulation, in ns.

    Args:
        simulation: The sample; steps on threads that are not in it are left out.
        happened: When each node of its graph happens, as ``DependencyGraph.run`` returns it.
        whole: Whether a step lasts until the next one begins.
        without: Recorded spans of each thread that do not count.
    """
    graph, found = simulation.graph, [NO_STEPS]
    for thread, start, own_end in _recorded(simulation):
        end = until_next(start, own_end) if whole else own_end
        nodes = np.flatnonzero(graph.thread == thread)
        # A node's work begins with the moment that the node follows.
        nodes = nodes[np.argsort(graph.work_start[nodes], kind="stable")]
        recorded = np.append(graph.work_start[nodes], simulation.sample.end_ns)
        moved = np.append(happened[graph.after[nodes]], happened[graph.is_end].max(initial=0))
        moved = np.maximum.accumulate(moved)
        length = np.interp(end, recorded, moved) - np.interp(start, recorded, moved)
        if len((spans := without.get(thread, NOTHING)).start):
            inside = np.append(
                0.0, np.cumsum(np.interp(spans.end, recorded, moved) - np.interp(spans.start, recorded, moved))
            )
            first, last = (inside[np.searchsorted(spans.start, side)] for side in (start, end))
            length -= last - first
        found.append(length)
    return np.concatenate(found)


def until_next(start: Times, end: Times) -> Times:
    """Return where the steps of a thread end, in ns, if each lasts until the next one begins."""
    found: Times = np.append(start[1:], end[-1:])
    return found


def processes_of_steps(simulation: Simulation) -> Times:
    """Return the process of each of the steps that :func:`simulated_steps` returns, as its global id."""
    each = [np.full(len(start), thread & ~tables.THREAD_MASK) for thread, start, _ in _recorded(simulation)]
    return np.concatenate([np.empty(0, np.int64), *each])


def typical_steps(simulation: Simulation, window: Window) -> Indices:
    """Return which steps of a sample were recorded with nearly the median length of a window's steps.

    Returns:
        Rows of what :func:`simulated_steps` returns.
    """
    recorded = np.concatenate([NO_STEPS, *(end - start for _, start, end in _recorded(simulation))])
    steps = simulation.context.steps.measured_inside(window)
    if not len(recorded) or not len(steps):
        return np.arange(len(recorded))
    far = np.abs(recorded - np.median(array(steps, "end") - array(steps, "start")))
    return np.argsort(far, kind="stable")[: max(len(recorded) // 4, FEWEST_TYPICAL)]


def _recorded(simulation: Simulation) -> Iterator[tuple[int, Times, Times]]:
    """Yield the threads of a sample that have measured steps, with begins and ends of these, in ns."""
    every, sample = simulation.context.steps, simulation.sample
    steps = every.in_all(sample)
    if not len(steps):
        steps = every.whole_inside(sample)
        steps = steps[~steps["warm_up"]]
    thread, start, end = (array(steps, name) for name in ("thread", "start", "end"))
    for each in simulation.threads:
        mine = thread == each
        if mine.any():
            yield each, start[mine], end[mine]
