"""A ConvNeXt of timm on images with channels first: each norm copies its images to channels last, and back.

Fixed, model and images have memory_format=torch.channels_last.
"""

import timm
import torch

from faults import training

SHAPE = "a ConvNeXt in bfloat16, whose norms and convolutions want different layouts"
LIBRARY = "timm"
EXPECTS = {"": ("tensor_cores/layout",), "--fixed": ()}

MODEL, IMAGES, SIDE = "convnext_nano", 64, 160


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    form = torch.channels_last if run.fixed else torch.contiguous_format
    made = timm.create_model(MODEL, num_classes=training.OUTPUTS)
    model = made.to(run.device, torch.bfloat16, memory_format=form)
    optimizer = training.sgd(model, run)
    side = run.size(SIDE, 64)
    images = torch.rand(run.size(IMAGES, 2), 3, side, side, device=run.device)
    images = images.to(torch.bfloat16, memory_format=form)
    wanted = torch.zeros(len(images), training.OUTPUTS, device=run.device, dtype=torch.bfloat16)
    loss = training.train_all(run, model, optimizer, images, wanted)
    print(f"loss {loss.item():.4f} with {form}")


if __name__ == "__main__":
    main()
