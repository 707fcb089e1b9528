"""Measure what marks cost: time steps of a training loop with and without them, under the real nsys.

    python bench/bench_annotate.py [--device cuda] [--step-ms 5] [--pairs 600] [--processes 8]

Each process trains all the time. Each pair of steps has one marked and one unmarked step, in random order, so both run
on the same machine with the same objects. Which calls are marked depends on the Python that runs this program.

The model has 66 modules, or fewer if the CPU cannot launch as many within --step-ms, and its step takes that long. On a
GPU the benchmark measures wall time; on a CPU it measures the CPU time of the training thread, which other programs
disturb less. Each process prints the median step, and the mean difference within a pair with its 95 % confidence
interval; the lowest and the highest tenth of the differences are left out. Where the memory of a process lies changes
the difference for all of its pairs, so the last line has the mean of the processes, with the 95 % confidence interval
of that.
"""

import argparse
import gc
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nsyswrap.capture.annotate.marks import Marks
from nsyswrap.capture.annotate.monitoring import Monitor
from nsyswrap.capture.annotate.nvtx_calls import connected
from nsyswrap.capture.annotate.torch_marks import mark_collections, mark_optimizers, watch_calls, watch_optimizers
from nsyswrap.capture.locate import find_nsys

if TYPE_CHECKING:
    from torch import Tensor

STEPS = 20
BATCHES = 64
BLOCKS = 16
NARROWEST, WIDEST = 32, 4096
BOUND = 0.015
# Student's t for a two-sided interval of 95 %, by the number of values.
STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26, 12: 2.20, 16: 2.13}

# The C library returns memory to the system and requests it again at any time, which disturbs steps by more than the
# difference to measure. So it keeps its memory, in marked and in unmarked steps.
KEPT_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": "1000000000",
    "MALLOC_TRIM_THRESHOLD_": "4000000000",
    "MALLOC_TOP_PAD_": "100000000",
}


class Switch:
    """Marks calls as in a program, and takes the marks away and puts them back between steps."""

    def __init__(self) -> None:
        marks = Marks(connected(os.environ), torch.is_grad_enabled)
        mark_collections(marks)
        if sys.version_info < (3, 12):
            mark_optimizers(torch, marks)
        module = sys.modules["torch.optim.optimizer"]
        hooks = (getattr(module, f"_global_optimizer_{each}_hooks") for each in ("pre", "post"))
        self._hooks = [(each, dict(each)) for each in hooks]
        self._events: list[tuple[partial[None], int]] = []
        if sys.version_info >= (3, 12):
            monitor = Monitor()
            monitor.on_calls(marks.started, marks.returned)
            watch_optimizers(monitor, marks)
            watch_calls(monitor, marks, torch)
            self._events = [self._local_events(code) for code in marks.codes]

    @staticmethod
    def _local_events(code: CodeType) -> "tuple[partial[None], int]":
        found: Any = getattr(sys, "monitoring", None)
        tool = next(each for each in range(6) if found.get_tool(each) == "nsyswrap")
        return partial(found.set_local_events, tool, code), found.get_local_events(tool, code)

    def set(self, *, marked: bool) -> None:
        for hooks, all_of_them in self._hooks:
            hooks.clear()
            hooks.update(all_of_them if marked else {})
        for set_events, events in self._events:
            set_events(events if marked else 0)


class Training:
    """A training loop with a loader, modules, a backward pass and an optimizer."""

    def __init__(self, device: torch.device, step_ms: float) -> None:
        """Build a model for a device, with steps of a given length."""
        self.device = device
        self.clock = time.perf_counter if device.type == "cuda" else time.thread_time
        self.batch = 16
        width, self.blocks = NARROWEST, BLOCKS
        while (took_ms := self.built_ms(width)) > step_ms and self.blocks > 1:
            self.blocks -= 1
        while took_ms < step_ms and width < WIDEST:
            width = int(width * 1.1)
            took_ms = self.built_ms(width)
        self.begin()

    def built_ms(self, width: int) -> float:
        """Build a new network, and return its median step time after warm-up."""
        blocks = (nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.GELU()) for _ in range(self.blocks))
        self.model = nn.Sequential(*blocks, nn.Linear(width, 10)).to(self.device)
        samples = BATCHES * self.batch
        data = TensorDataset(torch.randn(samples, width), torch.randint(0, 10, (samples,)))
        self.loader: DataLoader[tuple[Tensor, ...]] = DataLoader(data, batch_size=self.batch)
        self.begin()
        found = [self.step_ms() for _ in range(2 * STEPS)]
        return statistics.median(found[STEPS:])

    def begin(self) -> None:
        """Create the optimizer, and begin an epoch."""
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.iterator = iter(self.loader)
        self.left = BATCHES

    def continue_epoch(self) -> None:
        """Begin another epoch where this one is over."""
        if not self.left:
            self.iterator, self.left = iter(self.loader), BATCHES

    def step(self) -> None:
        inputs, labels = next(self.iterator)
        inputs, labels = inputs.to(self.device), labels.to(self.device)
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(inputs), labels)
        loss.backward()
        self.optimizer.step()
        self.left -= 1

    def step_ms(self) -> float:
        """Run one training step, and return its time."""
        start = self.clock()
        self.step()
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return (self.clock() - start) * 1e3


def inside(options: argparse.Namespace) -> None:
    """Measure and print the result, in a process under nsys."""
    torch.manual_seed(0)
    if options.device == "cpu":
        torch.set_num_threads(1)
    switch = Switch()
    training = Training(torch.device(options.device), options.step_ms)
    gc.freeze()
    order = random.Random(0)  # noqa: S311 - an order, not a secret
    found: dict[bool, list[float]] = {False: [], True: []}
    for number in range(STEPS + options.pairs):
        for marked in order.sample([False, True], 2):
            training.continue_epoch()
            switch.set(marked=marked)
            took = training.step_ms()
            if number >= STEPS:
                found[marked].append(took)
    step = statistics.median(found[False])
    differences = sorted(one - other for one, other in zip(found[True], found[False], strict=True))
    differences = differences[len(differences) // 10 : -(len(differences) // 10)]
    mean = statistics.mean(differences)
    margin = 1.96 * statistics.stdev(differences) / len(differences) ** 0.5
    modules = sum(1 for _ in training.model.modules())
    python = ".".join(map(str, sys.version_info[:2]))
    print(f"{options.device}: Python {python}, {modules} modules, median step {step:.3f} ms, {options.pairs} pairs")
    print(f"marked steps take {mean * 1e3:.1f} us more (+- {margin * 1e3:.1f}), median {median_us(differences):.1f} us")
    print(f"{mean / step:.2%} of the step (+- {margin / step:.2%})")
    options.inside.write_text(json.dumps({"mean_ms": mean, "step_ms": step}), encoding="utf-8")


def median_us(differences_ms: list[float]) -> float:
    return statistics.median(differences_ms) * 1e3


def of_all(found: list[dict[str, float]]) -> str:
    """Return the mean of all processes, with its confidence interval."""
    shares, us = [each["mean_ms"] / each["step_ms"] for each in found], [1e3 * each["mean_ms"] for each in found]
    student = next(value for count, value in STUDENT.items() if count >= min(len(found), max(STUDENT)))
    share_margin, margin = (student * statistics.stdev(each) / len(found) ** 0.5 for each in (shares, us))
    return (
        f"all {len(found)} processes: {statistics.mean(us):.1f} us more (+- {margin:.1f}), "
        f"{statistics.mean(shares):.2%} of the step (+- {share_margin:.2%}), bound {BOUND:.1%}"
    )


def main() -> None:
    """Start this program under nsys, some times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--step-ms", type=float, default=5.0, help="length of a step")
    parser.add_argument("--pairs", type=int, default=600)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        inside(options)
        return
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--trace=cuda,nvtx,osrt", "--sample=none", "--cpuctxsw=none", f"--output={Path(folder) / 'capture'}"]
        result = Path(folder) / "result.json"
        program = [sys.executable, __file__, "--inside", str(result), *sys.argv[1:]]
        environ = os.environ | KEPT_MEMORY
        command = [str(find_nsys().path), "profile", "--force-overwrite=true", *flags, *program]
        found: list[dict[str, float]] = []
        for _ in range(options.processes):
            subprocess.run(command, check=True, env=environ)  # noqa: S603 - ourselves
            found.append(json.loads(result.read_text("utf-8")))
        if len(found) > 1:
            print(of_all(found))


if __name__ == "__main__":
    main()
