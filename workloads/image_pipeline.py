"""JPEG files become batches: decoded, cropped, flipped and normalised on the CPU or on the GPU.

    python workloads/image_pipeline.py                  on the CPU, by torchvision
    python workloads/image_pipeline.py --engine gpu     by nvJPEG, through torchvision, and the rest on the GPU
    python workloads/image_pipeline.py --engine dali    by DALI, where it is installed

All need torchvision, which also writes the files, once.
"""

import argparse
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import common
import pictures
import torch
from torch import Tensor

EXPECTS = {"": ("idle/data_work",), "--engine gpu": ("idle/data_work", "copies/pageable")}

SIDE, KEPT = 256, 224


def library(name: str) -> ModuleType:
    """Return an optional library.

    Raises:
        SystemExit: It is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise SystemExit(f"image_pipeline.py: this needs {name}, which is not installed") from error


def write(folder: Path, count: int, seed: int) -> list[Path]:
    """Return JPEG files of drawn pictures; write those that are not there."""
    files = [folder / f"{seed}-{number:05}.jpg" for number in range(count)]
    if not all(path.exists() for path in files):
        folder.mkdir(parents=True, exist_ok=True)
        write_jpeg = library("torchvision.io").write_jpeg
        for path, pixels in zip(files, pictures.draw(count, SIDE, seed), strict=True):
            write_jpeg(torch.from_numpy(pixels).permute(2, 0, 1).contiguous(), str(path), quality=90)
    return files


def decoded(files: list[Path], device: torch.device) -> list[Tensor]:
    """Return images uint8 [3, 256, 256] on a device; on a GPU they are decoded there."""
    io = library("torchvision.io")
    contents = [io.read_file(str(path)) for path in files]
    if device.type == "cuda":
        on_gpu: list[Tensor] = io.decode_jpeg(contents, device=device)
        return on_gpu
    return [io.decode_jpeg(each) for each in contents]


def prepared(images: list[Tensor], random: torch.Generator) -> Tensor:
    """Return float32 [n, 3, 224, 224] from images [3, 256, 256], on their device: cropped, flipped, normalised."""
    batch = torch.empty(len(images), 3, KEPT, KEPT, device=images[0].device)
    for number, image in enumerate(images):
        top, left, flip = (int(each) for each in torch.randint(0, SIDE - KEPT + 1, (3,), generator=random))
        crop = image[:, top : top + KEPT, left : left + KEPT]
        batch[number] = crop.flip(2) if flip % 2 else crop
    return batch.div_(255).sub_(pictures.MEAN).div_(pictures.DEVIATION)


def batches(files: list[Path], chosen: argparse.Namespace, device: torch.device) -> Iterator[Tensor]:
    """Yield --steps batches on the device that decodes them."""
    random = torch.Generator().manual_seed(chosen.seed)
    where = device if chosen.engine == "gpu" else torch.device("cpu")
    for number in range(chosen.steps):
        first = number * chosen.batch_size
        some = [files[each % len(files)] for each in range(first, first + chosen.batch_size)]
        with common.phase("decode"):
            images = decoded(some, where)
        with common.phase("augment"):
            batch = prepared(images, random)
        yield batch  # with no range of its own open: ranges of a thread end in the reverse order


def by_dali(files: list[Path], chosen: argparse.Namespace) -> Iterator[Tensor]:
    """Yield --steps batches on the GPU, prepared by DALI."""
    dali = library("nvidia.dali")
    library("nvidia.dali.fn")
    plugin = library("nvidia.dali.plugin.pytorch")
    fn, types = dali.fn, dali.types
    pipe = dali.Pipeline(chosen.batch_size, 4, 0, chosen.seed)
    scale = 255 * pictures.DEVIATION
    with pipe:
        content, _ = fn.readers.file(files=[str(path) for path in files], random_shuffle=True)
        images = fn.decoders.image_random_crop(content, device="mixed")
        images = fn.resize(images, resize_x=KEPT, resize_y=KEPT)
        flip = fn.random.coin_flip()
        wide = 255 * pictures.MEAN
        pipe.set_outputs(
            fn.crop_mirror_normalize(images, dtype=types.FLOAT, mirror=flip, mean=[wide] * 3, std=[scale] * 3)
        )
    coming = plugin.DALIGenericIterator(pipe, ["images"], auto_reset=True)
    for _ in range(chosen.steps):
        yield next(coming)[0]["images"]


def options() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = common.parser(__doc__, batch_size=32, steps=20)
    parser.add_argument("--engine", choices=("cpu", "gpu", "dali"), default="cpu", help="what prepares (%(default)s)")
    parser.add_argument("--images", type=common.positive, default=256, metavar="N", help="to draw (%(default)s)")
    parser.add_argument(
        "--data", type=Path, default=Path("data", "jpeg"), metavar="DIR", help="where they lie (%(default)s)"
    )
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Prepare all batches, and print the mean output of a small layer for them."""
    chosen = options().parse_args(arguments)
    common.plant(chosen.seed)
    device = common.device_named(chosen.device)
    if chosen.engine != "cpu" and device.type != "cuda":
        raise SystemExit(f"image_pipeline.py: --engine {chosen.engine} needs a GPU")
    files = write(chosen.data, chosen.images, chosen.seed)
    coming = by_dali(files, chosen) if chosen.engine == "dali" else batches(files, chosen, device)
    layer = torch.nn.Conv2d(3, 8, 7, stride=4).to(device)
    means = []
    with torch.inference_mode():
        for number in range(chosen.steps):
            with common.batch(number):
                with common.phase("data"):
                    images = next(coming)
                with common.phase("copy"):
                    images = images.to(device)
                with common.phase("forward"):
                    means.append(layer(images).mean())
    print(f"{chosen.steps} batches of {chosen.batch_size}, {chosen.engine}: {torch.stack(means).mean():.4f}")


if __name__ == "__main__":
    main()
