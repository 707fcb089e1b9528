"""A mixture of experts finds the tokens of each expert with .nonzero(), which waits for the GPU each time.

A token's expert is a hash of the token, so the host can compute it. Fixed, the rows of each expert are found once,
before the first step, and passed to the layers.
"""

import common
import torch
from torch import Tensor, nn

from faults import training
from faults.training import Run

SHAPE = "a mixture of experts; one wait for each expert of each layer of the forward pass"
EXPECTS = {"": ("synchronization/in_step",), "--fixed": ()}

EXPERTS, LAYERS, TOKENS, WIDTH, BATCHES, STEPS = 8, 4, 32768, 1024, 4, 20
# A prime, so that neighbours go to different experts.
STRIDE = 2_654_435_761


class Experts(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """A layer of several parts; each token goes through one of them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.parts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(EXPERTS)
        )

    def forward(self, values: Tensor, experts: Tensor, rows: list[Tensor] | None) -> Tensor:
        """Return values [tokens, width], each with what its own expert adds.

        Args:
            values: Of shape [tokens, width].
            experts: The number of each token's expert.
            rows: The tokens of each expert; None to find them here.
        """
        taken, given = [], []
        for number, part in enumerate(self.parts):
            mine = (experts == number).nonzero()[:, 0] if rows is None else rows[number]
            taken.append(mine)
            given.append(part(values.index_select(0, mine)))
        back = torch.argsort(torch.cat(taken))
        return values + torch.cat(given).index_select(0, back)


def prepared(run: Run) -> list[tuple[Tensor, list[Tensor]]]:
    """Return for each batch the expert of each token, and the tokens of each expert, on the device."""
    made = []
    for _ in range(BATCHES):
        experts = torch.randint(1 << 30, (run.size(TOKENS),)) * STRIDE % 65536 % EXPERTS
        rows = [(experts == number).nonzero()[:, 0].to(run.device) for number in range(EXPERTS)]
        made.append((experts.to(run.device), rows))
    return made


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments, STEPS)
    width = run.size(WIDTH)
    layers = nn.ModuleList(Experts(width) for _ in range(LAYERS)).to(run.device)
    optimizer = training.sgd(layers, run)
    inputs = training.rows(run, run.size(TOKENS), width)
    batches = prepared(run)
    loss = torch.zeros(())
    for number in training.steps(run):
        experts, rows = batches[number % BATCHES]
        with common.phase("forward"):
            values = inputs
            for layer in layers:
                values = layer(values, experts, rows if run.fixed else None)
            loss = values.square().mean()
        training.descend(loss, optimizer)
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
