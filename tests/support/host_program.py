"""A training loop with one problem of its host, named on the command line; tests run it under the real nsys."""

import gc
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import nvtx
import torch
from torch import nn

STEPS = 14
# Batches of a step. With many, the loop lasts long enough for some samples.
MANY, FEW = 10, 2
OBJECTS = 200_000
BYTES = 24 << 20
LONGEST_S = 60


def collects() -> Callable[[], object]:
    """Return a function that collects garbage among many objects."""
    table = [{"row": [number]} for number in range(OBJECTS)]
    return lambda: (len(table), gc.collect())


def saves(folder: Path, model: nn.Module) -> Callable[[], object]:
    """Return a function that saves a checkpoint of a large state."""
    state = {"model": model.state_dict(), "moments": torch.zeros(BYTES // 4)}
    return lambda: torch.save(state, folder / "model.pt")


def writes(folder: Path) -> Callable[[], object]:
    """Return a function that writes a file and waits until it is on the disk."""
    content = bytes(BYTES)

    def write() -> None:
        with (folder / "features").open("wb") as file:
            file.write(content)
            os.fsync(file.fileno())

    return write


def reads(folder: Path) -> Callable[[], object]:
    """Return a function that reads a file from the disk, in the data phase."""
    path = folder / "samples"
    path.write_bytes(bytes(3 * BYTES))
    os.sync()

    def read() -> None:
        with nvtx.annotate("data"), path.open("rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            file.readall()

    return read


def shares(wanted: Path, busy: Path) -> Callable[[], object]:
    """Bind this process to its first core, where the test's other program is busy; return a function that does nothing.

    Args:
        wanted: A file; the other program is busy while it exists.
        busy: A file that the other program makes when it is busy.
    """
    core = {min(os.sched_getaffinity(0))}
    for task in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(task.name), core)
    busy.unlink(missing_ok=True)
    wanted.touch()
    end = time.monotonic() + LONGEST_S
    while not busy.exists() and time.monotonic() < end:
        time.sleep(0.01)
    return lambda: None


def joins(tasks: Path) -> Callable[[], object]:
    """Join a control group with a quota; return a function that does nothing."""
    tasks.write_text(str(os.getpid()))
    return lambda: None


def descend(model: nn.Module) -> None:
    """Change the weights by their gradients; an optimizer of PyTorch would import its compiler, which takes seconds."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.sub_(weight.grad, alpha=0.01)
            weight.grad = None


def main() -> None:
    """Train with one problem: collects, saves, writes, reads, shares, quota or none."""
    trouble = sys.argv[1]
    torch.set_num_threads(1)
    model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(4)))
    inputs = torch.rand(256, 256)
    # Autograd's threads start here.
    model(inputs).sum().backward()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        does: dict[str, Callable[[], Callable[[], object]]] = {
            "collects": collects,
            "saves": lambda: saves(folder, model),
            "writes": lambda: writes(folder),
            "reads": lambda: reads(folder),
            "shares": lambda: shares(*map(Path, sys.argv[2:])),
            "quota": lambda: joins(Path(sys.argv[2])),
            "none": lambda: lambda: None,
        }
        act = does[trouble]()
        for number in range(STEPS):
            with nvtx.annotate(f"batch {number}"):
                act()
                for _ in range(MANY if trouble in {"shares", "quota"} else FEW):
                    with nvtx.annotate("forward"):
                        loss = model(inputs).square().mean()
                    with nvtx.annotate("backward"):
                        loss.backward()
                    with nvtx.annotate("optimizer"):
                        descend(model)
    if trouble == "shares":
        Path(sys.argv[2]).unlink()


if __name__ == "__main__":
    main()
