"""A loop over the samples of a batch: each goes through the network alone, and each time all weights are read.

Fixed, the network gets the whole batch.
"""

import common
import torch
from torch.nn import functional

from faults import training

SHAPE = "linear layers in bfloat16 that get the samples of a batch one by one"
EXPECTS = {"": ("compute/small_batches",), "--fixed": ()}

SAMPLES, ROWS, WIDTH, LAYERS = 32, 64, 8192, 3


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    width = run.size(WIDTH)
    model = training.network(run, width, WIDTH, LAYERS).to(torch.bfloat16)
    optimizer = training.sgd(model, run)
    samples = training.rows(run, SAMPLES * run.size(ROWS, 2), width).to(torch.bfloat16).chunk(SAMPLES)
    loss = torch.zeros(())
    for _ in training.steps(run):
        with common.phase("forward"):
            found = model(torch.cat(samples)) if run.fixed else torch.cat([model(each) for each in samples])
            loss = functional.mse_loss(found, torch.zeros_like(found))
        training.descend(loss, optimizer)
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
