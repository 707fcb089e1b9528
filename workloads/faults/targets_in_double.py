"""A library's loop whose targets come from NumPy in FP64: the scores, the loss and their gradients are in FP64, too.

Fixed, the targets are in FP32.
"""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from faults import lightning_loop, training

SHAPE = "an encoder in the library's loop that scores rows with known directions"
LIBRARY = "Lightning"
EXPECTS = {"": ("compute/double",), "--fixed": ()}

ROWS, WIDTH, DIRECTIONS = 16384, 1024, 2048


class Scored(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """A network whose output is compared with known directions."""

    def __init__(self, run: training.Run, known: Tensor) -> None:
        """Take the settings of the run, and the directions as columns."""
        super().__init__()
        width = len(known)
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width)).to(run.device)
        self.known = known

    def forward(self, rows: Tensor) -> Tensor:
        return self.layers(rows).to(self.known.dtype) @ self.known


class Classified(lightning_loop.Module):
    """A network that learns which direction each row has."""

    def loss(self, given: Tensor, wanted: Tensor) -> Tensor:
        """Return the loss of the network's output."""
        return functional.cross_entropy(given, wanted)


def main(arguments: list[str] | None = None) -> None:
    """Train, and print how many steps were done."""
    run = training.started(__doc__, arguments)
    width, count = run.size(WIDTH), run.size(DIRECTIONS)
    found = np.random.default_rng(0).normal(size=(width, count)) / width**0.5
    known = torch.from_numpy(found.astype(np.float32) if run.fixed else found).to(run.device)
    inputs = training.rows(run, run.size(ROWS), width)
    wanted = torch.randint(count, (len(inputs),), device=run.device)
    network = Scored(run, known)
    lightning_loop.fit(run, Classified(run, network), lightning_loop.repeated(run, [inputs, wanted]))
    print(f"{run.steps} steps")


if __name__ == "__main__":
    main()
