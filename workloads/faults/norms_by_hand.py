"""Layers whose norm and gate are written by hand: many elementwise operators around each product of matrices.

Fixed, torch.compile fuses them.
"""

import torch
from torch import Tensor, nn

from faults import compiling, training

SHAPE = "gated linear layers with norms by hand, trained in bfloat16"
EXPECTS = {"": ("compute/norm_by_parts",), "--fixed": ()}

WIDTH, ROWS, LAYERS = 2048, 32768, 4


class Gated(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """A residual layer: a norm, a product and a gate."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.product = nn.Linear(width, 2 * width, bias=False)

    def forward(self, rows: Tensor) -> Tensor:
        """Return the rows with what the layer adds to them."""
        wide = rows.float()
        norm = (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(rows.dtype)
        given, gate = self.product(norm * self.scale).chunk(2, -1)
        return rows + given * gate * torch.sigmoid(gate)


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    width = run.size(WIDTH)
    layers = nn.Sequential(*[Gated(width) for _ in range(run.size(LAYERS, 2))])
    model: nn.Module = layers.to(run.device, torch.bfloat16)
    optimizer = training.sgd(model, run)
    inputs = training.rows(run, run.size(ROWS), width).to(torch.bfloat16)
    wanted = torch.zeros_like(inputs)
    with compiling.afresh():
        chosen = torch.compile(model) if run.fixed and run.device.type == "cuda" else model
        training.train(chosen, optimizer, inputs, wanted)
        loss = training.train_all(run, chosen, optimizer, inputs, wanted)
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
