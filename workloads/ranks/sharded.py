"""Train residual blocks whose weights are sharded over the ranks, with FullyShardedDataParallel.

Start it with torchrun on two GPUs or more: ``torchrun --nproc-per-node 2 sharded.py``. Each block is gathered while the
one before it computes. Faults: with ``gathers_in_turn``, the blocks of the backward pass are gathered one by one, each
only after the block before it has computed; with ``host_in_forward``, the host of the last rank works inside the
forward pass. It has no ranges of its own. On a machine without GPUs it trains a small network with gloo.
"""

import torch
from group import LATE_S, Place, timed_steps, train_as_rank, work
from torch import Tensor, nn
from torch.distributed.fsdp import BackwardPrefetch, FullyShardedDataParallel, MixedPrecision
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.nn import functional

FAULTS = ("none", "gathers_in_turn", "host_in_forward")
WIDTH, BLOCKS, ROWS, STEPS = 8192, 6, 2048, 16
SMALL_WIDTH, SMALL_BLOCKS, SMALL_ROWS = 32, 3, 8


class Block(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Two linear layers with a norm and a residual connection."""

    def __init__(self, width: int, late_s: float) -> None:
        """Take the number of features, and how long the host works in each forward pass."""
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)
        self.late_s = late_s

    def forward(self, rows: Tensor) -> Tensor:
        """Return rows of the same shape."""
        work(self.late_s)
        found: Tensor = rows + self.second(functional.gelu(self.first(self.norm(rows))))
        return found


def sharded(place: Place, fault: str) -> nn.Module:
    """Return the network, its weights sharded block by block."""
    width, blocks = (WIDTH, BLOCKS) if place.on_gpu else (SMALL_WIDTH, SMALL_BLOCKS)
    late_s = LATE_S if fault == "host_in_forward" and place.is_last else 0.0
    with place.device:
        plain = nn.Sequential(*(Block(width, late_s if at == blocks // 2 else 0.0) for at in range(blocks)))
    return FullyShardedDataParallel(
        plain,
        device_id=place.device,
        auto_wrap_policy=ModuleWrapPolicy({Block}),
        mixed_precision=MixedPrecision(torch.bfloat16, torch.bfloat16) if place.on_gpu else None,
        backward_prefetch=None if fault == "gathers_in_turn" else BackwardPrefetch.BACKWARD_PRE,
        use_orig_params=True,
    )


def train(place: Place, fault: str, steps: int) -> None:
    model = sharded(place, fault)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=True)
    shape = (ROWS, WIDTH) if place.on_gpu else (SMALL_ROWS, SMALL_WIDTH)
    inputs = torch.randn(shape, device=place.device)
    for _ in timed_steps(place, steps):
        functional.mse_loss(model(inputs).float(), inputs).backward()
        optimizer.step()
        optimizer.zero_grad()


def main(arguments: list[str] | None = None) -> None:
    """Train as the rank that torchrun gave this process."""
    train_as_rank(train, __doc__, FAULTS, STEPS, arguments)


if __name__ == "__main__":
    main()
