# ruff: noqa: INP001, T201 - a program for the terminal
"""Time a training loop with its phases marked by nsyswrap and without, under the real nsys, in pairs.

    python bench/bench_annotate.py [--device cuda] [--step-ms 5] [--pairs 2000] [--nsys PATH]

One process trains all the time, and each pair of its steps has one that is marked and one that is not, in random order.
So both meet the same machine, and the same objects: torch is marked once, as in a program, and what is not to be marked
is given, between two steps, a class that still has torch's own calls. (To mark torch and to put it back is no way to
compare: Python forgets each time what it had learned of torch's classes.)

The model has 66 modules, or fewer where the host cannot launch as many within --step-ms, and its step is that long.
Time is that of the clock on a GPU, and that of the training thread on a CPU, which other programs disturb less. Printed
are the median step, and the mean difference within a pair with its 95 % confidence interval; of the pairs, the tenth at
either end is left out.
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nsyswrap.capture.annotate.marker import Marker
from nsyswrap.capture.annotate.nvtx_calls import connected
from nsyswrap.capture.annotate.torch_calls import patch
from nsyswrap.capture.locate import find_nsys

if TYPE_CHECKING:
    from torch import Tensor

STEPS = 20
BATCHES = 64
BLOCKS = 16
NARROWEST, WIDEST = 32, 4096
BOUND = 0.02

# The C library gives memory back to the system and asks for it again at its own times, which disturbs steps by more
# than is measured here. So it keeps what it has, in marked steps and in others.
KEPT_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": "1000000000",
    "MALLOC_TRIM_THRESHOLD_": "4000000000",
    "MALLOC_TOP_PAD_": "100000000",
}


class Kinds:
    """For each class two that can take its place: one with torch's own calls for ever, one with those of the class."""

    def __init__(self) -> None:
        """Know none."""
        self.pairs: dict[type, tuple[type, type]] = {}

    def add(self, kind: type, *names: str) -> None:
        """Take a class, and the names of its calls, before they are marked."""
        unmarked = type(kind.__name__, (kind,), {name: getattr(kind, name) for name in names})
        marked = type(kind.__name__, (kind,), {})
        self.pairs |= dict.fromkeys((kind, unmarked, marked), (unmarked, marked))

    def choose(self, thing: Any, *, marked: bool) -> None:  # noqa: ANN401 - any object of these classes
        """Have an object's calls marked, or not."""
        thing.__class__ = self.pairs[type(thing)][marked]


class Training:
    """A loop with everything that is marked: loader, copy, modules, backward and optimizer."""

    def __init__(self, device: torch.device, step_ms: float) -> None:
        """Take where to compute, and how long a step is to be."""
        self.device = device
        self.clock = time.perf_counter if device.type == "cuda" else time.thread_time
        self.batch = 16
        self.kinds = Kinds()
        for kind in (nn.Sequential, nn.Linear, nn.LayerNorm, nn.GELU):
            self.kinds.add(kind, "__call__")
        width, self.blocks = NARROWEST, BLOCKS
        while (took_ms := self.built_ms(width)) > step_ms and self.blocks > 1:
            self.blocks -= 1
        while took_ms < step_ms and width < WIDEST:
            width = int(width * 1.1)
            took_ms = self.built_ms(width)
        self.kinds.add(torch.optim.SGD, "step", "zero_grad")
        self.kinds.add(type(self.iterator), "__next__")
        self.own = torch.Tensor.to, torch.autograd.backward

    def built_ms(self, width: int) -> float:
        """Make the network anew; return its median step, after warming up."""
        blocks = (nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.GELU()) for _ in range(self.blocks))
        self.model = nn.Sequential(*blocks, nn.Linear(width, 10)).to(self.device)
        samples = BATCHES * self.batch
        data = TensorDataset(torch.randn(samples, width), torch.randint(0, 10, (samples,)))
        self.loader: DataLoader[tuple[Tensor, ...]] = DataLoader(data, batch_size=self.batch)
        self.begin()
        found = [self.step_ms() for _ in range(2 * STEPS)]
        return statistics.median(found[STEPS:])

    def begin(self) -> None:
        """Make the optimizer, whose class is marked when one is made, and begin an epoch."""
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.iterator = iter(self.loader)
        self.left = BATCHES
        self.move = torch.Tensor.to

    def mark(self) -> None:
        """Mark torch, as in a program."""
        patch(torch, Marker(connected(os.environ)))
        self.begin()
        self.marked = torch.Tensor.to, torch.autograd.backward

    def choose(self, *, marked: bool) -> None:
        """Have the calls of the next step marked, or not."""
        if not self.left:
            self.iterator, self.left = iter(self.loader), BATCHES
        for thing in (*self.model.modules(), self.optimizer, self.iterator):
            self.kinds.choose(thing, marked=marked)
        self.move, torch.autograd.backward = self.marked if marked else self.own

    def step(self) -> None:
        """Train for one step."""
        inputs, labels = next(self.iterator)
        inputs, labels = self.move(inputs, self.device), self.move(labels, self.device)
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(inputs), labels)
        loss.backward()
        self.optimizer.step()
        self.left -= 1

    def step_ms(self) -> float:
        """Return how long a step takes."""
        began = self.clock()
        self.step()
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return (self.clock() - began) * 1e3


def inside(options: argparse.Namespace) -> None:
    """Measure, in a process that nsys profiles."""
    torch.manual_seed(0)
    if options.device == "cpu":
        torch.set_num_threads(1)
    training = Training(torch.device(options.device), options.step_ms)
    training.mark()
    order = random.Random(0)  # noqa: S311 - an order, not a secret
    found: dict[bool, list[float]] = {False: [], True: []}
    for number in range(STEPS + options.pairs):
        for marked in order.sample([False, True], 2):
            training.choose(marked=marked)
            took = training.step_ms()
            if number >= STEPS:
                found[marked].append(took)
    step = statistics.median(found[False])
    differences = sorted(one - other for one, other in zip(found[True], found[False], strict=True))
    differences = differences[len(differences) // 10 : -(len(differences) // 10)]
    mean = statistics.mean(differences)
    margin = 1.96 * statistics.stdev(differences) / len(differences) ** 0.5
    modules = sum(1 for _ in training.model.modules())
    print(f"{options.device}: {modules} modules, median step {step:.3f} ms, {options.pairs} pairs")
    print(f"marked steps take {mean * 1e3:.1f} us more (+- {margin * 1e3:.1f}), median {median_us(differences):.1f} us")
    print(f"{mean / step:.2%} of the step (+- {margin / step:.2%}), bound {BOUND:.0%}")


def median_us(differences_ms: list[float]) -> float:
    """Return the median of some differences, in microseconds."""
    return statistics.median(differences_ms) * 1e3


def main() -> None:
    """Start the measurement under nsys."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--step-ms", type=float, default=5.0, help="length of a step")
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        inside(options)
        return
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--trace=cuda,nvtx,osrt", "--sample=none", "--cpuctxsw=none", f"--output={Path(folder) / 'capture'}"]
        program = [sys.executable, __file__, "--inside", *sys.argv[1:]]
        subprocess.run([find_nsys().path, "profile", *flags, *program], check=True, env=os.environ | KEPT_MEMORY)  # noqa: S603 - ourselves


if __name__ == "__main__":
    main()
