"""Two GPUs shard the weights of the whole network as one unit, so they gather all weights before they compute.

They also scatter the gradients only when all of them are ready. Fixed, each block is a unit of its own, gathered while
the one before it computes. It needs two GPUs.
"""

import common
import torch
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn import functional

from faults import ranks, training
from faults.training import Run

SHAPE = "residual blocks with sharded weights on two GPUs; gathered at the start, scattered at the end"
EXPECTS = {"": ("communication/exposed",), "--fixed": ()}
GPUS = 2

WIDTH, BLOCKS, ROWS, STEPS = 4096, 8, 4096, 16


class Block(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Two linear layers with a residual connection."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, rows: Tensor) -> Tensor:
        """Return rows of the same shape."""
        found: Tensor = rows + self.second(functional.relu(self.first(rows)))
        return found


def rank(number: int, run: Run, port: int) -> None:
    """Train as one of two processes."""
    own = ranks.one_of_two(number, run, port)
    width = own.size(WIDTH)
    with ranks.group(own):
        model = nn.Sequential(*(Block(width) for _ in range(own.size(BLOCKS, 2)))).to(own.device)
        if own.fixed:
            for block in model:
                fully_shard(block, reshard_after_forward=False)
        fully_shard(model, reshard_after_forward=False)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=True)
        inputs = training.rows(own, own.size(ROWS), width)
        loss = torch.zeros(())
        for _ in training.steps(own):
            with common.phase("forward"):
                loss = functional.mse_loss(model(inputs), inputs)
            training.descend(loss, optimizer)
        # One write, so that the lines of two ranks do not mix.
        print(f"rank {number}: loss {loss.item():.4f}\n", end="")


def main(arguments: list[str] | None = None) -> None:
    """Train in two processes."""
    ranks.spawn(rank, training.started(__doc__, arguments, STEPS, gpus=GPUS))


if __name__ == "__main__":
    main()
