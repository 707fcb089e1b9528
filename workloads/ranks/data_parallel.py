"""Train residual blocks data-parallel, on all ranks written in a way that communicates more or later than it must.

Start it with torchrun on two GPUs or more: ``torchrun --nproc-per-node 2 data_parallel.py --fault each_microbatch``.
With ``none`` each step sums the gradients of four microbatches, and ranks communicate in the last. Faults of it: with
``each_microbatch`` they communicate in each, with ``one_bucket`` all gradients are one bucket. With ``deep`` many small
blocks are trained, without microbatches. Faults of it: with ``unused_parameters`` DistributedDataParallel looks for
unused parameters, with ``small_buckets`` each parameter is a bucket, with ``buffers`` each forward pass broadcasts the
buffers, and ``one_process`` is ``nn.DataParallel``, started with one process. ``several`` has four of them at once,
with two microbatches of the small blocks; before that, it prints how long a step takes without each of the four. It has
no ranges of its own. On a machine without GPUs it trains a small network with gloo.
"""

import contextlib
from collections.abc import Collection, Iterable
from typing import NamedTuple

import torch
from group import Place, timed_steps, train_as_rank
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DataParallel, DistributedDataParallel


class Shape(NamedTuple):
    """What is trained: features, blocks, rows of a microbatch on each GPU, and microbatches of a step."""

    width: int
    blocks: int
    rows: int
    microbatches: int


WIDE, DEEP, SMALL = Shape(2048, 24, 2048, 4), Shape(256, 96, 4096, 1), Shape(16, 3, 8, 4)
OF_WIDE, OF_DEEP = ("none", "each_microbatch", "one_bucket"), ("deep", "unused_parameters", "small_buckets", "buffers")
ONE_PROCESS, SEVERAL = "one_process", "several"
AT_ONCE = frozenset({"each_microbatch", "unused_parameters", "small_buckets", "buffers"})
FAULTS, STEPS, STEPS_WITHOUT = (*OF_WIDE, *OF_DEEP, ONE_PROCESS, SEVERAL), 24, 15
# In MiB: larger than all gradients, and smaller than any.
WHOLE_MB, LEAST_MB = 10_000, 0.01


class Block(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Two linear layers with a norm over the batch, which has buffers, and a residual connection."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, rows: Tensor) -> Tensor:
        """Return rows of the same shape."""
        found: Tensor = rows + self.second(functional.gelu(self.first(self.norm(rows))))
        return found


def parallel(plain: nn.Module, place: Place, faults: Collection[str]) -> nn.Module:
    """Return the network on all GPUs, as the faults have it."""
    if ONE_PROCESS in faults:
        return DataParallel(plain) if place.on_gpu else plain
    bucket = WHOLE_MB if "one_bucket" in faults else LEAST_MB if "small_buckets" in faults else None
    return DistributedDataParallel(
        plain,
        device_ids=[place.device] if place.on_gpu else None,
        broadcast_buffers="buffers" in faults,
        find_unused_parameters="unused_parameters" in faults,
        bucket_cap_mb=bucket,
    )


def train(place: Place, fault: str, steps: int) -> None:
    if fault != SEVERAL:
        shape = WIDE if fault in OF_WIDE else DEEP
        train_with(place, {fault}, shape if place.on_gpu else SMALL, timed_steps(place, steps))
        return
    shape = DEEP._replace(microbatches=2) if place.on_gpu else SMALL
    for each in ("", *sorted(AT_ONCE)):
        train_with(place, AT_ONCE - {each}, shape, timed_steps(place, STEPS_WITHOUT, f" without {each or 'a change'}"))
    train_with(place, AT_ONCE, shape, timed_steps(place, steps))


def train_with(place: Place, faults: Collection[str], shape: Shape, steps: Iterable[int]) -> None:
    with place.device:
        plain = nn.Sequential(*(Block(shape.width) for _ in range(shape.blocks)))
    model = parallel(plain, place, faults)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=True)
    gpus = torch.cuda.device_count() if place.on_gpu and ONE_PROCESS in faults else 1
    inputs = torch.randn(shape.rows * gpus, shape.width, device=place.device)
    for _ in steps:
        for number in range(shape.microbatches):
            is_last = number == shape.microbatches - 1
            alone = isinstance(model, DistributedDataParallel) and not is_last and "each_microbatch" not in faults
            with model.no_sync() if alone else contextlib.nullcontext():
                with torch.autocast(place.device.type, torch.bfloat16, enabled=shape == WIDE):
                    found = model(inputs)
                functional.mse_loss(found.float(), inputs).backward()
        optimizer.step()
        optimizer.zero_grad()


def main(arguments: list[str] | None = None) -> None:
    """Train as the rank that torchrun gave this process."""
    train_as_rank(train, __doc__, FAULTS, STEPS, arguments)


if __name__ == "__main__":
    main()
