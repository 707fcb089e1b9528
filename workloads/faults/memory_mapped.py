"""The training process reads each batch from a memory-mapped file; no page of it is in memory.

No call shows it: the first read of a page waits until the kernel has it from the disk. Fixed, the file was read into
memory once, before the first step.
"""

import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import common
import torch

from faults import training

SHAPE = "linear layers; each batch lies in a memory-mapped file that no cache holds"
LIBRARY = ""
EXPECTS = {"": ("host/page_faults",), "--fixed": ()}

WIDTH, ROWS, BYTES = 4096, 4096, 96 << 20


@contextmanager
def opened(size: int) -> Iterator[BinaryIO]:
    """Write a file of random bytes, and yield it opened for reading as long as the block lasts."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples.bin"
        path.write_bytes(os.urandom(size))
        os.sync()
        with path.open("rb") as file:
            yield file


def read(file: BinaryIO) -> torch.Tensor:
    """Return the first byte of each page of a file, read through a mapping, after the cache of the system is empty."""
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        return torch.tensor(list(mapped[:: mmap.PAGESIZE]), dtype=torch.float32)


def main(arguments: list[str] | None = None) -> None:
    """Train, and print the last loss."""
    run = training.started(__doc__, arguments)
    width = run.size(WIDTH)
    model = training.network(run, width, WIDTH)
    optimizer = training.sgd(model, run)
    inputs = training.rows(run, run.size(ROWS), width)
    wanted = training.rows(run, run.size(ROWS), training.OUTPUTS)
    loss, total = torch.zeros(()), 0.0
    with opened(run.size(BYTES, 1000)) as file:
        kept = read(file)
        for _ in training.steps(run):
            with common.phase("data"):
                batch = kept if run.fixed else read(file)
            total += batch.mean().item()
            loss = training.train(model, optimizer, inputs, wanted)
    print(f"loss {loss.item():.4f}, mean byte {total / max(len(kept), 1):.4f}")


if __name__ == "__main__":
    main()
