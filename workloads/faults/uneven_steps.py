"""Every eighth step collects garbage among a million objects: the host stops, then the GPU goes idle.

Fixed, it is left to the end: the loop makes nothing that only the collector could find.
"""

import gc

import torch

from faults import training

SHAPE = "linear layers; every eighth step collects garbage"
EXPECTS = {"": ("steps/uneven",), "--fixed": ()}

WIDTH, ROWS = 4096, 4096
OBJECTS, EVERY = 1_000_000, 8


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    gc.disable()
    index = [{"row": number} for number in range(run.size(OBJECTS, 1000))]
    step = training.usual_step(run, WIDTH, ROWS)
    loss = torch.zeros(())
    for number in training.steps(run):
        loss = step()
        if not run.fixed and number % EVERY == EVERY - 1:
            gc.collect()
    gc.enable()
    gc.collect()
    print(f"loss {loss.item():.4f}, {len(index)} objects")


if __name__ == "__main__":
    main()
