"""Train residual blocks data-parallel, on all ranks written in a way that communicates more or later than it must.

Start it with torchrun on two GPUs or more: ``torchrun --nproc-per-node 2 data_parallel.py --fault each_microbatch``.
With ``none`` each step sums the gradients of four microbatches, and ranks communicate in the last. Faults of it: with
``each_microbatch`` they communicate in each, with ``one_bucket`` all gradients are one bucket. With ``deep`` many small
blocks are trained, without microbatches. Faults of it: with ``unused_parameters`` DistributedDataParallel looks for
unused parameters, with ``small_buckets`` each parameter is a bucket, with ``buffers`` each forward pass broadcasts the
buffers, and ``one_process`` is ``nn.DataParallel``, started with one process. It has no ranges of its own. On a machine
without GPUs it trains a small network with gloo.
"""

import contextlib
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
ONE_PROCESS = "one_process"
FAULTS, STEPS = (*OF_WIDE, *OF_DEEP, ONE_PROCESS), 24
# In MiB: larger than all gradients, and smaller than any.
WHOLE_MB, LEAST_MB = 10_000, 0.01


class Block(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Two linear layers with a norm over the batch, which has buffers, and a residual connection."""

    def __init__(self, width: int) -> None:
        """Take the number of features."""
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, rows: Tensor) -> Tensor:
        """Return rows of the same shape."""
        found: Tensor = rows + self.second(functional.gelu(self.first(self.norm(rows))))
        return found


def parallel(plain: nn.Module, place: Place, fault: str) -> nn.Module:
    """Return the network on all GPUs, as the fault has it."""
    if fault == ONE_PROCESS:
        return DataParallel(plain) if place.on_gpu else plain
    bucket = WHOLE_MB if fault == "one_bucket" else LEAST_MB if fault == "small_buckets" else None
    return DistributedDataParallel(
        plain,
        device_ids=[place.device] if place.on_gpu else None,
        broadcast_buffers=fault == "buffers",
        find_unused_parameters=fault == "unused_parameters",
        bucket_cap_mb=bucket,
    )


def train(place: Place, fault: str, steps: int) -> None:
    """Train as one rank."""
    shape = (WIDE if fault in OF_WIDE else DEEP) if place.on_gpu else SMALL
    with place.device:
        plain = nn.Sequential(*(Block(shape.width) for _ in range(shape.blocks)))
    model = parallel(plain, place, fault)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=True)
    gpus = torch.cuda.device_count() if place.on_gpu and fault == ONE_PROCESS else 1
    inputs = torch.randn(shape.rows * gpus, shape.width, device=place.device)
    for _ in timed_steps(place, steps):
        for number in range(shape.microbatches):
            is_last = number == shape.microbatches - 1
            alone = isinstance(model, DistributedDataParallel) and not is_last and fault != "each_microbatch"
            with model.no_sync() if alone else contextlib.nullcontext():
                with torch.autocast(place.device.type, torch.bfloat16, enabled=fault in OF_WIDE):
                    found = model(inputs)
                functional.mse_loss(found.float(), inputs).backward()
        optimizer.step()
        optimizer.zero_grad()


def main(arguments: list[str] | None = None) -> None:
    """Train as the rank that torchrun gave this process."""
    train_as_rank(train, __doc__, FAULTS, STEPS, arguments)


if __name__ == "__main__":
    main()
