"""What nsys adds to each recorded call on a machine, as `nsyswrap profile` measures it beside a capture."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# The kinds of calls. A graph launch costs once for the launch and once for each recorded node of the graph. A mark is a
# range that --annotate adds: without a profiler it does not exist. An operation is what the GPU does for one kernel.
LAUNCH, GRAPH_LAUNCH, GRAPH_NODE, CALL, RANGE, MARK, OS_CALL, OPERATION = KINDS = (
    "launch",
    "graph_launch",
    "graph_node",
    "call",
    "range",
    "mark",
    "os_call",
    "operation",
)


@dataclass(frozen=True, slots=True)
class CallCost:
    """What nsys adds to one call of a kind, in ns.

    Attributes:
        low: The least: the calls come one after another, and the profiler's code and data stay in the CPU's caches.
        usual: With other code between the calls.
        high: The most: the program evicts the profiler's code and data between two calls.
        alone: Length of such a call without nsys.
    """

    low: float
    usual: float
    high: float
    alone: float = 0.0


FREE = CallCost(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class ProfilerCost:
    """What nsys adds to the calls of a program, measured on the machine of a capture.

    Attributes:
        calls: The cost of each kind in ``KINDS`` that was measured.
    """

    calls: Mapping[str, CallCost] = field(default_factory=dict)

    def __getitem__(self, kind: str) -> CallCost:
        """Return the cost of a kind; nothing where it was not measured."""
        return self.calls.get(kind, FREE)


def read_cost(measured: object) -> ProfilerCost | None:
    """Return the costs that a `run.json` holds under ``profiler_cost``; None where it holds none.

    Args:
        measured: What the file holds there; anything that is not a cost is left out.
    """
    calls = measured.get("calls") if isinstance(measured, Mapping) else None
    if not isinstance(calls, Mapping):
        return None
    found = {kind: _cost(calls[kind]) for kind in KINDS if kind in calls}
    known = {kind: cost for kind, cost in found.items() if cost is not None}
    return ProfilerCost(known) if known else None


def _cost(measured: Any) -> CallCost | None:  # noqa: ANN401 - from a file
    try:
        found = CallCost(*(float(measured[name]) for name in ("low_ns", "usual_ns", "high_ns", "alone_ns")))
    except (KeyError, TypeError, ValueError):
        return None
    most = float("inf")
    return found if 0 <= found.low <= found.usual <= found.high < most and 0 <= found.alone < most else None
