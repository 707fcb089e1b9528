"""A recommender that looks up many entries: the backward pass of each table sorts all of them.

Fixed, it looks them up with index_select, whose backward pass adds without sorting.
"""

import torch
from torch import Tensor, nn

from faults import training

SHAPE = "eight tables with many lookups each, and a small network"
EXPECTS = {"": ("compute/sorted_gradient",), "--fixed": ()}

TABLES, ENTRIES, WIDTH, ROWS, EACH = 8, 200_000, 64, 65536, 4


class Recommender(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Tables, and linear layers over the means of what is looked up in them."""

    def __init__(self, run: training.Run) -> None:
        super().__init__()
        made = [nn.Embedding(run.size(ENTRIES, 64), WIDTH, device=run.device) for _ in range(TABLES)]
        self.tables, self.top = nn.ModuleList(made), training.network(run, TABLES * WIDTH, 512, 2)
        self.sorts = not run.fixed

    def forward(self, entries: Tensor) -> Tensor:
        """Return a number for each row, given entries of shape [tables, rows, each]."""
        found = []
        for table, wanted in zip(self.tables, entries, strict=True):
            rows = table(wanted) if self.sorts else table.weight.index_select(0, wanted.flatten())
            found.append(rows.view(*wanted.shape, WIDTH).mean(1))
        scores: Tensor = self.top(torch.cat(found, 1))
        return scores


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    model = Recommender(run)
    optimizer = training.sgd(model, run)
    entries = torch.randint(run.size(ENTRIES, 64), (TABLES, run.size(ROWS), EACH), device=run.device)
    wanted = torch.zeros(entries.shape[1], training.OUTPUTS, device=run.device)
    loss = training.train_all(run, model, optimizer, entries, wanted)
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
