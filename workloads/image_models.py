"""Five networks learn from image batches, in float32 and in mixed precision.

Small networks wait for the host or for their data, large ones keep the GPU busy. Mixed precision brings products of
matrices onto tensor cores where their sizes allow it.

    python workloads/image_models.py --model vgg16 --amp
    python workloads/image_models.py --model alexnet --batch-size 8

Images are drawn once, packed into one file, and cropped, flipped and normalised by loader processes. Products in
float32 use full precision: TF32, which PyTorch allows in convolutions, is off unless --tf32 is given.
"""

import argparse
from pathlib import Path

import common
import networks
import numpy as np
import pictures
import torch
import training
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

EXPECTS = {
    "--model mlp": ("launches/launch_bound or idle/data_wait",),
    "--model mlp --amp": ("launches/launch_bound or idle/data_wait",),
    "--model lenet": ("launches/launch_bound or idle/data_wait",),
    "--model lenet --amp": ("launches/launch_bound or idle/data_wait",),
    "--model alexnet --batch-size 8": ("tensor_cores/not_used or idle/cpu or idle/data_wait", "tensor_cores/not_used"),
    "--model alexnet --batch-size 16": ("idle/data_wait", "tensor_cores/not_used"),
    "--model alexnet --batch-size 32": ("idle/data_wait", "tensor_cores/not_used"),
    "--model alexnet --batch-size 128": ("idle/data_wait", "tensor_cores/not_used"),
    "--model alexnet --batch-size 128 --amp": ("idle/data_wait",),
    "--model vgg16": ("tensor_cores/not_used",),
    "--model vgg16 --amp": ("tensor_cores/layout",),
    "--model resnet50": ("tensor_cores/not_used",),
    "--model resnet50 --amp": ("launches/launch_bound", "tensor_cores/layout"),
}

MARGIN = 32  # pixels that a crop leaves out, for images of 224


class Crops(Dataset[training.Batch]):  # type: ignore[misc]  # torch is not typed here
    """Random crops of packed pictures, flipped half of the time; the work of a loader process."""

    def __init__(self, path: Path, side: int, seed: int) -> None:
        """Take the packed file, the side of a crop, and the seed of all crops."""
        self.pixels = np.load(path, mmap_mode="r")
        self.side = side
        self.seed = seed

    def __len__(self) -> int:
        """Return the number of pictures."""
        return len(self.pixels)

    def __getitem__(self, number: int) -> training.Batch:
        """Return an image float32 [3, side, side] and its label."""
        random = np.random.default_rng([self.seed, number])
        room = self.pixels.shape[1] - self.side + 1
        top, left = random.integers(0, room, 2)
        crop = self.pixels[number, top : top + self.side, left : left + self.side]
        if random.random() < 1 / 2:
            crop = crop[:, ::-1]
        return [pictures.as_floats(crop), torch.tensor(pictures.label(number))]


def loss_of(model: nn.Module, batch: list[Tensor]) -> Tensor:
    """Return the cross entropy of the model's scores for a batch of images and labels."""
    images, labels = batch
    return functional.cross_entropy(model(images), labels)


def options() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = common.parser(__doc__, batch_size=64, steps=20)
    parser.add_argument("--model", choices=tuple(networks.NETWORKS), default="mlp", help="the network (%(default)s)")
    parser.add_argument("--workers", type=common.natural, default=2, metavar="N", help="loader processes (%(default)s)")
    parser.add_argument("--images", type=common.positive, default=1024, metavar="N", help="to draw (%(default)s)")
    parser.add_argument("--side", type=common.positive, metavar="N", help="pixels (32, or 224 for larger networks)")
    parser.add_argument("--tf32", action="store_true", help="let float32 products use TF32")
    parser.add_argument(
        "--data", type=Path, default=Path("data", "pictures"), metavar="DIR", help="where they lie (%(default)s)"
    )
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Train, and print loss, step and wait for data."""
    chosen = options().parse_args(arguments)
    common.plant(chosen.seed)
    if not chosen.tf32:
        networks.full_precision()
    device = common.device_named(chosen.device)
    make, usual = networks.NETWORKS[chosen.model]
    side = chosen.side or usual
    path = pictures.packed(chosen.data, chosen.images, side + side * MARGIN // 224)
    model = make(networks.CLASSES, side).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    task = training.Task(model, loss_of, optimizer, device, chosen.amp)
    print(f"{chosen.model}: {chosen.images} images of {side} x {side}, {device.type}, {chosen.steps} steps")
    print(training.train(task, training.loader(Crops(path, side, chosen.seed), chosen, device)))


if __name__ == "__main__":
    main()
