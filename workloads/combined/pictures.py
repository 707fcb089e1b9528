"""Convolutions behind one loader process, with an Adam that goes through the tensors one by one.

The training waits for each batch, and then the GPU waits for the launches of the optimizer. Fixed, twelve processes
prepare the batches, and the optimizer is a few kernels.
"""

from typing import TYPE_CHECKING

import common
import torch
from faults import models, samples, training
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

from combined import switches

if TYPE_CHECKING:
    from collections.abc import Iterator

SHAPE = "convolutions behind a loader of pictures"
FAULTS = {"workers": "idle/data_wait", "optimizer": "optimizer/many_kernels"}

IMAGES, SIDE, CHANNELS, LAYERS, STEPS = 32, 48, 128, 20, 24


class Pictures:
    """Filtered noise as small pictures with three channels."""

    def __init__(self, length: int) -> None:
        self.waves = samples.Waves(length, samples.OCTAVES)

    def __len__(self) -> int:
        return len(self.waves)

    def __getitem__(self, index: int) -> Tensor:
        """Return a picture bfloat16 [3, SIDE, SIDE]."""
        return self.waves[index][0].flatten()[: 3 * SIDE * SIDE].reshape(3, SIDE, SIDE).to(torch.bfloat16)


def main(arguments: list[str] | None = None) -> None:
    run, fixed = switches.started(__doc__, arguments, FAULTS, STEPS)
    images = run.size(IMAGES, 2)
    workers = run.size(12, 2) if "workers" in fixed else 1
    on_gpu = run.device.type == "cuda"
    batches = DataLoader(Pictures(run.steps * images), batch_size=images, num_workers=workers, pin_memory=on_gpu)
    model = nn.Sequential(models.convolutions(run, CHANNELS, LAYERS))
    optimizer = switches.adam(model, run, fused="optimizer" in fixed)
    loss = torch.zeros(())
    coming: Iterator[Tensor] | None = None
    for _ in training.steps(run):
        with common.phase("data"):
            coming = coming or iter(batches)
            batch = next(coming)
        with common.phase("copy"):
            batch = batch.to(run.device, non_blocking=True, memory_format=torch.channels_last)
        with common.phase("forward"):
            loss = functional.mse_loss(model(batch).mean(1), batch.mean(1))
        training.descend(loss, optimizer)
    print(f"loss {loss.item():.4f} with {', '.join(sorted(fixed)) or 'nothing'} fixed")


if __name__ == "__main__":
    main()
