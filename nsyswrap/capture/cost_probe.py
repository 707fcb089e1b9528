"""The program whose calls are timed alone and under nsys, to measure what nsys adds to each of them.

It makes many calls of each kind that a capture records: launches, other CUDA calls, NVTX ranges, and calls of the
operating system. It calls the CUDA libraries through ctypes; where torch is installed, it also makes training steps of
PyTorch. Where there is no GPU, it makes the other calls only.

In a loop of nothing but launches, the profiler's code and data stay in the CPU's caches, and its cost is small. A real
program evicts them. So each kind is timed in three settings, with different work before each call::

    tight     |call|call|call|call|
    python    |work|call|work|call|        the interpreter runs other code, as between two launches of a real program
    evicted   |work|copy|call|work|copy|   and memory larger than the first cache is copied

It times one block of calls for each request, so that two of these programs can take turns
(:mod:`nsyswrap.capture.probe_turns`). The same work is timed next to each block, to show the pace of the machine.

Before it launches a kernel, PyTorch allocates, asks for the device and its stream, and lets cuBLAS and cuDNN choose and
set up the kernel. nsys slows down all of these CUDA calls and records only the launch. How many there are depends on
who launches. So two small steps are timed, one of linear layers and one of convolutions, and the kernels of one step
are counted::

    without nsys   |step.........|                 so many times as long takes a thread's work from one launch to the
    under nsys     |step...................|       next; the difference over the launches is what one of them costs

The GPU needs less time for each step than the CPU, so the length is that of the CPU. The backward pass runs in the
calling thread: two threads may run on cores of different speed.

Both have as many layers as real networks. Under nsys, a step of few layers is slowed less: what it needs stays in the
caches of its core, with nsys's own code and data. On an H100 machine a step of 6 linear layers took 1.36 times as long
under nsys, one of 24 1.43 times, and of 72 1.50 times; a transformer of 2 layers 1.31 and of 12 1.40 times.
"""

import ctypes
import json
import os
import re
import socket
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, TextIO

from nsyswrap.capture.annotate.marks import TOKENIZER, Marks
from nsyswrap.capture.annotate.nvtx_calls import Sink, connected
from nsyswrap.capture.cost_probe_cuda import Cuda
from nsyswrap.hardware.kernel_names.classify import classify
from nsyswrap.hardware.profiler_cost import launch_kind

# As many linear layers as twelve layers of a transformer have outside of attention, and a few more convolutions than
# ResNet-18.
LAYERS, WIDTH, ROWS = 24, 64, 32
CHANNELS, SIDE, PICTURES = 16, 16, 4
WARM_UP = 5
LAUNCH_CALLS = ("cudaLaunchKernel", "cuLaunchKernel")


Call = Callable[[], object]
# The time of a call in a block, and how long the work that shows the pace took next to it, in ns.
Block = tuple[float, float]
# What times a block, by call and setting.
Blocks = Mapping[str, Mapping[str, Callable[[], Block]]]
# Calls in each block: enough for a stable median.
CALLS = 100
# Read and written before each call: many times the first-level cache of a core, and part of its second-level cache.
# Between two launches, a training program touches a similar amount of its framework's code and data.
EVICTED_BYTES = 512 << 10
# Training steps in each block: they take a hundred times as long as a call.
STEPS = 6
# How many times the work is timed next to each block.
PACES = 9
TIGHT, DEVICE = "tight", "device"


class StepLaunches(NamedTuple):
    """The launches of a training step.

    Attributes:
        counts: How many kernels it launches, by the kind of launch.
        longest: How many times as long as the mean the thread works from one launch to the next, at most in 19 of 20
            cases; 1 where that is not known.
    """

    counts: dict[str, int]
    longest: float = 1.0


class TrainingSteps:
    """Two training steps on a device.

    Raises:
        ImportError: There is no torch.
        AssertionError: It was built without CUDA.
        RuntimeError: It finds no such device, or has not enough memory.
    """

    def __init__(self, device: str = "cuda") -> None:
        import torch  # noqa: PLC0415 - the probe runs without torch as well

        self._torch, self._device = torch, device
        nn = self._torch.nn
        parts = [
            part
            for _ in range(LAYERS)
            for part in (nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False), nn.BatchNorm2d(CHANNELS), nn.ReLU())
        ]
        pictures = self._torch.randn(PICTURES, CHANNELS, SIDE, SIDE, device=self._device)
        self.plain, self.convolutions = self._plain(), self._step(nn.Sequential(*parts), pictures)
        for _ in range(WARM_UP):
            self.plain()
            self.convolutions()

    def kinds(self) -> Iterator[tuple[str, Call]]:
        """Yield the steps. Each waits for the GPU at its end, so that no step waits for room in the queue."""
        yield "plain_step", self.plain
        yield "convolution_step", self.convolutions

    def launches(self, step: Call) -> StepLaunches:
        """Return the launches of a step, from PyTorch's own profiler."""
        profiler = self._torch.profiler
        with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as found:
            step()
        events = found.events()
        kernels = (each for each in events if each.device_type.name == "CUDA")
        counts = Counter(launch_kind(classify(each.name)) for each in kernels if not _is_copy(each.name))
        calls = (each for each in events if each.device_type.name == "CPU" and each.name.startswith(LAUNCH_CALLS))
        return StepLaunches(dict(counts), _longest(sorted(float(each.time_range.end) for each in calls)))

    def _plain(self) -> Call:
        nn = self._torch.nn
        parts = [part for _ in range(LAYERS) for part in (nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.GELU())]
        return self._step(nn.Sequential(*parts), self._torch.randn(ROWS, WIDTH, device=self._device))

    def _step(self, model: Any, batch: Any) -> Call:  # noqa: ANN401 - torch is not typed
        model = model.to(self._device)
        optimizer = self._torch.optim.SGD(model.parameters(), 1e-3)

        def step() -> float:
            optimizer.zero_grad()
            loss = model(batch).square().mean()
            with self._torch.autograd.set_multithreading_enabled(False):
                loss.backward()
            optimizer.step()
            return float(loss.item())

        return step


def _longest(ends: list[float]) -> float:
    """Return how many times the mean the time from one launch to the next is, in 19 of 20 cases at most.

    ``ends`` are when the calls ended, ascending, in any unit.
    """
    pieces = [end - begin for begin, end in pairwise(ends)]
    if len(pieces) < 2 or ends[-1] <= ends[0]:  # noqa: PLR2004 - quantiles need two
        return 1.0
    return max(statistics.quantiles(pieces, n=20)[-1] / statistics.mean(pieces), 1.0)


def _is_copy(name: str) -> bool:
    return name.startswith(("Memcpy", "Memset"))


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


def block(call: Call, before: Call, settle: Call, pace: Call, calls: int) -> Block:
    """Return the median length of a call, and that of some work timed before the block, in ns.

    What runs before each call, and what settles the block after it, is outside of the times.
    """
    paces = [_length(pace) for _ in range(PACES)]
    lengths = []
    for _ in range(calls):
        before()
        lengths.append(_length(call))
    settle()
    return statistics.median(lengths), statistics.median(paces)


def _length(call: Call) -> int:
    """Return how long a call takes, in ns."""
    began = time.perf_counter_ns()
    call()
    return time.perf_counter_ns() - began


def range_kinds() -> Iterator[tuple[str, Call]]:
    """Yield the calls that open and close a range: alone, and with what marks a phase of an unchanged program.

    Without a profiler, calls that do nothing take the place of a range. No phase is marked then.
    """
    sink: Sink
    try:
        sink = connected(os.environ)
    except (LookupError, OSError, AttributeError):
        # Two calls through ctypes cost what those of a range cost without a profiler.
        function = ctypes.PYFUNCTYPE(None)(("Py_IsInitialized", ctypes.pythonapi))
        given = ctypes.c_void_p.from_param(1), ctypes.c_void_p.from_param(1)

        def both() -> None:
            function(*given)
            function(*given)

        yield "range", both
        yield "mark", lambda: None
        return
    domain, described, start, end = sink.domain, sink.described("range", 0), sink.start, sink.end
    yield "range", lambda: end(domain, start(domain, described))
    marks = Marks(sink)

    def mark() -> None:
        marks.started(mark.__code__)
        marks.returned(mark.__code__)

    marks.watch(mark.__code__, TOKENIZER)
    yield "mark", mark


def os_kinds() -> Iterator[tuple[str, Call]]:
    """Yield calls of the operating system: one of some microseconds, and a short one."""
    libc = ctypes.PyDLL(None)
    zero = os.open("/dev/zero", os.O_RDONLY)
    memory = ctypes.create_string_buffer(1 << 16)
    yield "os_call", lambda: libc.read(zero, memory, 1 << 16)
    null = os.open("/dev/null", os.O_WRONLY)
    yield "short_os_call", lambda: libc.write(null, memory, 1)


def blocks_of_calls(work: Work) -> Blocks:
    """Return what times a block of each call in each setting; without a GPU only calls of the host.

    The GPU is idle at each launch of a graph: where graphs wait in the queue, the length of their launches changes
    nothing.
    """
    nothing = work.tight
    settings: dict[str, Call] = {TIGHT: nothing, "python": work.python, "evicted": work.evicted}
    kinds: list[tuple[str, Call, Call, Call]] = [("nothing", nothing, nothing, nothing)]
    kinds += [(name, call, nothing, nothing) for name, call in (*range_kinds(), *os_kinds())]
    of_device: dict[str, Mapping[str, Callable[[], Block]]] = {}
    try:
        cuda = Cuda()
    except OSError as error:
        sys.stderr.write(f"nsyswrap: without CUDA calls: {error}\n")
    else:
        kinds += [(name, call, nothing, cuda.settle) for name, call in cuda.kinds()]
        kinds += [(name, call, cuda.settle, cuda.settle) for name, call in cuda.graphs()]
        of_device = {name: {DEVICE: partial(_on_device, queue)} for name, queue in cuda.queues()}
    found = {
        name: {
            setting: partial(block, call, _both_of(first, before), settle, work.python, CALLS)
            for setting, before in settings.items()
        }
        for name, call, first, settle in kinds
    }
    return {**found, **of_device}


def _on_device(queue: Callable[[], float]) -> Block:
    """Return the time of a kernel; the pace of the CPU does not apply."""
    return queue(), 0.0


def _both_of(first: Call, second: Call) -> Call:
    def both() -> None:
        first()
        second()

    return both


def blocks_of_steps(work: Work, steps: TrainingSteps) -> Blocks:
    """Return what times a block of each training step."""
    return {
        name: {TIGHT: partial(block, step, work.tight, work.tight, work.python, STEPS)} for name, step in steps.kinds()
    }


def serve(requests: TextIO, answers: TextIO, blocks: Blocks, steps: TrainingSteps | None) -> None:
    """Answer requests, one JSON object in a line, until there are no more.

    The first answer has the settings of each call. Then ``{"core": N}`` moves this thread to a core; ``{"call": NAME,
    "setting": NAME}`` times a block, and the answer is a list of two numbers; ``{"count": true}`` is answered by the
    number of launches of each training step by kind, and by the longest work before one as a multiple of the mean.
    """
    _answer(answers, {name: list(settings) for name, settings in blocks.items()})
    for line in requests:
        request = json.loads(line)
        if "core" in request:
            os.sched_setaffinity(0, {request["core"]})
            continue
        if "count" in request:
            _answer(answers, {} if steps is None else launches_of(steps))
            continue
        _answer(answers, blocks[request["call"]][request["setting"]]())


def launches_of(steps: TrainingSteps) -> dict[str, tuple[dict[str, int], float]]:
    """Return the launches of each training step; nothing where PyTorch cannot count them."""
    try:
        by_step = {name: steps.launches(step) for name, step in steps.kinds()}
    except RuntimeError as error:
        sys.stderr.write(f"nsyswrap: launches of training steps are not counted: {error}\n")
        return {}
    return {name: (each.counts, each.longest) for name, each in by_step.items()}


def _answer(answers: TextIO, found: object) -> None:
    answers.write(json.dumps(found) + "\n")
    answers.flush()


def find_steps() -> TrainingSteps | None:
    """Return the training steps; None without torch, a GPU that it can use, or memory there."""
    try:
        return TrainingSteps()
    except (ImportError, OSError, AssertionError, RuntimeError) as error:
        sys.stderr.write(f"nsyswrap: without training steps: {error}\n")
        return None


def main() -> int:
    """Serve the socket that the command line names; the first line that it sends is the number there."""
    work = Work()
    blocks = blocks_of_calls(work)
    steps = find_steps() if DEVICE in {setting for each in blocks.values() for setting in each} else None
    if steps is not None:
        blocks = {**blocks, **blocks_of_steps(work, steps)}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(sys.argv[1])
        with connection.makefile("r") as requests, connection.makefile("w") as answers:
            _answer(answers, int(sys.argv[2]))
            serve(requests, answers, blocks, steps)
    return 0


if __name__ == "__main__":
    sys.exit(main())
