"""Every eighth step validates, with a loader that starts its processes for it and ends them again.

The training itself has no loader. Fixed, persistent_workers=True keeps the processes from one validation to the next.
"""

import common
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from faults import models, training
from faults.training import Run

SHAPE = "an encoder; the processes are those of the validation now and then, not of the training"
EXPECTS = {"": ("data/worker_start",), "--fixed": ()}

WIDTH, LAYERS, ROWS, TOKENS, WORKERS, EVERY, BATCHES = 1024, 6, 32, 256, 6, 8, 4


def loader(run: Run, width: int) -> DataLoader[list[Tensor]]:
    """Return a loader of batches to validate on."""
    held_out = torch.rand(BATCHES, run.size(ROWS, 2), run.size(TOKENS, 8), width).to(torch.bfloat16)
    return DataLoader(
        TensorDataset(held_out.share_memory_()),
        batch_size=None,
        num_workers=run.size(WORKERS, 1),
        persistent_workers=run.fixed,
        pin_memory=run.device.type == "cuda",
    )


@torch.no_grad()  # type: ignore[untyped-decorator]  # torch is not typed here
def validate(run: Run, model: torch.nn.Module, batches: DataLoader[list[Tensor]]) -> Tensor:
    """Return the mean of what the model gives, still on the device."""
    total = torch.zeros((), device=run.device)
    for (batch,) in batches:
        total += model(batch.to(run.device, non_blocking=True)).float().mean()
    return total / BATCHES


def main(arguments: list[str] | None = None) -> None:
    """Train, and print what the last validation found."""
    run = training.started(__doc__, arguments)
    width = run.size(WIDTH)
    model = models.encoder(run, width, LAYERS)
    optimizer = training.sgd(model, run)
    shape = run.size(ROWS, 2), run.size(TOKENS, 8), width
    inputs = torch.rand(shape, device=run.device, dtype=torch.bfloat16)
    wanted = torch.zeros_like(inputs)
    held_out = loader(run, width)
    found = torch.zeros(())
    for number in training.steps(run):
        training.train(model, optimizer, inputs, wanted)
        if number % EVERY == 0:
            with common.phase("validate"):
                found = validate(run, model, held_out)
    print(f"found {found.item():.4f}")


if __name__ == "__main__":
    main()
