"""Train a transformer with DistributedDataParallel while one rank is late: its loader, its input, its host or its GPU.

Start it with torchrun on two GPUs or more: ``torchrun --nproc-per-node 2 one_late_rank.py --fault loader``. Without a
fault the ranks are alike. With ``host_on_all`` the host of each rank works, with ``uneven_in_turn`` another rank has
the longer sequences in each step; ``even_in_turn`` shares these out. It has no ranges of its own. On a machine without
GPUs it trains a small network with gloo.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

FAULTS = (
    "none",
    "loader",
    "loading_in_process",
    "uneven_input",
    "host_in_backward",
    "host_in_forward",
    "checkpoints",
    "logging",
    "statistics",
    "host_on_all",
    "uneven_in_turn",
    "even_in_turn",
)
OF_ALL = frozenset({"host_on_all", "uneven_in_turn", "even_in_turn"})
# Rank 0 writes files and logs; the other faults are on the last rank.
OF_RANK_0 = frozenset({"checkpoints", "logging", "statistics"})
VOCABULARY, WIDTH, LAYERS, HEADS, ROWS, LENGTH = 8192, 1024, 4, 16, 24, 512
SMALL_WIDTH, SMALL_ROWS, SMALL_LENGTH = 64, 2, 32
LATE_S = 0.025
CHECKPOINT_STEPS = 4


class Tokens(Dataset[Tensor]):  # type: ignore[misc]  # torch is not typed here
    """Batches of random tokens; each takes some seconds to prepare."""

    def __init__(self, steps: int, rows: int, lengths: tuple[int, ...], seconds: float) -> None:
        """Take the number of batches, their rows and lengths in turn, and how long each takes to prepare."""
        self.steps, self.rows, self.lengths, self.seconds = steps, rows, lengths, seconds

    def __len__(self) -> int:
        """Return the number of batches."""
        return self.steps

    def __getitem__(self, number: int) -> Tensor:
        work(self.seconds)
        shape = (self.rows, self.lengths[number % len(self.lengths)])
        return torch.randint(VOCABULARY, shape, generator=torch.Generator().manual_seed(number))


class Language(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """A language model: embedding, encoder layers and a projection."""

    def __init__(self, width: int, fault: Callable[[], None]) -> None:
        """Take the width, and what the host does in the middle of the forward pass."""
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        heads = max(width // (WIDTH // HEADS), 1)
        layers = (
            nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True) for _ in range(LAYERS)
        )
        self.layers = nn.ModuleList(layers)
        self.out = nn.Linear(width, VOCABULARY)
        self.fault = fault

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the mean loss of predicting each token from itself."""
        hidden = self.embedding(tokens)
        for number, layer in enumerate(self.layers):
            hidden = layer(hidden)
            if number == LAYERS // 2:
                self.fault()
        return functional.cross_entropy(self.out(hidden).flatten(0, 1).float(), tokens.flatten())


def work(seconds: float) -> None:
    """Keep one core busy."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def lengths_of(fault: str, length: int) -> tuple[int, ...]:
    """Return the lengths of the sequences of a rank, step by step in turn."""
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if fault == "uneven_in_turn":
        return tuple(2 * length if step == rank else length for step in range(ranks))
    if fault == "even_in_turn":
        return (length + length // ranks,)
    return (2 * length if fault == "uneven_input" else length,)


def loader(fault: str, steps: int, rows: int, length: int) -> DataLoader[Tensor]:
    """Return the loader of a rank; prefetching processes keep up where the rank has no fault in its loader."""
    seconds = 2 * LATE_S if fault == "loader" else LATE_S if fault == "loading_in_process" else 0.0
    batches = Tokens(steps, rows, lengths_of(fault, length), seconds)
    pinned = torch.cuda.is_available()
    if fault == "loading_in_process":
        return DataLoader(batches, batch_size=None, num_workers=0, pin_memory=pinned)
    return DataLoader(batches, batch_size=None, num_workers=1 if fault == "loader" else 2, pin_memory=pinned)


def after_step(fault: str, step: int, model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> None:
    """Do what a rank does between its steps: write weights and optimizer, or log numbers of each weight."""
    if fault == "checkpoints" and step % CHECKPOINT_STEPS == CHECKPOINT_STEPS - 1:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, folder / "state.pt")
    if fault == "logging":
        lines = [f"{name} {weight.norm().item():.6f}" for name, weight in model.named_parameters()]
        (folder / "log.txt").write_text("\n".join(lines))
    if fault == "statistics":
        lines = [f"{name} {statistics(weight.detach())}" for name, weight in model.named_parameters()]
        (folder / "log.txt").write_text("\n".join(lines))


def statistics(weight: Tensor) -> list[float]:
    """Return norm, mean, spread, extremes and a histogram of a weight, each read as soon as it is computed."""
    numbers = [each(weight).item() for each in (torch.norm, torch.mean, torch.std, torch.amin, torch.amax)]
    histogram: list[float] = torch.histc(weight, 16).tolist()
    return numbers + histogram


def train(fault: str, steps: int, device: torch.device, folder: Path) -> tuple[float, float]:
    """Train as one rank; return the seconds of a step and the last loss."""
    on_gpu = device.type == "cuda"
    late = (lambda: work(LATE_S)) if fault in {"host_in_forward", "host_on_all"} else (lambda: None)
    torch.manual_seed(0)
    plain = Language(WIDTH if on_gpu else SMALL_WIDTH, late).to(device)
    if fault == "host_in_backward":
        plain.layers[LAYERS // 2].register_full_backward_hook(lambda *_: work(LATE_S))
    model = DistributedDataParallel(plain, device_ids=[device] if on_gpu else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=on_gpu)
    rows, length = (ROWS, LENGTH) if on_gpu else (SMALL_ROWS, SMALL_LENGTH)
    began, loss = 0.0, torch.zeros(())
    for step, batch in enumerate(loader(fault, steps, rows, length)):
        if step == steps // 3:
            began = time.perf_counter()
        tokens = batch.to(device, non_blocking=True)
        with torch.autocast(device.type, torch.bfloat16):
            loss = model(tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        after_step(fault, step, plain, optimizer, folder)
    last = loss.item()
    return (time.perf_counter() - began) / (steps - steps // 3), last


def main(arguments: list[str] | None = None) -> None:
    """Train as the rank that torchrun gave this process."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--fault", choices=FAULTS, default="none", help="why one rank is late (%(default)s)")
    options.add_argument("--steps", type=int, default=24, help="steps to do (%(default)s)")
    chosen = options.parse_args(arguments)
    rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    on_gpu = torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", count))
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    mine = chosen.fault in OF_ALL or rank == (0 if chosen.fault in OF_RANK_0 else count - 1)
    distributed.init_process_group("nccl" if on_gpu else "gloo")
    with tempfile.TemporaryDirectory() as folder:
        seconds, loss = train(chosen.fault if mine else "none", chosen.steps, device, Path(folder))
    # One write, so that the lines of ranks do not mix.
    print(f"rank {rank}: {1e3 * seconds:.2f} ms a step, loss {loss:.4f}\n", end="", flush=True)
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
