"""What nsys adds to each recorded call on a machine, as `nsyswrap profile` measures it beside a capture."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nsyswrap.base.interval import Interval
from nsyswrap.hardware.kernel_names.classify import Classification

# The kinds of calls. More calls set up a convolution or a batch norm than another kernel. A graph launch costs once for
# the launch and once for each recorded node of the graph. A mark is a range that --annotate adds: without a profiler it
# does not exist. An operation is what the GPU does for one kernel, launched alone or in a graph.
LAUNCH, CONVOLUTION_LAUNCH, GRAPH_LAUNCH, GRAPH_NODE, CALL, RANGE, MARK, OS_CALL, OPERATION, GRAPH_OPERATION = KINDS = (
    "launch",
    "convolution_launch",
    "graph_launch",
    "graph_node",
    "call",
    "range",
    "mark",
    "os_call",
    "operation",
    "graph_operation",
)
# The general kinds of special ones.
GENERAL = {CONVOLUTION_LAUNCH: LAUNCH, GRAPH_OPERATION: OPERATION}

# Keys of a kind in `run.json`: what nsys adds at least, usually and at most, the call alone, and the slowdown.
COST_KEYS = ("low_ns", "usual_ns", "high_ns", "alone_ns")
SLOWDOWN = "slowdown"
# The key beside the kinds: how many times as long the host's work takes while nsys is armed and records nothing.
ARMED = "armed"
# What classifies the kernels of a convolutional network: the library, the operations, and PyTorch's own batch norm.
CUDNN, DEPTHWISE, NORM, BATCH = "cudnn", "conv_depthwise", "norm", "batch_norm"


class Slowdown(NamedTuple):
    """How many times as long the host's work from one launch to the next takes under nsys.

    That work is the code of the program and of PyTorch, its calls of CUDA and of the operating system that nsys slows
    down without recording them, and the launch.

    Attributes:
        usual: In the training steps of a small network.
        high: In these steps at most, or where all of the work is calls of CUDA.
    """

    usual: float
    high: float


@dataclass(frozen=True, slots=True)
class CallCost:
    """What nsys adds to one call of a kind, in ns.

    Attributes:
        added: With other code between the calls. At least: the calls come one after another, and the profiler's code
            and data stay in the CPU's caches. At most: the program evicts them between two calls.
        alone: Length of such a call without nsys.
        slowdown: What nsys does to the work of a thread that makes such calls; None where that was not measured.
    """

    added: Interval[float]
    alone: float = 0.0
    slowdown: Slowdown | None = None

    def measured(self) -> dict[str, object]:
        """Return the cost as `run.json` holds it."""
        found: dict[str, object] = dict(zip(COST_KEYS, (*self.added.in_order, self.alone), strict=True))
        return found if self.slowdown is None else {**found, SLOWDOWN: list(self.slowdown)}


FREE = CallCost(Interval(0.0, 0.0, 0.0))


@dataclass(frozen=True, slots=True)
class ProfilerCost:
    """What nsys adds to the calls of a program, measured on the machine of a capture.

    Attributes:
        calls: The cost of each kind in ``KINDS`` that was measured.
        pace_range: How many times as long the same code took at the slowest times of the machine as at its fastest,
            while the cost was measured; 1 where that is unknown.
        armed: How many times as long training steps take while nsys is armed; None where that was not measured.
    """

    calls: Mapping[str, CallCost] = field(default_factory=dict)
    pace_range: float = 1.0
    armed: float | None = None

    def __getitem__(self, kind: str) -> CallCost:
        """Return the cost of a kind; that of the general kind where a special one was not measured, else nothing."""
        return self.calls.get(kind, self.calls.get(GENERAL.get(kind, kind), FREE))

    @property
    def pace_of_runs(self) -> float:
        """Return how many times as long the same code takes in nine of ten other runs, or as short, at most.

        Either end of the measured range is its root from the middle. That is for moments; a second of steps is taken to
        have half of it. Source: ours, chosen with the turns of reports/overhead.json, of one kind of machine.
        """
        return float(self.pace_range**0.25)

    def measured(self) -> dict[str, object]:
        """Return the costs as `run.json` holds them; of the pace of the machine only its range."""
        calls = {kind: cost.measured() for kind, cost in self.calls.items()}
        return {"calls": calls, "pace": {"fastest_ns": 1.0, "slowest_ns": self.pace_range}, ARMED: self.armed}


def launch_kind(kernel: Classification) -> str:
    """Return the kind of call that launches a kernel."""
    convolution = kernel.library == CUDNN or kernel.op == DEPTHWISE or (kernel.op == NORM and BATCH in kernel.name)
    return CONVOLUTION_LAUNCH if convolution else LAUNCH


def read_cost(measured: object) -> ProfilerCost | None:
    """Return the costs that a `run.json` holds under ``profiler_cost``; None where it holds none.

    Args:
        measured: What the file holds there; anything that is not a cost is left out.
    """
    if not isinstance(measured, Mapping) or not isinstance(calls := measured.get("calls"), Mapping):
        return None
    known = {kind: cost for kind in KINDS if kind in calls and (cost := _cost(calls[kind])) is not None}
    return ProfilerCost(known, _pace_range(measured), _armed(measured)) if known else None


def _armed(measured: Mapping[str, Any]) -> float | None:
    """Return how many times as long training steps take while nsys is armed; None where a file does not say it."""
    found = measured.get(ARMED)
    return float(found) if isinstance(found, int | float) and 1 <= found < float("inf") else None


def _pace_range(measured: object) -> float:
    """Return how much the pace of the machine changed; 1 where a file does not say it."""
    try:
        fastest, slowest = (float(measured["pace"][name]) for name in ("fastest_ns", "slowest_ns"))  # type: ignore[index]
    except (KeyError, TypeError, ValueError):
        return 1.0
    return slowest / fastest if 0 < fastest <= slowest < float("inf") else 1.0


def _cost(measured: Any) -> CallCost | None:  # noqa: ANN401 - from a file
    try:
        *added, alone = (float(measured[name]) for name in COST_KEYS)
        found = CallCost(Interval(*added), alone, _slowdown(measured[SLOWDOWN]) if SLOWDOWN in measured else None)
    except (KeyError, TypeError, ValueError):
        return None
    most = float("inf")
    return found if found.added.low >= 0 and found.added.high < most and 0 <= found.alone < most else None


def _slowdown(measured: Any) -> Slowdown:  # noqa: ANN401 - from a file
    found = Slowdown(*map(float, measured))
    if not 1 <= found.usual <= found.high < float("inf"):
        raise ValueError("no slowdown")
    return found
