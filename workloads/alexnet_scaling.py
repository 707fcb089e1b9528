"""AlexNet on one GPU and on several: how much faster several are, and how long they communicate.

    python workloads/alexnet_scaling.py --batch-size 32                          one GPU
    python workloads/alexnet_scaling.py --batch-size 32 --gpus 2                 two, with nn.DataParallel
    torchrun --nproc-per-node 2 workloads/alexnet_scaling.py --mode ddp --batch-size 32 --gpus 2
                                                                                 two, with DistributedDataParallel

The batch size is that of all GPUs together. Images are random numbers in pinned host memory, drawn once, so no loader
limits a step. Without a GPU it trains on the CPU; ranks communicate by gloo.
"""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager

import common
import networks
import torch
import training
from torch import Tensor, distributed, nn
from torch.nn import functional
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

EXPECTS = {"": ("tensor_cores/not_used",)}

SIDE = 224
# Batches that are drawn; steps use them in turn.
KEPT = 4


class Drawn(Dataset[training.Batch]):  # type: ignore[misc]  # torch is not typed here
    """Batches of random images and labels, drawn once; steps use them in turn."""

    def __init__(self, steps: int, images: int, side: int, *, pinned: bool) -> None:
        """Take the number of steps, the images of a batch, their side in pixels, and where the batches lie."""
        self.steps = steps
        self.batches = [
            [torch.rand(images, 3, side, side), torch.randint(networks.CLASSES, (images,))]
            for _ in range(min(steps, KEPT))
        ]
        if pinned:
            self.batches = [[each.pin_memory() for each in batch] for batch in self.batches]

    def __len__(self) -> int:
        """Return the number of batches."""
        return self.steps

    def __getitem__(self, number: int) -> training.Batch:
        """Return images float32 [n, 3, side, side] and their labels int64 [n]."""
        return self.batches[number % len(self.batches)]


def loss_of(model: nn.Module, batch: list[Tensor]) -> Tensor:
    """Return the cross entropy of the model's scores for a batch of images and labels."""
    images, labels = batch
    return functional.cross_entropy(model(images), labels)


def options() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = common.parser(__doc__, batch_size=128, steps=30)
    parser.add_argument("--gpus", type=common.positive, default=1, metavar="N", help="GPUs to train on (%(default)s)")
    parser.add_argument("--mode", choices=("dp", "ddp"), default="dp", help="DataParallel or Distributed (%(default)s)")
    parser.add_argument("--side", type=common.positive, default=SIDE, metavar="N", help="pixels (%(default)s)")
    parser.add_argument("--tf32", action="store_true", help="let float32 products use TF32")
    return parser


def check(chosen: argparse.Namespace) -> None:
    """Check that there are as many GPUs, ranks and images as the options need.

    Raises:
        SystemExit: There are too few GPUs, another number of ranks, or a batch that cannot be divided.
    """
    on_gpu = common.device_named(chosen.device).type == "cuda"
    if on_gpu and torch.cuda.device_count() < chosen.gpus:
        raise SystemExit(f"alexnet_scaling.py: --gpus {chosen.gpus}: PyTorch sees {torch.cuda.device_count()}")
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if chosen.mode == "ddp" and ranks != chosen.gpus:
        raise SystemExit(f"alexnet_scaling.py: --gpus {chosen.gpus}, but {ranks} ranks: start it with torchrun")
    if chosen.batch_size % chosen.gpus:
        raise SystemExit(f"alexnet_scaling.py: {chosen.gpus} GPUs cannot share {chosen.batch_size} images equally")


@contextmanager
def group(device: torch.device, *, wanted: bool) -> Iterator[None]:
    """Keep the group of all ranks; no rank exits while another still communicates with it."""
    if not wanted:
        yield
        return
    os.environ.setdefault("RANK", "0")
    os.environ.setdefault("WORLD_SIZE", "1")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "0")
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield
        distributed.barrier()
    finally:
        distributed.destroy_process_group()


def parallel(model: nn.Module, chosen: argparse.Namespace, device: torch.device) -> nn.Module:
    """Return the model as the mode spreads it over GPUs."""
    on_gpu = device.type == "cuda"
    if chosen.mode == "ddp":
        return DistributedDataParallel(model, device_ids=[device] if on_gpu else None)
    return DataParallel(model, device_ids=list(range(chosen.gpus))) if on_gpu and chosen.gpus > 1 else model


def train(chosen: argparse.Namespace, device: torch.device) -> training.Outcome:
    """Train as the only process, or as one rank."""
    model = networks.alexnet(side=chosen.side).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    task = training.Task(parallel(model, chosen, device), loss_of, optimizer, device, chosen.amp)
    images = chosen.batch_size // (chosen.gpus if chosen.mode == "ddp" else 1)
    drawn = Drawn(chosen.steps, images, chosen.side, pinned=device.type == "cuda")
    return training.train(task, DataLoader(drawn, batch_size=None))


def main(arguments: list[str] | None = None) -> None:
    """Train, and print loss and step."""
    chosen = options().parse_args(arguments)
    check(chosen)
    rank = int(os.environ.get("RANK", "0")) if chosen.mode == "ddp" else 0
    common.plant(chosen.seed + rank)
    if not chosen.tf32:
        networks.full_precision()
    device = common.device_named(chosen.device)
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) if chosen.mode == "ddp" else 0)
        torch.cuda.set_device(device)
    with group(device, wanted=chosen.mode == "ddp"):
        outcome = train(chosen, device)
    # One write, so that the lines of ranks do not mix.
    print(
        f"rank {rank} of {chosen.gpus} GPUs, {chosen.mode}, batch {chosen.batch_size}: {outcome}\n", end="", flush=True
    )


if __name__ == "__main__":
    main()
