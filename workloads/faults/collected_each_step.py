"""Each step collects garbage among many objects that are not garbage: the host stops, then the GPU goes idle.

Fixed, nothing is collected before the end: the loop makes nothing that only the collector could find.
"""

import gc
from typing import Any

import torch

from faults import training

SHAPE = "linear layers; each step collects garbage among a table of many rows"
EXPECTS = {"": ("idle/garbage_collection",), "--fixed": ()}

WIDTH, ROWS, OBJECTS = 4096, 4096, 300_000


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    table: list[dict[str, Any]] = [{"row": number, "seen": [number]} for number in range(run.size(OBJECTS, 1000))]
    gc.disable()
    step = training.usual_step(run, WIDTH, ROWS)
    loss = torch.zeros(())
    for number in training.steps(run):
        loss = step()
        table[number % len(table)]["seen"].append(number)
        if not run.fixed:
            gc.collect()
    print(f"loss {loss.item():.4f}, {len(table)} rows")


if __name__ == "__main__":
    main()
