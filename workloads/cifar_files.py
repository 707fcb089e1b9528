"""A small network learns from images that are one PNG file each: the loader's worst case, and four ways out of it.

    python workloads/cifar_files.py                              one loader process
    python workloads/cifar_files.py --workers 3                  three
    python workloads/cifar_files.py --workers 3 --normalize gpu  bytes are copied, and normalised on the GPU
    python workloads/cifar_files.py --workers 3 --normalize gpu --packed    all images in one file
    python workloads/cifar_files.py --workers 3 --normalize gpu --packed --model resnet50 --channels-last --amp

The images are drawn, of CIFAR-10's size, 32 x 32 in three colours.
"""

import argparse
from functools import partial
from pathlib import Path

import common
import networks
import numpy as np
import pictures
import torch
import training
from pictures import png
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

EXPECTS = {
    "": ("idle/data_wait",),
    "--workers 3": ("idle/data_wait",),
    "--workers 3 --normalize gpu": ("idle/data_wait", "tensor_cores/not_used"),
    "--workers 3 --normalize gpu --packed": ("tensor_cores/not_used",),
    "--workers 3 --normalize gpu --packed --model resnet50 --channels-last": ("tensor_cores/not_used",),
    "--workers 3 --normalize gpu --packed --model resnet50 --channels-last --amp": ("launches/launch_bound",),
}

SIDE = 32
MODELS = {"cnn": networks.cifar_cnn, "resnet50": networks.resnet50}


class Files(Dataset[training.Batch]):  # type: ignore[misc]  # torch is not typed here
    """Pictures from one PNG file each."""

    def __init__(self, paths: list[Path], *, normalize: bool) -> None:
        """Take the files, and whether images leave the loader normalised, or as bytes."""
        self.paths = [str(path) for path in paths]
        self.normalize = normalize

    def __len__(self) -> int:
        """Return the number of pictures."""
        return len(self.paths)

    def __getitem__(self, number: int) -> training.Batch:
        """Return an image and its label: float32 [3, 32, 32], or uint8 [32, 32, 3]."""
        pixels = png.decode(Path(self.paths[number]).read_bytes())
        image = pictures.as_floats(pixels) if self.normalize else torch.from_numpy(pixels)
        return [image, torch.tensor(pictures.label(number))]


class Packed(Dataset[training.Batch]):  # type: ignore[misc]  # torch is not typed here
    """Pictures from one file that is mapped into memory: each is a slice of it, with nothing to open or decode."""

    def __init__(self, path: Path, *, normalize: bool) -> None:
        """Take the file, and whether images leave the loader normalised, or as bytes."""
        self.pixels = np.load(path, mmap_mode="r")
        self.normalize = normalize

    def __len__(self) -> int:
        """Return the number of pictures."""
        return len(self.pixels)

    def __getitem__(self, number: int) -> training.Batch:
        """Return an image and its label: float32 [3, 32, 32], or uint8 [32, 32, 3]."""
        pixels = np.array(self.pixels[number])
        image = pictures.as_floats(pixels) if self.normalize else torch.from_numpy(pixels)
        return [image, torch.tensor(pictures.label(number))]


def loss_of(model: nn.Module, batch: list[Tensor], layout: torch.memory_format) -> Tensor:
    """Return the cross entropy of images in a layout; those that come as bytes are normalised on their device."""
    images, labels = batch
    if images.dtype == torch.uint8:
        images = pictures.normalised(images)
    return functional.cross_entropy(model(images.contiguous(memory_format=layout)), labels)


def options() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = common.parser(__doc__, batch_size=512, steps=20)
    parser.add_argument("--model", choices=tuple(MODELS), default="cnn", help="the network (%(default)s)")
    parser.add_argument("--workers", type=common.natural, default=1, metavar="N", help="loader processes (%(default)s)")
    parser.add_argument("--images", type=common.positive, default=4096, metavar="N", help="to draw (%(default)s)")
    parser.add_argument("--normalize", choices=("cpu", "gpu"), default="cpu", help="where (%(default)s)")
    parser.add_argument("--packed", action="store_true", help="read all images from one file")
    parser.add_argument("--channels-last", action="store_true", help="the layout that tensor cores work in")
    parser.add_argument("--tf32", action="store_true", help="let float32 products use TF32")
    parser.add_argument(
        "--data", type=Path, default=Path("data", "pictures"), metavar="DIR", help="where they lie (%(default)s)"
    )
    return parser


def samples(chosen: argparse.Namespace) -> Dataset[training.Batch]:
    """Return the pictures for these options; draw them if they do not exist."""
    normalize = chosen.normalize == "cpu"
    if chosen.packed:
        return Packed(pictures.packed(chosen.data, chosen.images, SIDE), normalize=normalize)
    return Files(pictures.separate(chosen.data, chosen.images, SIDE), normalize=normalize)


def main(arguments: list[str] | None = None) -> None:
    """Train, and print loss, step and wait for data."""
    chosen = options().parse_args(arguments)
    common.plant(chosen.seed)
    if not chosen.tf32:
        networks.full_precision()
    device = common.device_named(chosen.device)
    layout = torch.channels_last if chosen.channels_last else torch.contiguous_format
    model = MODELS[chosen.model](pictures.CLASSES, SIDE).to(device).to(memory_format=layout)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    task = training.Task(model, partial(loss_of, layout=layout), optimizer, device, chosen.amp)
    print(f"{chosen.model}: {chosen.images} images, {device.type}, {chosen.workers} loader processes")
    print(training.train(task, training.loader(samples(chosen), chosen, device)))


if __name__ == "__main__":
    main()
