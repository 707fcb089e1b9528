"""Training steps of PyTorch for the program that measures what nsys adds to a call.

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

import statistics
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from nsyswrap.hardware.kernel_names.classify import classify
from nsyswrap.hardware.profiler_cost import launch_kind

Call = Callable[[], object]

# As many linear layers as twelve layers of a transformer have outside of attention, and a few more convolutions than
# ResNet-18.
LAYERS, WIDTH, ROWS = 24, 64, 32
CHANNELS, SIDE, PICTURES = 16, 16, 4
WARM_UP = 5
LAUNCH_CALLS = ("cudaLaunchKernel", "cuLaunchKernel")


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
        self.plain, self.convolutions = self._plain(), self._convolutions()
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

    def _convolutions(self) -> Call:
        nn = self._torch.nn
        parts = [
            part
            for _ in range(LAYERS)
            for part in (nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False), nn.BatchNorm2d(CHANNELS), nn.ReLU())
        ]
        return self._step(nn.Sequential(*parts), self._torch.randn(PICTURES, CHANNELS, SIDE, SIDE, device=self._device))

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

    Args:
        ends: When the calls ended, ascending, in any unit.
    """
    pieces = [end - begin for begin, end in pairwise(ends)]
    if len(pieces) < 2 or ends[-1] <= ends[0]:  # noqa: PLR2004 - quantiles need two
        return 1.0
    return max(statistics.quantiles(pieces, n=20)[-1] / statistics.mean(pieces), 1.0)


def _is_copy(name: str) -> bool:
    return name.startswith(("Memcpy", "Memset"))
