"""One training loop for two profilers: under nsys as it is, or with --trace FILE under PyTorch's own profiler.

Both runs take the same steps and mark the same phases, as NVTX ranges for one and as annotations for the other.
"""

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule
from torch.utils.data import DataLoader, TensorDataset

STEPS = 24
WARM_UP = 3


@contextlib.contextmanager
def phase(name: str) -> Iterator[None]:
    """Mark a phase for both profilers; the wait for data is PyTorch's own annotation."""
    torch.cuda.nvtx.range_push(name)
    with record_function(name) if name != "data" else contextlib.nullcontext():
        yield
    torch.cuda.nvtx.range_pop()


def network() -> nn.Module:
    """Return a convolution net with kernels of many sizes, from one block to full waves."""
    layers: list[nn.Module] = []
    for wide, deep in ((3, 64), (64, 128), (128, 256)):
        layers += [nn.Conv2d(wide, deep, 3, padding=1), nn.BatchNorm2d(deep), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(256 * 8 * 8, 512), nn.ReLU(), nn.Linear(512, 10))


def loop(steps: int) -> Iterator[None]:
    """Train, and yield after each step."""
    torch.manual_seed(0)
    model = network().cuda()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    pictures = TensorDataset(torch.randn(64 * steps, 3, 64, 64), torch.randint(0, 10, (64 * steps,)))
    batches = iter(DataLoader(pictures, 64, num_workers=2, pin_memory=True))
    for number in range(steps):
        torch.cuda.nvtx.range_push(f"batch {number}")
        with phase("data"):
            values, labels = next(batches)
        with phase("copy"):
            values, labels = values.cuda(non_blocking=True), labels.cuda(non_blocking=True)
        with phase("forward"):
            loss = nn.functional.cross_entropy(model(values), labels)
        with phase("backward"):
            loss.backward()
        with phase("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
            loss.item()
        torch.cuda.nvtx.range_pop()
        yield


def main() -> None:
    """Run the loop, under PyTorch's profiler if a trace is wanted."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trace", type=Path, help="write a trace of PyTorch's profiler to this file")
    parser.add_argument("--steps", type=int, default=STEPS)
    given = parser.parse_args()
    if given.trace is None:
        for _ in loop(given.steps):
            pass
        return
    plan = schedule(wait=0, warmup=WARM_UP, active=given.steps - WARM_UP, repeat=1)
    both = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=both, schedule=plan) as profiler:
        for _ in loop(given.steps):
            profiler.step()
    profiler.export_chrome_trace(str(given.trace))
    print(f"wrote {given.trace}")


if __name__ == "__main__":
    main()
