"""Every third step goes back to the best weights so far, which it loads from a file each time.

Fixed, the best weights are kept in memory, too, and copied from there.
"""

import copy
import tempfile
from itertools import pairwise
from pathlib import Path

import common
import torch
from torch import nn

from faults import training

SHAPE = "an autoencoder; every third step loads the best weights from a file"
GPUS = 0
EXPECTS = {"": ("host/checkpoint",), "--fixed": ()}

FEATURES, CODE, ROWS, EVERY = 4096, 256, 4096, 3


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    features, code = run.size(FEATURES, 2 * training.ON_CPU), run.size(CODE)
    middle = features // 2
    sizes = (features, middle, code, middle, features)
    layers: list[nn.Module] = []
    for given, made in pairwise(sizes):
        layers += [nn.Linear(given, made), nn.GELU()]
    model = nn.Sequential(*layers).to(run.device)
    optimizer = training.sgd(model, run)
    inputs = training.rows(run, run.size(ROWS, 128), features)
    loss = torch.zeros(())
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "best.pt"
        torch.save(model.state_dict(), file)
        best = copy.deepcopy(model.state_dict())
        for number in training.steps(run):
            loss = training.train(model, optimizer, inputs, inputs)
            if number % EVERY == EVERY - 1:
                with common.phase("look"):
                    model.load_state_dict(best if run.fixed else torch.load(file, map_location=run.device))
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
