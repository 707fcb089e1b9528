"""Convolutions with cudnn.benchmark on images whose size changes: each new size times all algorithms in its step.

Fixed, the library chooses by its heuristics.
"""

import common
import torch
from torch.nn import functional

from faults import models, training

SHAPE = "convolutions in bfloat16 on images of a new size in each step"
EXPECTS = {"": ("compute/autotuning",), "--fixed": ()}

IMAGES, CHANNELS, LAYERS, SIDE, SIZES = 64, 64, 4, 96, 151


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    torch.backends.cudnn.benchmark = not run.fixed
    model = models.convolutions(run, CHANNELS, LAYERS)
    optimizer = training.sgd(model, run)
    loss = torch.zeros(())
    for number in training.steps(run):
        # Sizes from 96 to 246, each of them once in 151 steps.
        side = run.size(SIDE, 8) + (7 * number % SIZES)
        with common.phase("data"):
            images = torch.rand(run.size(IMAGES, 2), 3, side, side, device=run.device).to(
                torch.bfloat16, memory_format=torch.channels_last
            )
        with common.phase("forward"):
            found = model(images)
            loss = functional.mse_loss(found, torch.zeros_like(found))
        training.descend(loss, optimizer)
    torch.backends.cudnn.benchmark = False
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
