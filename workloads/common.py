"""What every workload has: phases as NVTX ranges, a device, a seed, precision, and the options for them.

A workload is a separate program that shows one lesson. It does not depend on nsyswrap: any profiler can record its
ranges. It starts with a docstring that says what it shows, and with EXPECTS, which says what a profile of it on a GPU
must find: options -> rules of the findings, the most costly first. A plain tuple stands for {"": ...}.
"""

import argparse
import random
from collections.abc import Iterable
from contextlib import AbstractContextManager

import numpy as np
import nvtx
import torch

# The first steps load libraries, choose algorithms and fill the allocator's pool; they are not typical of later steps.
WARM_UP_STEPS = 5

# A colour for each phase, as 0xRRGGBB, so that a step looks alike in every capture.
COLOURS = {"data": 0xD62728, "copy": 0xFF7F0E, "forward": 0x2CA02C, "backward": 0x1F77B4, "optimizer": 0x9467BD}
GRAY = 0x7F7F7F


def batch(number: int) -> AbstractContextManager[object]:
    """Return the range `batch N` around one step of training, the wait for its data included.

    Args:
        number: Steps done before this one, over all epochs.
    """
    return _range(f"batch {number}", GRAY)


def phase(name: str) -> AbstractContextManager[object]:
    """Return the range of one phase of a step: data, copy, forward, backward or optimizer; or of other work."""
    return _range(name, COLOURS.get(name, GRAY))


def _range(name: str, colour: int) -> AbstractContextManager[object]:
    opened: AbstractContextManager[object] = nvtx.annotate(name, color=colour)
    return opened


def parser(description: str | None, *, batch_size: int, steps: int) -> argparse.ArgumentParser:
    """Return a parser with the options that every workload has.

    Args:
        description: The workload's docstring.
        batch_size: The default of --batch-size.
        steps: The default of --steps.
    """
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--steps", type=positive, default=steps, metavar="N", help="stop after N steps (%(default)s)")
    options.add_argument(
        "--batch-size", type=positive, default=batch_size, metavar="N", help="samples a step (%(default)s)"
    )
    options.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: the GPU if there is one"
    )
    options.add_argument("--amp", action="store_true", help="mixed precision: float16 on a GPU, bfloat16 on a CPU")
    options.add_argument(
        "--seed", type=natural, default=0, metavar="N", help="the same seed, the same training (%(default)s)"
    )
    return options


def positive(text: str) -> int:
    """Return a whole number of at least 1, for argparse."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def natural(text: str) -> int:
    """Return a whole number of at least 0, for argparse."""
    if (number := int(text)) < 0:
        raise argparse.ArgumentTypeError(f"{text} is less than 0")
    return number


def device_named(name: str) -> torch.device:
    """Return the device that --device names.

    Raises:
        SystemExit: It is cuda, and PyTorch sees no GPU.
    """
    has_gpu = torch.cuda.is_available()
    if name == "cuda" and not has_gpu:
        raise SystemExit("--device cuda: PyTorch sees no GPU here")
    return torch.device("cuda" if has_gpu and name != "cpu" else "cpu")


def plant(seed: int) -> None:
    """Seed every source of random numbers that a workload may use, on the CPU and on GPUs."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - libraries still draw from numpy's old global source
    torch.manual_seed(seed)


def autocast(device: torch.device, *, enabled: bool) -> torch.autocast:
    """Return the context for forward passes: with --amp in half precision, else in the type of the tensors."""
    dtype = torch.float16 if device.type == "cuda" else torch.bfloat16
    return torch.autocast(device.type, dtype=dtype, enabled=enabled)


def scaler(device: torch.device, *, enabled: bool) -> torch.amp.GradScaler:
    """Return the gradient scaler that float16 needs; elsewhere it does nothing."""
    return torch.amp.GradScaler(device.type, enabled=enabled and device.type == "cuda")


def settled_median(values: Iterable[float]) -> float:
    """Return the median after the first WARM_UP_STEPS values; of all, where there are no more."""
    listed = list(values)
    return float(np.median(listed[WARM_UP_STEPS:] or listed))
