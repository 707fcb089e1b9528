"""Join the ranks that torchrun started: one GPU each, or the CPU and gloo where there are not enough GPUs."""

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import distributed

# Seconds of host work that make a rank late.
LATE_S = 0.025


class Place(NamedTuple):
    """The place of a process in its job.

    Attributes:
        device: Its GPU, or the CPU.
    """

    rank: int
    ranks: int
    device: torch.device

    @property
    def on_gpu(self) -> bool:
        return bool(self.device.type == "cuda")

    @property
    def is_last(self) -> bool:
        return self.rank == self.ranks - 1


@contextmanager
def joined() -> Iterator[Place]:
    """Yield the place of this process; no rank leaves while another still communicates with it."""
    rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    on_gpu = torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", count))
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    torch.manual_seed(0)
    distributed.init_process_group("nccl" if on_gpu else "gloo")
    try:
        yield Place(rank, count, device)
        distributed.barrier()
    finally:
        distributed.destroy_process_group()


def timed_steps(place: Place, count: int, what: str = "") -> Iterator[int]:
    """Yield the numbers of the steps; then print how long a step of what took, the first third left out."""
    began = time.perf_counter()
    for step in range(count):
        if step == count // 3:
            began = time.perf_counter()
        yield step
    if place.on_gpu:
        torch.cuda.synchronize()
    seconds = (time.perf_counter() - began) / (count - count // 3)
    # One write, so that the lines of ranks do not mix.
    print(f"rank {place.rank}{what}: {1e3 * seconds:.2f} ms a step\n", end="", flush=True)


def work(seconds: float) -> None:
    """Keep one core busy."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def train_as_rank(
    train: Callable[[Place, str, int], None],
    description: str | None,
    faults: Sequence[str],
    steps: int,
    arguments: list[str] | None,
) -> None:
    """Train as the rank that torchrun gave this process, as the command line says.

    Args:
        train: Trains with a fault for some steps.
        description: What the program does.
        faults: Names of its faults, with ``none``.
        steps: Usual number of steps.
        arguments: The command line; None for that of the process.
    """
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--fault", choices=faults, default="none", help="what is planted (%(default)s)")
    options.add_argument("--steps", type=int, default=steps, help="steps to do (%(default)s)")
    chosen = options.parse_args(arguments)
    with joined() as place:
        train(place, chosen.fault, chosen.steps)
