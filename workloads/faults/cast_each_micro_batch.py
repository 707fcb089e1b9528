"""A step of many small micro-batches, each with an autocast of its own that casts all weights again.

Fixed, one autocast around all of them keeps what it cast.
"""

from contextlib import nullcontext

import common
import torch
from torch.nn import functional

from faults import training

SHAPE = "linear layers trained in three micro-batches a step, under autocast"
EXPECTS = {"": ("compute/repeated_casts",), "--fixed": ()}

MICRO_BATCHES, WIDTH, ROWS, LAYERS = 3, 8192, 512, 3


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    width = run.size(WIDTH)
    model = training.network(run, width, WIDTH, LAYERS)
    optimizer = training.sgd(model, run)
    batches = training.rows(run, MICRO_BATCHES * run.size(ROWS, 2), width).chunk(MICRO_BATCHES)
    wanted = torch.zeros(len(batches[0]), training.OUTPUTS, device=run.device)
    loss = torch.zeros(())
    for _ in training.steps(run):
        with torch.autocast(run.device.type, torch.bfloat16) if run.fixed else nullcontext():
            for inputs in batches:
                with common.phase("forward"), torch.autocast(run.device.type, torch.bfloat16):
                    loss = functional.mse_loss(model(inputs).float(), wanted)
                training.descend(loss, optimizer)
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
