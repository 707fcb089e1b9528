"""Epochs of eight steps in Lightning's loop, whose loader starts its processes again for each of them.

Fixed, persistent_workers=True keeps them. The images themselves cost nothing.
"""

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from faults import lightning_loop, models, training

SHAPE = "convolutions in the library's loop; the loader of its short epochs starts processes"
LIBRARY = "Lightning"
EXPECTS = {"": ("data/worker_start",), "--fixed": ()}

CHANNELS, LAYERS, SIDE, IMAGES, BATCHES, WORKERS, STEPS = 128, 12, 56, 128, 8, 4, 32


class Images(Dataset):  # type: ignore[misc]  # torch is not typed here
    """Images of one brightness each, bfloat16 [3, side, side], and their labels."""

    def __init__(self, length: int, side: int) -> None:
        """Take their number and their pixels a side."""
        self.length, self.side = length, side

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """Return an image and its label, float32 [1]."""
        brightness = index / self.length
        return torch.full((3, self.side, self.side), brightness, dtype=torch.bfloat16), torch.tensor([brightness])


class Judge(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Convolutions, and the mean of their output."""

    def __init__(self, tower: nn.Module) -> None:
        super().__init__()
        self.tower = tower

    def forward(self, images: Tensor) -> Tensor:
        """Return one number for each image, float32 [images, 1]."""
        found: Tensor = self.tower(images.contiguous(memory_format=torch.channels_last)).mean((1, 2, 3)).float()
        return found[:, None]


def main(arguments: list[str] | None = None) -> None:
    """Train, and print how many steps."""
    run = training.started(__doc__, arguments, STEPS)
    images = run.size(IMAGES, 2)
    loader = DataLoader(
        Images(BATCHES * images, run.size(SIDE, 8)),
        batch_size=images,
        num_workers=run.size(WORKERS, 1),
        persistent_workers=run.fixed,
        pin_memory=run.device.type == "cuda",
    )
    module = lightning_loop.Module(run, Judge(models.convolutions(run, CHANNELS, LAYERS)))
    lightning_loop.fit(run, module, loader)
    print(f"trained {run.steps} steps in epochs of {BATCHES}")


if __name__ == "__main__":
    main()
