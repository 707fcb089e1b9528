"""Costs of recording with round numbers, for tests."""

from nsyswrap.base.interval import Interval
from nsyswrap.hardware.profiler_cost import CallCost, ProfilerCost

US = 1_000
# A launch costs 2, 3 or 5 us, any other CUDA call 1 us. Without nsys a launch takes 2 us.
COST = ProfilerCost(
    {
        "launch": CallCost(Interval(2 * US, 3 * US, 5 * US), 2 * US),
        "call": CallCost(Interval(US, US, US), 0),
        "graph_launch": CallCost(Interval(4 * US, 4 * US, 4 * US), 0),
        "graph_node": CallCost(Interval(US, US, US), 0),
        "range": CallCost(Interval(2 * US, 2 * US, 2 * US), 0),
        "mark": CallCost(Interval(6 * US, 6 * US, 6 * US), 0),
        "os_call": CallCost(Interval(500, 500, 500), 0),
    }
)
