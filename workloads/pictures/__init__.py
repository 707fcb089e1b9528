"""Drawn pictures in files: one PNG for each, or all of them packed into one array."""

import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pictures import png

Pixels = npt.NDArray[np.uint8]

CLASSES = 10
PACKED = "packed.npy"
# Mean and deviation of gray levels, from 0 to 1, which become 0 and 1.
MEAN, DEVIATION = 0.5, 0.25


def draw(count: int, side: int, seed: int) -> Pixels:
    """Return pictures uint8 [count, side, side, 3]: smooth waves in three colours, and some noise."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[:side, :side].astype(np.float32) * np.float32(2 * np.pi / side)
    drawn = np.empty((count, side, side, 3), np.uint8)
    for number in range(count):
        along, across, turned = random.uniform(0, 4, (3, 3)).astype(np.float32)
        light = np.sin(x[..., None] * along + y[..., None] * across + turned)
        noise = random.integers(0, 32, (side, side, 3), dtype=np.uint8)
        drawn[number] = (light + 1) * np.float32(111) + noise
    return drawn


def label(number: int) -> int:
    """Return the class of a picture."""
    return number % CLASSES


def packed(folder: Path, count: int, side: int, seed: int = 0) -> Path:
    """Return the file with an array uint8 [count, side, side, 3]; draw it first where it is not there."""
    path = folder / f"pictures-{side}-{count}-{seed}" / PACKED
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as temporary:
            unfinished = Path(temporary) / PACKED
            np.save(unfinished, draw(count, side, seed))
            unfinished.replace(path)
    return path


def separate(folder: Path, count: int, side: int, seed: int = 0) -> list[Path]:
    """Return one PNG file for each picture of `packed`; write those that are not there."""
    source = packed(folder, count, side, seed)
    files = [source.parent / f"{number:06}.png" for number in range(count)]
    if not files[-1].exists():
        for path, pixels in zip(files, np.load(source, mmap_mode="r"), strict=True):
            path.write_bytes(png.encode(pixels))
    return files


def as_floats(pixels: Pixels) -> Tensor:
    """Return a normalised float32 [3, side, side] of pixels uint8 [side, side, 3], as usual transforms do it."""
    values = torch.from_numpy(np.ascontiguousarray(pixels)).permute(2, 0, 1).contiguous().to(torch.float32).div_(255)
    return values.sub_(MEAN).div_(DEVIATION)


def normalised(images: Tensor) -> Tensor:
    """Return float32 [n, 3, side, side] of images uint8 [n, side, side, 3], on their own device."""
    return images.permute(0, 3, 1, 2).to(torch.float32).div(255).sub(MEAN).div(DEVIATION)
