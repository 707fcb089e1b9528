# ruff: noqa: INP001, T201 - a program for the terminal
"""Time a training loop with its phases marked by nsyswrap and without, under the real nsys, in pairs.

    python bench/bench_annotate.py [--device cuda] [--step-ms 5] [--pairs 40] [--nsys PATH]

One process trains all the time; every 20 steps its calls are marked or put back, in random order within a pair, so that
both meet the same machine. The model has 66 modules, and its step is as long as --step-ms says. Time is that of the
clock on a GPU, and that of the training thread on a CPU, which other programs disturb less. Printed are the median
step, and the mean difference within a pair with its 95 % confidence interval; of the pairs, the tenth at either end is
left out.
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
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nsyswrap.capture.annotate.marker import Marker
from nsyswrap.capture.annotate.nvtx_calls import connected
from nsyswrap.capture.annotate.torch_calls import Patches, patch
from nsyswrap.capture.locate import find_nsys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

STEPS = 20
BLOCKS = 16
WIDEST = 4096
BOUND = 0.02


class Training:
    """A loop with everything that is marked: loader, copy, modules, backward and optimizer."""

    def __init__(self, device: torch.device, step_ms: float) -> None:
        """Take where to compute, and how long a step is to be."""
        self.device = device
        self.clock = time.perf_counter if device.type == "cuda" else time.thread_time
        self.batch = 16
        width = 32
        self.build(width)
        while width < WIDEST and self.median_ms() < step_ms:
            width = int(width * 1.25)
            self.build(width)

    def build(self, width: int) -> None:
        """Make the network anew."""
        blocks = (nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.GELU()) for _ in range(BLOCKS))
        self.model = nn.Sequential(*blocks, nn.Linear(width, 10)).to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        samples = TensorDataset(torch.randn(64 * self.batch, width), torch.randint(0, 10, (64 * self.batch,)))
        self.loader: DataLoader[tuple[Tensor, ...]] = DataLoader(samples, batch_size=self.batch)
        self.batches = self.endless()

    def endless(self) -> "Iterator[tuple[Tensor, ...]]":
        """Yield batches, epoch after epoch."""
        while True:
            yield from self.loader

    def step(self) -> None:
        """Train for one step."""
        inputs, labels = next(self.batches)
        inputs, labels = inputs.to(self.device), labels.to(self.device)
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(inputs), labels)
        loss.backward()
        self.optimizer.step()

    def steps_ms(self) -> list[float]:
        """Return how long each of some steps takes."""
        found = []
        for _ in range(STEPS):
            began = self.clock()
            self.step()
            if self.device.type == "cuda":
                torch.cuda.synchronize()
            found.append((self.clock() - began) * 1e3)
        return found

    def median_ms(self) -> float:
        """Return the median step, after warming up."""
        self.steps_ms()
        return statistics.median(self.steps_ms())


def inside(options: argparse.Namespace) -> None:
    """Measure, in a process that nsys profiles."""
    torch.manual_seed(0)
    if options.device == "cpu":
        torch.set_num_threads(1)
    training = Training(torch.device(options.device), options.step_ms)
    calls = connected(os.environ)
    order = random.Random(0)  # noqa: S311 - an order, not a secret
    plain: list[float] = []
    differences: list[float] = []
    for _ in range(options.pairs):
        found = {}
        for marked in order.sample([False, True], 2):
            marker = Marker(calls)
            patches: Patches | None = patch(torch, marker) if marked else None
            training.step()
            found[marked] = statistics.median(training.steps_ms())
            if patches:
                marker.finish()
                patches.undo()
        plain.append(found[False])
        differences.append(found[True] - found[False])
    step = statistics.median(plain)
    differences = sorted(differences)[len(differences) // 10 : -(len(differences) // 10)]
    mean = statistics.mean(differences)
    margin = 1.96 * statistics.stdev(differences) / len(differences) ** 0.5
    modules = sum(1 for _ in training.model.modules())
    print(f"{options.device}: {modules} modules, median step {step:.3f} ms, {options.pairs} pairs of {STEPS} steps")
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
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        inside(options)
        return
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--trace=cuda,nvtx,osrt", "--sample=none", "--cpuctxsw=none", f"--output={Path(folder) / 'capture'}"]
        program = [sys.executable, __file__, "--inside", *sys.argv[1:]]
        subprocess.run([find_nsys().path, "profile", *flags, *program], check=True)  # noqa: S603 - ourselves


if __name__ == "__main__":
    main()
