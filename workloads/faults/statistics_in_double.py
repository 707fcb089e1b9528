"""Images that are normalized with statistics from NumPy, which are in FP64: so are all images, until they are cast.

Fixed, the statistics are in FP32.
"""

import common
import numpy as np
import torch
from torch.nn import functional

from faults import models, training

SHAPE = "convolutions in bfloat16 on images that are normalized on the GPU"
LIBRARY = ""
EXPECTS = {"": ("compute/double",), "--fixed": ()}

IMAGES, SIDE, CHANNELS, LAYERS, POOLED = 256, 512, 32, 2, 8


def main(arguments: list[str] | None = None) -> None:
    """Train, and print the last loss."""
    run = training.started(__doc__, arguments)
    model = models.convolutions(run, CHANNELS, LAYERS)
    optimizer = training.sgd(model, run)
    side = run.size(SIDE, 64)
    raw = torch.randint(256, (run.size(IMAGES, 2), 3, side, side), device=run.device, dtype=torch.uint8)
    raw = raw.contiguous(memory_format=torch.channels_last)
    found = np.array([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]]).reshape(2, 1, 3, 1, 1)
    mean, spread = torch.from_numpy(found).to(run.device, torch.float32 if run.fixed else torch.float64)
    loss = torch.zeros(())
    for _ in training.steps(run):
        with common.phase("forward"):
            images = ((raw / 255 - mean) / spread).clamp(-3, 3).to(torch.bfloat16)
            loss = model(functional.avg_pool2d(images, POOLED)).float().square().mean()
        with common.phase("backward"):
            loss.backward()
        with common.phase("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
