"""A training program without any reference to nsyswrap, in variants selected by arguments; prints a hash of its losses.

An argument is the modes of one training, separated by commas; several arguments are trainings one after another.

``tests/real_nsys/test_annotate.py`` runs it under the real nsys, with and without phase marking.
"""

import contextlib
import hashlib
import importlib
import sys
from collections.abc import Iterator

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

STEPS = 12
ACCUMULATE = 3


class Samples(Dataset[tuple[torch.Tensor, int]]):  # type: ignore[misc]
    """Random vectors with a label."""

    def __len__(self) -> int:
        return 96

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.randn(8, generator=torch.Generator().manual_seed(index)), index % 3


def batches(loader: DataLoader[object]) -> Iterator[list[torch.Tensor]]:
    """Yield batches, epoch after epoch; the generator is never exhausted."""
    while True:
        yield from loader


def loader_of(modes: set[str]) -> DataLoader[object]:
    workers = 2 if modes & {"workers", "persistent"} else 0
    workers = 1 if "spawned" in modes else workers
    sampler = DistributedSampler(Samples()) if "ddp" in modes else None
    return DataLoader(
        Samples(),
        batch_size=8,
        shuffle=sampler is None,
        sampler=sampler,
        num_workers=workers,
        persistent_workers="persistent" in modes,
        multiprocessing_context="spawn" if "spawned" in modes else None,
    )


def train(modes: set[str], name: str = "losses") -> None:
    """Train, evaluate once, and print the hash."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model: nn.Module = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))
    model = DistributedDataParallel(model) if "ddp" in modes else model
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cpu", enabled="amp" in modes)
    accumulate = ACCUMULATE if "accumulate" in modes else 1
    losses = []
    source = batches(loader_of(modes))
    for number in range(STEPS * accumulate):
        inputs, labels = next(source)
        last = (number + 1) % accumulate == 0
        alone = model.no_sync() if "ddp" in modes and not last else contextlib.nullcontext()
        with alone:
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled="amp" in modes):
                loss = nn.functional.cross_entropy(model(inputs), labels)
            scaler.scale(loss).backward()
        losses.append(loss.item())
        if last:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        losses += [float(model(inputs).sum()) for inputs, _ in loader_of(modes - {"spawned"})]
    line = f"{name} {hashlib.sha256(repr(losses).encode()).hexdigest()} {sorted(modes)}\n"
    print(line, end="")  # noqa: T201 - one call, so that lines of ranks do not mix


def main() -> None:
    """Train in the modes of each argument."""
    for argument in sys.argv[1:]:
        run(set(argument.split(",")))
    # If a rank fails, torchrun kills the others, and nsys loses their last events.
    sys.exit(0 if "ddp" in argument else 5)


def run(modes: set[str]) -> None:
    if "ddp" in modes:
        # Imported first: an optimizer would import it later, and then it would keep the group and its threads alive.
        importlib.import_module("torch._dynamo")
        torch.distributed.init_process_group("gloo")
        train(modes, f"rank {torch.distributed.get_rank()}")
        torch.distributed.destroy_process_group()
    else:
        train(modes)


if __name__ == "__main__":
    main()
