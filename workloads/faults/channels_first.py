"""Convolutions in bfloat16 on images with channels first: tensor cores need channels last, so cuDNN converts them.

Fixed, model and images have memory_format=torch.channels_last.
"""

import torch
from torch import Tensor, nn

from faults import training

SHAPE = "convolutions in bfloat16; the layout of images and weights"
EXPECTS = {"": ("tensor_cores/layout",), "--fixed": ()}

IMAGES, CHANNELS, SIDE, LAYERS = 128, 128, 56, 8


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    form = torch.channels_last if run.fixed else torch.contiguous_format
    channels, side = run.size(CHANNELS, 8), run.size(SIDE, 8)
    layers = [
        part
        for _ in range(run.size(LAYERS, 2))
        for part in (nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.ReLU(inplace=True))
    ]
    model = nn.Sequential(*layers).to(run.device, torch.bfloat16, memory_format=form)
    optimizer = training.sgd(model, run)
    shape = run.size(IMAGES, 2), channels, side, side
    images = torch.rand(shape, device=run.device).to(torch.bfloat16).contiguous(memory_format=form)
    wanted = torch.zeros_like(images)
    loss: Tensor = training.train_all(run, model, optimizer, images, wanted)
    print(f"loss {loss.item():.4f} with {form}")


if __name__ == "__main__":
    main()
