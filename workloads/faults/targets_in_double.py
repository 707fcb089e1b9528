"""A library's loop whose targets come from NumPy in FP64: the loss, and the gradient of all outputs, are in FP64, too.

Fixed, the targets are in FP32.
"""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from faults import lightning_loop, training

SHAPE = "a wide linear decoder in the library's loop, whose targets come from NumPy"
LIBRARY = "Lightning"
EXPECTS = {"": ("compute/double",), "--fixed": ()}

ROWS, WIDTH, OUTPUTS = 8192, 512, 16384


class Robust(lightning_loop.Module):
    """A network that learns with a loss which large errors do not set."""

    def loss(self, given: Tensor, wanted: Tensor) -> Tensor:
        """Return the loss of the network's output."""
        apart = given - wanted
        return torch.log1p(apart.square()).mean() + functional.softplus(apart).mean()


def main(arguments: list[str] | None = None) -> None:
    """Train, and print how many steps were done."""
    run = training.started(__doc__, arguments)
    width, outputs = run.size(WIDTH), run.size(OUTPUTS)
    inputs = training.rows(run, run.size(ROWS), width)
    known = np.linspace(0, 1, outputs).astype(np.float32 if run.fixed else np.float64)
    wanted = torch.from_numpy(known).to(run.device).expand(len(inputs), outputs).contiguous()
    network = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs)).to(run.device)
    lightning_loop.fit(run, Robust(run, network), lightning_loop.repeated(run, [inputs, wanted]))
    print(f"{run.steps} steps")


if __name__ == "__main__":
    main()
