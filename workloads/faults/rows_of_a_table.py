"""Each batch gathers rows that lie scattered in one large file, and the disk has to deliver each of them.

Fixed, the program has read the rows it needs once, before the first step.
"""

import os
import random

import common
import torch
from torch import nn

from faults import disk, training

SHAPE = "an autoencoder; each batch gathers scattered rows of one large file that no cache holds"
GPUS = 0
EXPECTS = {"": ("host/file_reads",), "--fixed": ()}

FEATURES, ROWS, LARGEST, ROW_BYTES, READS = 4096, 8192, 192 << 20, 1 << 14, 96


def gathered(file: int, places: list[int]) -> list[bytes]:
    """Return rows of an open file, and drop it from the cache.

    Args:
        file: Its descriptor.
        places: Where the rows begin, in bytes.
    """
    rows = [os.pread(file, ROW_BYTES, place) for place in places]
    disk.forget(file)
    return rows


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    features = run.size(FEATURES, training.ON_CPU)
    layers = (nn.Linear(features, features // 4), nn.GELU(), nn.Linear(features // 4, features))
    model = nn.Sequential(*layers).to(run.device)
    optimizer = training.sgd(model, run)
    inputs = training.rows(run, run.size(ROWS, 2 * training.ON_CPU), features)
    places = random.Random(0).sample(range(0, LARGEST, ROW_BYTES), READS)
    loss, total = torch.zeros(()), 0
    with disk.written(1, LARGEST) as paths, paths[0].open("rb") as file:
        kept = gathered(file.fileno(), places)
        for _ in training.steps(run):
            with common.phase("data"):
                rows = kept if run.fixed else gathered(file.fileno(), places)
            total += sum(map(len, rows))
            loss = training.train(model, optimizer, inputs, inputs)
    print(f"loss {loss.item():.4f}, {total} bytes read")


if __name__ == "__main__":
    main()
