"""Linear layers whose GELU is written by hand with the error function, in five operators.

Fixed, it is PyTorch's GELU, in one kernel.
"""

import math

import torch
from torch import Tensor, nn

from faults import training

SHAPE = "linear layers with GELU by hand, trained in bfloat16"
EXPECTS = {"": ("compute/activation_by_parts",), "--fixed": ()}

WIDTH, ROWS, LAYERS = 2048, 32768, 4


class Gelu(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """GELU by hand."""

    def forward(self, rows: Tensor) -> Tensor:
        return 0.5 * rows * (1 + torch.erf(rows / math.sqrt(2)))


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    width = run.size(WIDTH)
    layers: list[nn.Module] = []
    for _ in range(run.size(LAYERS, 2)):
        layers += [nn.Linear(width, width), nn.GELU() if run.fixed else Gelu()]
    model = nn.Sequential(*layers).to(run.device, torch.bfloat16)
    optimizer = training.sgd(model, run)
    inputs = training.rows(run, run.size(ROWS), width).to(torch.bfloat16)
    wanted = torch.zeros_like(inputs)
    loss = training.train_all(run, model, optimizer, inputs, wanted)
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
