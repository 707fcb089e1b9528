"""Every eighth step takes all weights to the host and counts them into histograms, as for a dashboard.

The host counts, and the GPU waits for it. Fixed, the GPU counts, and the histograms stay there until the end.
"""

from itertools import pairwise

import common
import numpy as np
import torch
from torch import Tensor, nn

from faults import training
from faults.training import Run

SHAPE = "an autoencoder; every eighth step reads all weights and counts on the host"
EXPECTS = {"": ("steps/uneven",), "--fixed": ()}

WIDTH, NARROW, ROWS, EVERY, BINS = 4096, 256, 8192, 8, 64


def autoencoder(run: Run) -> nn.Module:
    """Return linear layers that narrow down and widen again."""
    width, narrow = run.size(WIDTH), run.size(NARROW, 8)
    middle = (width + narrow) // 2
    sizes = (width, middle, narrow, middle, width)
    parts: list[nn.Module] = []
    for before, after in pairwise(sizes):
        parts += [nn.Linear(before, after), nn.GELU()]
    return nn.Sequential(*parts[:-1]).to(run.device)


@torch.no_grad()  # type: ignore[untyped-decorator]  # torch is not typed here
def count(model: nn.Module, *, on_host: bool) -> list[Tensor]:
    """Return a histogram of each parameter."""
    if on_host:
        arrays = [each.cpu().numpy() for each in model.parameters()]
        return [torch.from_numpy(np.histogram(each, BINS, (-1.0, 1.0))[0]).float() for each in arrays]
    return [torch.histc(each, BINS, -1.0, 1.0) for each in model.parameters()]


def main(arguments: list[str] | None = None) -> None:
    """Train, and print how many weights were counted."""
    run = training.started(__doc__, arguments)
    model = autoencoder(run)
    optimizer = training.sgd(model, run)
    inputs = training.rows(run, run.size(ROWS), run.size(WIDTH))
    counted: list[Tensor] = []
    for number in training.steps(run):
        training.train(model, optimizer, inputs, inputs)
        if number % EVERY == EVERY - 1:
            with common.phase("log"):
                counted += count(model, on_host=not run.fixed)
    total = sum(float(each.sum()) for each in counted)
    print(f"counted {total:.0f} weights in {len(counted)} histograms")


if __name__ == "__main__":
    main()
