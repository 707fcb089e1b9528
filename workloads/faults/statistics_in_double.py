"""Rows that are whitened with a matrix from NumPy, which is in FP64: so is the product, until its result is cast.

Fixed, the matrix is in FP32.
"""

import numpy as np
import torch
from torch import Tensor, nn

from faults import training

SHAPE = "linear layers on rows that are whitened on the GPU"
EXPECTS = {"": ("compute/double",), "--fixed": ()}

ROWS, WIDTH, LAYERS = 16384, 2048, 2


class Whitened(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """A network on whitened rows."""

    def __init__(self, network: nn.Module, whiten: Tensor) -> None:
        super().__init__()
        self.network, self.whiten = network, whiten

    def forward(self, rows: Tensor) -> Tensor:
        """Return the network's numbers of each row."""
        found: Tensor = self.network((rows.to(self.whiten.dtype) @ self.whiten).float())
        return found


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    width = run.size(WIDTH)
    network = training.network(run, width, WIDTH, LAYERS)
    known = np.random.default_rng(0).normal(size=(width, width)) / width**0.5
    whiten = torch.from_numpy(known.astype(np.float32) if run.fixed else known).to(run.device)
    inputs = training.rows(run, run.size(ROWS), width)
    wanted = torch.zeros(len(inputs), training.OUTPUTS, device=run.device)
    model = Whitened(network, whiten)
    loss = training.train_all(run, model, training.sgd(network, run), inputs, wanted)
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
