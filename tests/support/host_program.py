"""Training loops one after another, each with one problem of its host; tests run them under the real nsys.

An argument is the problem of one loop: collects, saves, writes, reads, maps, asks, plays, shares:WANTED:BUSY or none.
"""

import gc
import mmap
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import nvtx
import torch
from torch import nn

STEPS = 10
# Batches of a step. With many, the loop lasts long enough for some samples.
MANY, FEW = 10, 2
OBJECTS = 200_000
BYTES = 24 << 20
THINKS_S = 0.1
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


def maps(folder: Path) -> Callable[[], object]:
    """Return a function that reads a memory-mapped file in the data phase; no page of it is in memory."""
    path = folder / "mapped"
    path.write_bytes(bytes(3 * BYTES))
    os.sync()

    def read() -> None:
        with nvtx.annotate("data"), path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
                sum(mapped[:: mmap.PAGESIZE])

    return read


def asks() -> Callable[[], object]:
    """Return a function that asks a server and waits for its answer; the server ends with the last reference to it."""
    ours, theirs = socket.socketpair()

    def serve() -> None:
        while theirs.recv(1):
            time.sleep(THINKS_S)
            theirs.send(b"1")

    threading.Thread(target=serve, daemon=True).start()
    return lambda: (ours.send(b"?"), ours.recv(1))


def plays() -> Callable[[], object]:
    """Return a function that lets an environment move and reads its position from a pipe, as it would read a file.

    The environment is a process of its own; it ends with the pipe.
    """
    ours, theirs = multiprocessing.Pipe()
    code = "import sys,time; from multiprocessing.connection import Connection as C; c = C(int(sys.argv[1]))\n"
    code += f"while c.recv_bytes(): time.sleep({THINKS_S}); c.send_bytes(b'1')"
    subprocess.Popen([sys.executable, "-c", code, str(theirs.fileno())], pass_fds=[theirs.fileno()])
    theirs.close()

    def play() -> bytes:
        ours.send_bytes(b"move")
        return ours.recv_bytes()

    return play


def shares(wanted: Path, busy: Path) -> Callable[[], object]:
    """Bind this process to its first core, where the test's other program is busy; return a function that does nothing.

    Args:
        wanted: A file; the other program is busy while it exists.
        busy: A file that the other program makes when it is busy.
    """
    bind({min(os.sched_getaffinity(0))})
    busy.unlink(missing_ok=True)
    wanted.touch()
    end = time.monotonic() + LONGEST_S
    while not busy.exists() and time.monotonic() < end:
        time.sleep(0.01)
    return lambda: None


def bind(cores: set[int]) -> None:
    """Let all threads of this process use some cores only. Threads of nsys are among them, and may end meanwhile."""
    for task in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(task.name), cores)


def descend(model: nn.Module) -> None:
    """Change the weights by their gradients; an optimizer of PyTorch would import its compiler, which takes seconds."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.sub_(weight.grad, alpha=0.01)
            weight.grad = None


def train(trouble: str, places: list[Path], model: nn.Module, first: int) -> None:
    """Train with one problem; the steps are numbered from a first one."""
    inputs, cores = torch.rand(256, 256), os.sched_getaffinity(0)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        does: dict[str, Callable[[], Callable[[], object]]] = {
            "collects": collects,
            "saves": lambda: saves(folder, model),
            "writes": lambda: writes(folder),
            "reads": lambda: reads(folder),
            "maps": lambda: maps(folder),
            "asks": asks,
            "plays": plays,
            "shares": lambda: shares(*places),
            "none": lambda: lambda: None,
        }
        act = does[trouble]()
        for number in range(first, first + STEPS):
            with nvtx.annotate(f"batch {number}"):
                act()
                for _ in range(MANY if trouble == "shares" else FEW):
                    with nvtx.annotate("forward"):
                        loss = model(inputs).square().mean()
                    with nvtx.annotate("backward"):
                        loss.backward()
                    with nvtx.annotate("optimizer"):
                        descend(model)
    if trouble == "shares":
        places[0].unlink()
        bind(cores)


def main() -> None:
    """Train with the problem of each argument."""
    torch.set_num_threads(1)
    model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(4)))
    # Autograd's threads start here.
    model(torch.rand(256, 256)).sum().backward()
    for count, argument in enumerate(sys.argv[1:]):
        trouble, *places = argument.split(":")
        train(trouble, [Path(each) for each in places], model, count * STEPS)


if __name__ == "__main__":
    main()
