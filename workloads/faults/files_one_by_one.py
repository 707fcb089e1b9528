"""The training process reads many files for each batch itself, and the disk has to deliver them each time.

Fixed, it has read them once, before the first step.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import common
import torch

from faults import training

SHAPE = "linear layers; each batch is read from files that no cache holds"
LIBRARY = ""
EXPECTS = {"": ("host/file_reads",), "--fixed": ()}

WIDTH, ROWS, FILES, BYTES = 4096, 4096, 24, 1 << 20


@contextmanager
def written(count: int, size: int) -> Iterator[list[Path]]:
    """Write files of random bytes, and yield their paths as long as the block lasts."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{number}.bin" for number in range(count)]
        for path in paths:
            path.write_bytes(os.urandom(size))
        os.sync()
        yield paths


def read(path: Path) -> bytes:
    """Return the bytes of a file from the disk, and drop them from the cache of the system."""
    with path.open("rb", buffering=0) as file:
        content = file.readall()
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return content


def main(arguments: list[str] | None = None) -> None:
    """Train, and print the last loss."""
    run = training.started(__doc__, arguments)
    width = run.size(WIDTH)
    model = training.network(run, width, WIDTH)
    optimizer = training.sgd(model, run)
    inputs = training.rows(run, run.size(ROWS), width)
    wanted = training.rows(run, run.size(ROWS), training.OUTPUTS)
    loss, total = torch.zeros(()), 0
    with written(run.size(FILES, 2), run.size(BYTES, 1000)) as paths:
        kept = [read(path) for path in paths]
        for _ in training.steps(run):
            with common.phase("data"):
                batch = kept if run.fixed else [read(path) for path in paths]
            total += sum(map(len, batch))
            loss = training.train(model, optimizer, inputs, wanted)
    print(f"loss {loss.item():.4f}, {total} bytes read")


if __name__ == "__main__":
    main()
