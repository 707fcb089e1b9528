"""How long the steps of a sample take in a simulation.

A step begins and ends between two moments of its thread. In the simulation these move, and the begin of the step
divides the time between them as before::

    recorded    |moment|--------step begins------|moment|
    simulated   |moment|----step begins--|moment|

So what a thread does between its steps, such as a wait for another program, does not count.
"""

import numpy as np
import numpy.typing as npt

from nsyswrap.intervals import Times
from nsyswrap.tables import array
from nsyswrap.what_if.simulate import Simulation

NO_STEPS = np.empty(0)


def simulated_steps(simulation: Simulation, happened: Times) -> npt.NDArray[np.float64]:
    """Return the lengths of the measured steps of a sample in a simulation, in ns.

    Args:
        simulation: The sample; steps on threads that are not in it are left out.
        happened: When each node of its graph happens, as ``DependencyGraph.run`` returns it.
    """
    graph, sample = simulation.graph, simulation.sample
    steps, found = simulation.context.steps.measured_inside(sample), [NO_STEPS]
    thread, start, end = (array(steps, name) for name in ("thread", "start", "end"))
    for each in simulation.threads:
        mine, nodes = thread == each, np.flatnonzero(graph.thread == each)
        if not mine.any():
            continue
        # A node's work begins with the moment that the node follows.
        nodes = nodes[np.argsort(graph.work_start[nodes], kind="stable")]
        recorded = np.append(graph.work_start[nodes], sample.end_ns)
        moved = np.append(happened[graph.after[nodes]], happened[graph.is_end].max(initial=0))
        moved = np.maximum.accumulate(moved)
        found.append(np.interp(end[mine], recorded, moved) - np.interp(start[mine], recorded, moved))
    return np.concatenate(found)
