"""The training process reads each batch from a memory-mapped file; no page of it is in memory.

No call shows it: the first read of a page waits until the kernel has it from the disk. Fixed, the file was read into
memory once, before the first step.
"""

import mmap
from typing import BinaryIO

import common
import torch

from faults import disk, training

SHAPE = "linear layers; each batch lies in a memory-mapped file that no cache holds"
GPUS = 0
EXPECTS = {"": ("host/page_faults",), "--fixed": ()}

WIDTH, ROWS, BYTES, BYTES_ON_CPU = 4096, 4096, 96 << 20, 24 << 20


def read(file: BinaryIO) -> torch.Tensor:
    """Return the first byte of each page of a file, read through a mapping, after the cache of the system is empty."""
    disk.forget(file.fileno())
    with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        return torch.tensor(list(mapped[:: mmap.PAGESIZE]), dtype=torch.float32)


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    width = run.size(WIDTH, training.ON_CPU)
    model = training.network(run, width, WIDTH, on_cpu=training.ON_CPU)
    optimizer = training.sgd(model, run)
    inputs = training.rows(run, run.size(ROWS, training.ON_CPU), width)
    wanted = training.rows(run, run.size(ROWS, training.ON_CPU), training.OUTPUTS)
    loss, total = torch.zeros(()), 0.0
    with disk.written(1, run.size(BYTES, BYTES_ON_CPU)) as paths, paths[0].open("rb") as file:
        kept = read(file)
        for _ in training.steps(run):
            with common.phase("data"):
                batch = kept if run.fixed else read(file)
            total += batch.mean().item()
            loss = training.train(model, optimizer, inputs, wanted)
    print(f"loss {loss.item():.4f}, mean byte {total / max(len(kept), 1):.4f}")


if __name__ == "__main__":
    main()
