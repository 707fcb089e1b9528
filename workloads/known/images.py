"""ResNet-50 or a ViT-B/16 learns classes of images that loader processes crop, flip and normalize.

As first written, ResNet-50 trains in full FP32 with channels first, and the ViT in bfloat16 behind two loader processes
that normalize on the CPU. Fixed, ResNet-50 trains in bfloat16 with channels last; the ViT has twelve loader processes,
which send bytes that the GPU normalizes.
"""

import argparse
from typing import TYPE_CHECKING

import common
import networks
import numpy as np
import torch
from faults import training
from networks import transformer
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

if TYPE_CHECKING:
    from collections.abc import Iterator

SIDE, LARGE, PATCH, ROWS, STEPS = 224, 288, 16, 64, 60
MEAN, DEVIATION = 117.0, 58.0


class Crops:
    """Random crops of random pictures, flipped half of the time; floats, or bytes for the GPU to normalize."""

    def __init__(self, length: int, *, as_bytes: bool) -> None:
        self.length, self.as_bytes = length, as_bytes
        self.pixels = np.random.default_rng(0).integers(0, 256, (LARGE, LARGE, 3), np.uint8)

    def __len__(self) -> int:
        """Return the number of samples."""
        return self.length

    def __getitem__(self, number: int) -> Tensor:
        """Return an image [3, SIDE, SIDE]."""
        top, left, flipped = np.random.default_rng(number).integers(0, (LARGE - SIDE, LARGE - SIDE, 2))
        crop = self.pixels[top : top + SIDE, left : left + SIDE, :: -1 if flipped else 1]
        found = torch.from_numpy(np.ascontiguousarray(crop[..., ::-1])).permute(2, 0, 1)
        return found if self.as_bytes else (found.float() - MEAN) / DEVIATION


class VisionTransformer(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Patches of 16 x 16 pixels as tokens of an encoder; the mean token names the class."""

    def __init__(self, size: transformer.Size) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, size.width, PATCH, PATCH)
        self.places = nn.Parameter(torch.zeros((SIDE // PATCH) ** 2, size.width))
        self.blocks = nn.Sequential(*(transformer.Block(size, first=False) for _ in range(size.layers)))
        self.classes = nn.Linear(size.width, networks.CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        """Return scores [n, classes] of images [n, 3, SIDE, SIDE]."""
        tokens = self.patches(images).flatten(2).transpose(1, 2) + self.places
        scores: Tensor = self.classes(self.blocks(tokens).mean(1))
        return scores


def main(arguments: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument("--model", choices=("resnet50", "vit"), default="resnet50")
    chosen, rest = options.parse_known_args(arguments)
    run = training.started(__doc__, rest, STEPS)
    is_vit, on_gpu = chosen.model == "vit", run.device.type == "cuda"
    if not is_vit and not run.fixed:
        networks.full_precision()
    size = transformer.Size(dropout=0.0) if on_gpu else transformer.SMALL
    model = (VisionTransformer(size) if is_vit else networks.NETWORKS["resnet50"][0](networks.CLASSES, SIDE)).to(
        run.device
    )
    form = torch.channels_last if run.fixed and not is_vit else torch.contiguous_format
    model = model.to(memory_format=form)
    rows, workers = run.size(ROWS, 2), run.size(12, 1) if run.fixed or not is_vit else run.size(2, 1)
    samples = Crops(run.steps * rows, as_bytes=run.fixed or not is_vit)
    images: Iterator[Tensor] = iter(DataLoader(samples, rows, num_workers=workers, pin_memory=on_gpu))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=on_gpu)
    labels, loss = torch.randint(networks.CLASSES, (rows,), device=run.device), torch.zeros(())
    for _ in training.steps(run):
        with common.phase("data"):
            batch = next(images)
        with common.phase("copy"):
            batch = batch.to(run.device, non_blocking=True)
            if samples.as_bytes:
                batch = (batch.float() - MEAN) / DEVIATION
            batch = batch.contiguous(memory_format=form)
        with common.phase("forward"), torch.autocast(run.device.type, torch.bfloat16, enabled=is_vit or run.fixed):
            loss = functional.cross_entropy(model(batch), labels)
        training.descend(loss, optimizer)
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
