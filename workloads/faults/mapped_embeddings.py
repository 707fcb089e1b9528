"""A recommender looks up scattered rows of a mapped table; no page of it is in memory.

The table stands for one larger than memory. Fixed, the rows needed were copied into memory before the first step.
"""

from pathlib import Path

import common
import numpy as np
import torch
from torch import Tensor, nn

from faults import disk, training

SHAPE = "a recommender; each step looks up scattered rows of a mapped table that no cache holds"
GPUS = 0
EXPECTS = {"": ("host/page_faults",), "--fixed": ()}

FEATURES, TABLE_ROWS, LOOKED_UP, HIDDEN, ROWS = 256, 160_000, 256, 4096, 4096


def looked_up(path: Path, rows: np.ndarray) -> Tensor:
    """Return rows of the table, float32 [rows, features], and let go of its pages."""
    with path.open("rb") as file:
        disk.forget(file.fileno())
        table = np.memmap(file, np.uint8, "r", shape=(TABLE_ROWS, 4 * FEATURES))
        return torch.from_numpy(table[rows, :FEATURES].astype(np.float32))


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    hidden = run.size(HIDDEN, training.ON_CPU)
    layers = (nn.Linear(FEATURES, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))
    model = nn.Sequential(*layers).to(run.device)
    optimizer = training.sgd(model, run)
    wanted = training.rows(run, run.size(ROWS, 2 * LOOKED_UP), 1)
    rows = np.random.default_rng(0).integers(0, TABLE_ROWS, LOOKED_UP)
    loss = torch.zeros(())
    with disk.written(1, 4 * FEATURES * TABLE_ROWS) as paths:
        kept = looked_up(paths[0], rows)
        for _ in training.steps(run):
            with common.phase("data"):
                found = kept if run.fixed else looked_up(paths[0], rows)
            with common.phase("copy"):
                inputs = (found / 255).repeat(len(wanted) // LOOKED_UP, 1).to(run.device)
            loss = training.train(model, optimizer, inputs, wanted)
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
