"""Depthwise convolutions on images with channels first, where PyTorch runs kernels of its own.

Fixed, model and images have memory_format=torch.channels_last, and cuDNN runs them.
"""

import torch
from torch import nn

from faults import training

SHAPE = "depthwise convolutions in bfloat16, trained; the layout of images and weights"
EXPECTS = {"": ("compute/depthwise",), "--fixed": ()}

IMAGES, CHANNELS, SIDE, LAYERS, KERNEL = 64, 256, 56, 6, 7


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    form = torch.channels_last if run.fixed else torch.contiguous_format
    channels, side = run.size(CHANNELS, 8), run.size(SIDE, 8)
    layers = [
        nn.Conv2d(channels, channels, KERNEL, padding=KERNEL // 2, groups=channels, bias=False)
        for _ in range(run.size(LAYERS, 2))
    ]
    model = nn.Sequential(*layers).to(run.device, torch.bfloat16, memory_format=form)
    optimizer = training.sgd(model, run)
    shape = run.size(IMAGES, 2), channels, side, side
    images = torch.rand(shape, device=run.device).to(torch.bfloat16).contiguous(memory_format=form)
    wanted = torch.zeros_like(images)
    loss = training.train_all(run, model, optimizer, images, wanted)
    print(f"loss {loss.item():.4f} with {form}")


if __name__ == "__main__":
    main()
