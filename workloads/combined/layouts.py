"""Convolutions with channels first, on images from pageable memory, which read the norm of each gradient.

Fixed, images and model have channels last, the images are in pinned memory, and the norms are read after the last step.
"""

import common
import torch
from faults import training
from torch import nn
from torch.nn import functional

from combined import switches

SHAPE = "convolutions in bfloat16; their layout, their copies and their log"
FAULTS = {"layout": "tensor_cores/layout", "pinned": "copies/pageable", "norms": "synchronization/in_step"}

IMAGES, CHANNELS, SIDE, LAYERS, STEPS = 64, 128, 56, 8, 24


def main(arguments: list[str] | None = None) -> None:
    run, fixed = switches.started(__doc__, arguments, FAULTS, STEPS)
    form = torch.channels_last if "layout" in fixed else torch.contiguous_format
    channels, side = run.size(CHANNELS, 8), run.size(SIDE, 8)
    layers = [
        part
        for _ in range(run.size(LAYERS, 2))
        for part in (nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.ReLU(inplace=True))
    ]
    model = nn.Sequential(*layers).to(run.device, torch.bfloat16, memory_format=form)
    optimizer = training.sgd(model, run)
    norms = switches.Norms(model, later="norms" in fixed)
    shape = run.size(IMAGES, 2), channels, side, side
    made = [
        each.contiguous(memory_format=form)
        for each in switches.kept_batches(run, shape, pinned=False, dtype=torch.bfloat16)
    ]
    if "pinned" in fixed and run.device.type == "cuda":
        made = [each.pin_memory() for each in made]
    images, loss = switches.in_stream(run, made), torch.zeros(())
    for _ in training.steps(run):
        batch = next(images)
        with common.phase("forward"):
            loss = functional.mse_loss(model(batch), batch)
        with common.phase("backward"):
            loss.backward()
        norms.log()
        with common.phase("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
    print(f"loss {loss.item():.4f} with {', '.join(sorted(fixed)) or 'nothing'} fixed")


if __name__ == "__main__":
    main()
