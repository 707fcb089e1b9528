"""The program whose calls are timed alone and under nsys, to measure what nsys adds to each of them.

It makes many calls of each kind that a capture records: launches, other CUDA calls, NVTX ranges, and calls of the
operating system. It writes the median time of a call in each of many blocks as JSON. It calls the CUDA libraries
through ctypes; where torch is installed, it also times training steps of PyTorch. Where there is no GPU, it makes the
other calls only.

In a loop of nothing but launches, the profiler's code and data stay in the CPU's caches, and its cost is small. A real
program evicts them. So each kind is timed in three settings, with different work before each call::

    tight     |call|call|call|call|
    python    |work|call|work|call|        the interpreter runs other code, as between two launches of a real program
    evicted   |work|copy|call|work|copy|   and memory larger than the first cache is copied

A shared machine is slower at some times than at others. So the same work is timed next to each block, and the
times of the block are scaled to the usual speed of the machine.
"""

import ctypes
import json
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping

from nsyswrap.capture.annotate.marker import DATA, Marker, Sink
from nsyswrap.capture.annotate.nvtx_calls import connected, package_calls
from nsyswrap.capture.cost_probe_cuda import Cuda
from nsyswrap.capture.cost_probe_torch import Steps

Call = Callable[[], object]
Blocks = list[tuple[float, float]]

# Blocks of each kind and setting, and calls in each block: enough for stable quartiles in a few seconds.
BLOCKS = 12
CALLS = 100
# Read and written before each call: many times the first-level cache of a core, and part of its second-level cache.
# Between two launches, a training program touches a similar amount of its framework's code and data.
EVICTED_BYTES = 512 << 10
COUNT = "--count"
# Training steps in each block: they take a hundred times as long as a call.
STEPS = 6
# Steps count at the fastest pace of the machine alone. While it is slow, more blocks are timed.
MOST_BLOCKS = 10 * BLOCKS
FEWEST_BLOCKS = 4
# A block within this factor of the fastest pace is at that pace. Source: measured on the machine of docs/overhead.md:
# fast blocks are within a tenth of each other; where others use the other half of the core, work takes 1.7 times as
# long.
FAST = 1.15
# How many times the work is timed next to each block.
PACES = 9


class Work:
    """What runs before each call: nothing, Python, or Python and a copy that evicts the caches."""

    def __init__(self) -> None:
        self._value = {
            "name": "layer",
            "shape": [64, 128, 3, 3],
            "parts": [{"weight": 0.5, "index": n} for n in range(6)],
        }
        self._pattern = re.compile(r"(\w+)\.(\d+)\.(\w+)")
        half = EVICTED_BYTES // 2
        self._source, self._target = bytes(half), bytearray(half)

    @staticmethod
    def tight() -> None:
        """Do nothing."""

    def python(self) -> None:
        """Run code of the interpreter and of its libraries."""
        text = json.dumps(self._value)
        self._pattern.sub(r"\3.\1", "encoder.11.attention")
        sorted(json.loads(text), key=len)

    def evicted(self) -> None:
        """Run the same code, and copy memory."""
        self.python()
        self._target[:] = self._source


def times(call: Call, before: Call, settle: Call | None, pace: Call) -> Blocks:
    """Return the median length of a call in each block, and that of some work timed next to the block, in ns.

    Args:
        call: The call.
        before: What runs before each call; outside of the times.
        settle: Runs after each block, outside of the times; None for nothing.
        pace: The work that shows how fast the machine is.
    """
    found = []
    for _ in range(BLOCKS + 1):
        found.append(_block(call, before, pace, CALLS))
        if settle is not None:
            settle()
    return found[1:]


def times_at_pace(step: Call, pace: Call, fastest_ns: float) -> Blocks:
    """Return the median length of a step in each block, and that of some work timed next to the block, in ns.

    Further blocks are timed until some of them are at the fastest pace of the machine, within a limit.

    Args:
        step: The step.
        pace: The work that shows how fast the machine is.
        fastest_ns: How long that work took at its fastest.
    """
    found = [_block(step, Work.tight, pace, STEPS) for _ in range(BLOCKS + 1)][1:]
    while sum(each <= FAST * fastest_ns for _, each in found) < FEWEST_BLOCKS and len(found) < MOST_BLOCKS:
        found.append(_block(step, Work.tight, pace, STEPS))
    return found


def _block(call: Call, before: Call, pace: Call, calls: int) -> tuple[float, float]:
    """Return the median length of a call, and before that of the work that shows the pace, in ns."""
    paces = [_length(pace) for _ in range(PACES)]
    lengths = []
    for _ in range(calls):
        before()
        lengths.append(_length(call))
    return statistics.median(lengths), statistics.median(paces)


def _length(call: Call) -> int:
    """Return how long a call takes, in ns."""
    began = time.perf_counter_ns()
    call()
    return time.perf_counter_ns() - began


def range_kinds() -> Iterator[tuple[str, Call]]:
    """Yield the calls that open and close a range: alone, and with what marks a phase of an unchanged program.

    Without a profiler, the package ``nvtx`` opens the range in the same way, or else calls that do nothing. No phase is
    marked then.
    """
    sink: Sink | None
    try:
        sink = connected(os.environ)
    except (LookupError, OSError, AttributeError):
        found = package_calls()
        yield "range", _empty_call() if found is None else _both(found)
        yield "mark", lambda: None
        return
    yield "range", _both(sink)
    marker = Marker(sink)

    def mark() -> None:
        state = marker.begin(DATA)
        if state is not None:
            marker.end(state)

    yield "mark", mark


def _both(sink: Sink) -> Call:
    """Return a call that opens and closes a range."""
    push, given = sink.opener("range", 0)
    pop, domain = sink.closer()

    def both() -> None:
        push(*given)
        pop(*domain)

    return both


def _empty_call() -> Call:
    """Return two calls through ctypes, which cost what those of a range cost without a profiler."""
    function = ctypes.PYFUNCTYPE(None)(("Py_GetVersion", ctypes.pythonapi))
    one, two = (ctypes.c_void_p.from_param(1), ctypes.c_void_p.from_param(1)), (ctypes.c_void_p.from_param(1),)

    def both() -> None:
        function(*one)
        function(*two)

    return both


def os_kinds() -> Iterator[tuple[str, Call]]:
    """Yield calls of the operating system: one of some microseconds, and a short one."""
    libc = ctypes.PyDLL(None)
    zero = os.open("/dev/zero", os.O_RDONLY)
    memory = ctypes.create_string_buffer(1 << 16)
    yield "os_call", lambda: libc.read(zero, memory, 1 << 16)
    null = os.open("/dev/null", os.O_WRONLY)
    yield "short_os_call", lambda: libc.write(null, memory, 1)


def graph_times(cuda: Cuda, settings: Mapping[str, Call], work: Work) -> dict[str, dict[str, Blocks]]:
    """Return the times of launches of graphs by block.

    The GPU is idle at each launch: where graphs wait in the queue, the length of their launches changes nothing.

    Args:
        cuda: Makes the launches.
        settings: What runs before each launch, after the wait for the GPU.
        work: Shows the pace of the machine.
    """

    def idle(before: Call) -> Call:
        def settled() -> None:
            cuda.settle()
            before()

        return settled

    return {
        name: {setting: times(call, idle(before), None, work.python) for setting, before in settings.items()}
        for name, call in cuda.graphs()
    }


def step_times(work: Work, fastest_ns: float, *, count: bool) -> dict[str, dict[str, Blocks]]:
    """Return the times of training steps by block, and the launches of one step by kind; nothing without torch.

    Args:
        work: Shows the pace of the machine.
        fastest_ns: How long it took at its fastest.
        count: Count the launches: PyTorch's own profiler does that, which nsys keeps from working.
    """
    try:
        steps = Steps()
        kinds = dict(steps.kinds())
        found = {name: {"tight": times_at_pace(step, work.python, fastest_ns)} for name, step in kinds.items()}
        if count:
            for name, step in kinds.items():
                found[f"{name}_launches"] = {kind: [(each, 0)] for kind, each in steps.launches(step).items()}
    except (ImportError, OSError, AssertionError, RuntimeError) as error:  # no torch, no GPU for it, no memory left
        sys.stderr.write(f"nsyswrap: without training steps: {error}\n")
        return {}
    return found


def measure(*, count: bool = False) -> dict[str, dict[str, Blocks]]:
    """Return the times of each kind and setting by block: of a call, and of the work that shows the pace, in ns.

    Args:
        count: Count the launches of the training steps too.
    """
    work = Work()
    settings: dict[str, Call] = {"tight": work.tight, "python": work.python, "evicted": work.evicted}
    kinds: list[tuple[str, Call, Call | None]] = [("nothing", work.tight, None)]
    kinds += [(name, call, None) for name, call in (*range_kinds(), *os_kinds())]
    cuda = None
    try:
        cuda = Cuda()
    except OSError as error:
        sys.stderr.write(f"nsyswrap: without CUDA calls: {error}\n")
    if cuda is not None:
        kinds += [(name, call, cuda.settle) for name, call in cuda.kinds()]
    found = {
        name: {setting: times(call, before, settle, work.python) for setting, before in settings.items()}
        for name, call, settle in kinds
    }
    if cuda is not None:
        found |= graph_times(cuda, settings, work)
        fastest = min(pace for each in found.values() for blocks in each.values() for _, pace in blocks)
        found["queued_kernel"] = {"device": [(each, 0) for each in cuda.queued()]}  # the CPU's pace does not apply
        found |= step_times(work, fastest, count=count)
    return found


def main() -> int:
    """Write the times as JSON to the file that the command line names; with --count, also the counted launches."""
    found = measure(count=COUNT in sys.argv[2:])
    with open(sys.argv[1], "w", encoding="utf-8") as file:  # noqa: PTH123 - the folder exists
        json.dump(found, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
