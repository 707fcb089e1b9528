"""Many tables of embeddings, which train with slow Adam on pageable batches, and log the norm of each gradient.

Fixed, the optimizer is a few kernels, the batches are in pinned memory, and the norms are read after the last step.
"""

import common
import torch
from faults import training
from torch import Tensor, nn
from torch.nn import functional

from combined import switches

SHAPE = "many tables of embeddings and linear layers; three faults"
FAULTS = {
    "optimizer": "optimizer/many_kernels",
    "pinned": "copies/pageable",
    "norms": "synchronization/in_step",
}

ROWS, NUMBERS, TABLES, ENTRIES, WIDTH, HIDDEN, STEPS = 8192, 2048, 24, 20_000, 64, 2048, 24


class Recommender(nn.Module):  # type: ignore[misc]
    """Embeddings of what is chosen, beside what is measured, through linear layers."""

    def __init__(self, run: training.Run) -> None:
        super().__init__()
        tables, width, hidden = run.size(TABLES, 3), run.size(WIDTH, 4), run.size(HIDDEN)
        self.entries = run.size(ENTRIES)
        self.tables = nn.ModuleList(nn.Embedding(self.entries, width) for _ in range(tables))
        self.numbers = nn.Linear(run.size(NUMBERS), hidden)
        self.hidden = nn.Linear(hidden + tables * width, hidden)
        self.output = nn.Linear(hidden, training.OUTPUTS)
        self.to(run.device)

    def forward(self, numbers: Tensor, chosen: Tensor) -> Tensor:
        """Return the output [rows, OUTPUTS] for numbers [rows, numbers] and choices int64 [rows, tables]."""
        found = [table(column) for table, column in zip(self.tables, chosen.unbind(1), strict=True)]
        hidden = functional.relu(self.numbers(numbers))
        return self.output(functional.relu(self.hidden(torch.cat([hidden, *found], dim=1))))


def main(arguments: list[str] | None = None) -> None:
    run, fixed = switches.started(__doc__, arguments, FAULTS, STEPS)
    model = Recommender(run)
    optimizer = switches.adam(model, run, fused="optimizer" in fixed)
    norms = switches.Norms(model, later="norms" in fixed)
    rows = run.size(ROWS)
    batches = switches.in_stream(run, switches.kept_batches(run, (rows, run.size(NUMBERS)), pinned="pinned" in fixed))
    chosen = torch.randint(model.entries, (rows, len(model.tables)), device=run.device)
    wanted, loss = training.rows(run, rows, training.OUTPUTS), torch.zeros(())
    for _ in training.steps(run):
        numbers = next(batches)
        with common.phase("forward"):
            loss = functional.mse_loss(model(numbers, chosen), wanted)
        with common.phase("backward"):
            loss.backward()
        norms.log()
        with common.phase("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
    print(f"loss {loss.item():.4f} with {', '.join(sorted(fixed)) or 'nothing'} fixed")


if __name__ == "__main__":
    main()
