"""Linear layers with a layer norm that is written by hand: mean, difference, variance and root, one by one.

Fixed, it is PyTorch's layer norm, in one kernel.
"""

import torch
from torch import Tensor, nn

from faults import training

SHAPE = "linear layers with layer norms by hand, trained in bfloat16"
EXPECTS = {"": ("compute/norm_by_parts",), "--fixed": ()}

WIDTH, ROWS, LAYERS = 1024, 32768, 4


class Norm(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """A layer norm by hand."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, rows: Tensor) -> Tensor:
        """Return the rows with a mean of 0 and a variance of 1, then scaled."""
        apart = rows - rows.mean(-1, keepdim=True)
        variance = apart.pow(2).mean(-1, keepdim=True)
        return apart / torch.sqrt(variance + 1e-5) * self.weight + self.bias


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    width = run.size(WIDTH)
    layers: list[nn.Module] = []
    for _ in range(run.size(LAYERS, 2)):
        layers += [nn.LayerNorm(width) if run.fixed else Norm(width), nn.Linear(width, width)]
    model = nn.Sequential(*layers).to(run.device, torch.bfloat16)
    optimizer = training.sgd(model, run)
    inputs = training.rows(run, run.size(ROWS), width).to(torch.bfloat16)
    wanted = torch.zeros_like(inputs)
    loss = training.train_all(run, model, optimizer, inputs, wanted)
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
