"""An encoder that computes its activations again in the backward pass, although the GPU could keep them.

Fixed, it keeps them.
"""

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from faults import models, training

SHAPE = "a transformer encoder with a checkpoint around each layer, trained in bfloat16"
EXPECTS = {"": ("compute/recomputation",), "--fixed": ()}

WIDTH, LAYERS, ROWS, TOKENS = 1024, 8, 64, 512


class Layers(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Layers one after the other."""

    def __init__(self, layers: nn.Module, *, kept: bool) -> None:
        """Take the layers, and whether what they compute is kept for the backward pass."""
        super().__init__()
        self.layers, self.kept = layers, kept

    def forward(self, hidden: Tensor) -> Tensor:
        for layer in self.layers:
            hidden = layer(hidden) if self.kept else checkpoint(layer, hidden, use_reentrant=False)
        return hidden


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    model = Layers(models.encoder(run, WIDTH, LAYERS), kept=run.fixed)
    optimizer = training.sgd(model, run)
    inputs = torch.rand(run.size(ROWS, 2), run.size(TOKENS), run.size(WIDTH), device=run.device, dtype=torch.bfloat16)
    wanted = torch.zeros_like(inputs)
    loss = training.train_all(run, model, optimizer, inputs, wanted)
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
