"""Classify images of 28 x 28 by two convolutions and a linear layer: in a hand-written kernel, or in cuDNN.

    python workloads/convolution.py --batch-size 1000                  the hand-written kernel, compiled when it starts
    python workloads/convolution.py --batch-size 1000 --engine cudnn   PyTorch's own
    python workloads/convolution.py --batch-size 1000 --device cpu     on the CPU; `own` is then products of patches

It prints the CPU time of the program, as `time` does, and the time for the images.
"""

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import common
import digits
import networks
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

# The name of the hand-written kernel does not show whether it uses tensor cores, so no rule on them is expected.
EXPECTS = {
    "--batch-size 10000": ("copies/exposed",),
    "--batch-size 1000": ("synchronization/in_step", "copies/exposed"),
    "--batch-size 100": ("synchronization/in_step or idle/cpu or launches/launch_bound", "copies/exposed or idle/cpu"),
    "--engine cudnn --batch-size 10000": ("tensor_cores/not_used", "copies/exposed"),
    "--engine cudnn --batch-size 1000": ("tensor_cores/not_used", "copies/exposed"),
    "--engine cudnn --batch-size 100": ("launches/launch_bound", "tensor_cores/not_used"),
}

FILTER = 5
# Channels before and after each convolution.
LAYERS = ((1, 32), (32, 64))
THREADS = 256

# One thread computes one value; filters come from global memory, through the cache.
SOURCE = r"""
extern "C" __global__ void convolve(const float* images, const float* filters, float* out,
                                    int count, int channels, int kernels, int side) {
    const int kept = side - 4;
    const int each = blockIdx.x * blockDim.x + threadIdx.x;
    if (each >= count * kernels * kept * kept) return;
    const int x = each % kept, y = each / kept % kept;
    const int kernel = each / (kept * kept) % kernels, image = each / (kept * kept * kernels);
    float sum = 0.0f;
    for (int channel = 0; channel < channels; ++channel)
        for (int row = 0; row < 5; ++row)
            for (int column = 0; column < 5; ++column)
                sum += images[((image * channels + channel) * side + y + row) * side + x + column]
                     * filters[((kernel * channels + channel) * 5 + row) * 5 + column];
    out[each] = sum;
}
"""

Convolve = Callable[[Tensor, Tensor], Tensor]


def by_hand() -> Convolve:
    """Return the convolution by our kernel, compiled now.

    Raises:
        SystemExit: This PyTorch cannot compile kernels.
    """
    compile_kernel = getattr(torch.cuda, "_compile_kernel", None)
    if compile_kernel is None:
        raise SystemExit("convolution.py: --engine own needs a PyTorch that compiles kernels (2.9 or newer)")
    kernel = compile_kernel(SOURCE, "convolve")

    def convolve(images: Tensor, filters: Tensor) -> Tensor:
        count, channels, side, _ = images.shape
        kept = side - FILTER + 1
        out = torch.empty(count, len(filters), kept, kept, device=images.device)
        grid = (-(-out.numel() // THREADS), 1, 1)
        kernel(grid, (THREADS, 1, 1), [images.contiguous(), filters, out, count, channels, len(filters), side])
        return out

    return convolve


def by_patches(images: Tensor, filters: Tensor) -> Tensor:
    """Return the convolution [n, kernels, kept, kept] as a product of the filters and all patches."""
    kept = images.shape[2] - FILTER + 1
    product = filters.flatten(1) @ functional.unfold(images, FILTER)
    return product.view(len(images), len(filters), kept, kept)


def engine(name: str, device: torch.device) -> Convolve:
    if name == "cudnn":
        library: Convolve = functional.conv2d
        return library
    return by_hand() if device.type == "cuda" else by_patches


def weights(device: torch.device) -> list[Tensor]:
    """Return the filters of both convolutions, and the matrix of the linear layer."""
    filters = [torch.randn(after, before, FILTER, FILTER) / (FILTER * before**0.5) for before, after in LAYERS]
    last = torch.randn(digits.CLASSES, LAYERS[-1][1] * 4 * 4) / 32
    return [each.to(device) for each in (*filters, last)]


def scores(images: Tensor, given: list[Tensor], convolve: Convolve) -> Tensor:
    """Return scores [n, 10] for images float32 [n, 1, 28, 28]."""
    state = images
    for filters in given[:-1]:
        state = functional.max_pool2d(functional.relu(convolve(state, filters)), 2)
    return state.flatten(1) @ given[-1].T


def options() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = common.parser(__doc__, batch_size=1000, steps=20)
    parser.add_argument("--engine", choices=("own", "cudnn"), default="own", help="what convolves (%(default)s)")
    parser.add_argument(
        "--data", type=Path, default=Path("data", "digits"), metavar="DIR", help="where images lie (%(default)s)"
    )
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Classify all batches, and print the time that it took."""
    chosen = options().parse_args(arguments)
    common.plant(chosen.seed)
    networks.full_precision()
    device = common.device_named(chosen.device)
    gray = digits.load(chosen.data / str(chosen.batch_size), chosen.batch_size, 1).train_images
    images = torch.from_numpy(gray.astype(np.float32) / 255).unsqueeze(1)
    if device.type == "cuda":
        images = images.pin_memory()
    given, convolve = weights(device), engine(chosen.engine, device)
    started_s, before = time.perf_counter(), os.times()
    with torch.inference_mode():
        for number in range(chosen.steps):
            with common.batch(number):
                with common.phase("copy"):
                    batch = images.to(device, non_blocking=True)
                with common.phase("forward"):
                    named = scores(batch, given, convolve).argmax(1)
                with common.phase("read"):
                    total = int(named.sum())
    taken_s, after = time.perf_counter() - started_s, os.times()
    user_s, system_s = after.user - before.user, after.system - before.system
    print(f"{chosen.steps} batches of {len(images)}, {chosen.engine}, {device.type}; sum of the last: {total}")
    print(f"user {user_s:.3f} s, system {system_s:.3f} s, elapsed {taken_s:.3f} s")


if __name__ == "__main__":
    main()
