"""Each batch is a dictionary of many columns, which the trainer copies one by one from pageable memory.

dataloader_pin_memory=False: each copy blocks the host. Fixed, a thread of the loader pins the batches, and the copies
do not block the host.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from faults import trainer_loop, training
from faults.training import Run

SHAPE = "linear layers over columns in the library's loop; many medium copies a step"
LIBRARY = "transformers"
EXPECTS = {"": ("copies/pageable",), "--fixed": ()}

COLUMNS, FEATURES, ROWS, WIDTH, WORKERS, STEPS = 24, 64, 8192, 8192, 3, 24


class Columns(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Linear layers over all columns of a table."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.network = training.network(run, COLUMNS * FEATURES, WIDTH)

    def forward(self, **columns: Tensor) -> dict[str, Tensor]:
        """Return the loss of a batch, of columns float32 [rows, features] each."""
        given = self.network(torch.cat(list(columns.values()), 1))
        return {"loss": functional.mse_loss(given, torch.zeros_like(given))}


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments, STEPS)
    batches = [
        {f"column_{number}": torch.rand(run.size(ROWS), FEATURES).share_memory_() for number in range(COLUMNS)}
        for _ in range(2)
    ]
    pinned = run.fixed and run.device.type == "cuda"
    loss = trainer_loop.train(
        *(run, Columns(run), batches),
        dataloader_num_workers=run.size(WORKERS, 1),
        dataloader_pin_memory=pinned,
        accelerator_config={"non_blocking": pinned},
    )
    print(f"mean loss {loss:.4f}")


if __name__ == "__main__":
    main()
