"""Costs of recording with round numbers, for tests."""

from nsyswrap.hardware.profiler_cost import CallCost, ProfilerCost

US = 1_000
# A launch costs 2, 3 or 5 us, any other CUDA call 1 us. Without nsys a launch takes 2 us.
COST = ProfilerCost(
    {
        "launch": CallCost(2 * US, 3 * US, 5 * US, 2 * US),
        "call": CallCost(US, US, US, 0),
        "graph_launch": CallCost(4 * US, 4 * US, 4 * US, 0),
        "graph_node": CallCost(US, US, US, 0),
        "range": CallCost(2 * US, 2 * US, 2 * US, 0),
        "mark": CallCost(6 * US, 6 * US, 6 * US, 0),
        "os_call": CallCost(500, 500, 500, 0),
    }
)
