# ruff: noqa: INP001 - a program to profile, not a package
"""A GPU-bound training loop: steps with NVTX ranges whose kernels take longer than their launches.

    python bench/gate_gpu_loop.py [PER_CENT] [LOCK NOTE]    105 does 5 % more work in each step than 100

With LOCK, a file, one process at a time uses the GPU: it waits for the file before its first call to CUDA, and lets it
go after its last step. NOTE gets the time when it had the file. Without a GPU it runs on the CPU, to be tried.
`bench/gate_gpu_runs.py` profiles it many times.
"""

import fcntl
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nvtx
import torch

STEPS = 100
# One unit of work is one product of two matrices in float32. On the GPU it takes some 40 µs, many times its launch.
SIZES = {"cuda": 1024, "cpu": 64}
# Clocks and caches settle before the first step. Ours: many times what a GPU takes to raise its clock.
WARM_UP_S = {"cuda": 0.4, "cpu": 0.02}
LONGEST_WAIT_S = 120.0


def train(units: int, device: str) -> float:
    """Return the last loss; each step multiplies ``units`` times and ends like a loop that prints its loss."""
    size = SIZES[device]
    weight = torch.rand(size, size, device=device) / size
    batch = torch.rand(size, size, device=device)
    result = torch.empty_like(batch)
    end, loss = time.monotonic() + WARM_UP_S[device], 0.0
    while time.monotonic() < end:
        loss = step(weight, batch, result, units)
    for number in range(STEPS):
        with nvtx.annotate(f"step {number}"), nvtx.annotate("forward"):
            loss = step(weight, batch, result, units)
    return loss


def step(weight: torch.Tensor, batch: torch.Tensor, result: torch.Tensor, units: int) -> float:
    """Do the work of one step and wait for its result."""
    for _ in range(units):
        torch.mm(batch, weight, out=result)
    loss: float = result[0, 0].item()
    return loss


@contextmanager
def alone(lock: Path, note: Path) -> Iterator[None]:
    """Hold a file, and write down since when.

    Raises:
        TimeoutError: Another process holds it for too long.
    """
    end = time.monotonic() + LONGEST_WAIT_S
    with lock.open("a", encoding="utf-8") as held:
        while True:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise TimeoutError(f"another process holds {lock}") from None
                time.sleep(0.005)
        note.write_text(json.dumps({"began": time.time()}), encoding="utf-8")
        yield


def main(units: int, places: list[str]) -> None:
    """Train, alone on the GPU where a lock is given."""
    if places:
        with alone(*map(Path, places)):
            train(units, "cuda" if torch.cuda.is_available() else "cpu")
    else:
        train(units, "cuda" if torch.cuda.is_available() else "cpu")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100, sys.argv[2:4])
