"""The collate function puts an NVTX range around each field of each record: thousands for one batch.

It runs in the training process, which records them while the GPU waits. Fixed, a batch has only the range of its phase.
"""

import common
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from faults import models, training
from faults.training import Run

SHAPE = "a transformer encoder; ranges in the collate function of a loader without processes of its own"
EXPECTS = {"": ("capture/overhead",), "--fixed": ()}

RECORDS, FIELDS, WIDTH, LAYERS, STEPS = 64, 128, 1024, 6, 12


class Collate:
    """Makes a batch of records, each a list of numbers."""

    def __init__(self, *, named: bool) -> None:
        """Take whether each field has a range of its own."""
        self.named = named

    def __call__(self, records: list[list[float]]) -> Tensor:
        """Return the fields between 0 and 1, float32 [records, fields]."""
        return torch.tensor([[self.field(value) for value in record] for record in records])

    def field(self, value: float) -> float:
        """Return a field between 0 and 1."""
        if self.named:
            torch.cuda.nvtx.range_push("field")
        scaled = value / FIELDS
        if self.named:
            torch.cuda.nvtx.range_pop()
        return scaled


def loader(run: Run) -> DataLoader[Tensor]:
    """Return a loader of records that are in memory already."""
    fields = [float(number) for number in range(run.size(FIELDS, 8))]
    collate = Collate(named=run.device.type == "cuda" and not run.fixed)
    records = run.size(RECORDS, 2)
    return DataLoader([fields] * records * run.steps, batch_size=records, collate_fn=collate)


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments, STEPS)
    width = run.size(WIDTH)
    model = models.encoder(run, width, LAYERS)
    optimizer = training.sgd(model, run)
    directions = torch.rand(width, device=run.device, dtype=torch.bfloat16)
    batches = iter(loader(run))
    loss = torch.zeros(())
    for _ in training.steps(run):
        with common.phase("data"):
            fields = next(batches)
        with common.phase("copy"):
            inputs = fields.to(run.device, torch.bfloat16, non_blocking=True)[:, :, None] * directions
        loss = training.train(model, optimizer, inputs, torch.zeros_like(inputs))
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
