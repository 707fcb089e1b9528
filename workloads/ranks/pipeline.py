"""Train residual blocks in stages, one a rank, with the 1F1B schedule of torch.distributed.pipelining.

Start it with torchrun on two GPUs or more: ``torchrun --nproc-per-node 2 pipeline.py``. A batch goes through the stages
in microbatches; at its begin and its end some stages have nothing to do, which is the bubble of a pipeline. Faults:
with ``few_microbatches`` there are as many as stages; with ``uneven_stages`` the last stage has half of the blocks of
all others added. It has no ranges of its own. On a machine without GPUs it trains a small network with gloo.
"""

import torch
from group import Place, timed_steps, train_as_rank
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn import functional

FAULTS = ("none", "few_microbatches", "uneven_stages")
MICROBATCHES = 16
WIDTH, BLOCKS, ROWS, STEPS = 4096, 8, 32768, 12
SMALL_WIDTH, SMALL_ROWS = 32, 64


class Block(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Two linear layers with a norm and a residual connection."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, rows: Tensor) -> Tensor:
        """Return rows of the same shape."""
        found: Tensor = rows + self.second(functional.gelu(self.first(self.norm(rows))))
        return found


def blocks_of(rank: int, count: int, fault: str) -> int:
    """Return how many blocks a stage has; all stages together have as many with the fault as without."""
    if fault != "uneven_stages" or count == 1:
        return BLOCKS
    moved = BLOCKS // 2
    return BLOCKS + moved * (count - 1) if rank == count - 1 else BLOCKS - moved


def train(place: Place, fault: str, steps: int) -> None:
    """Train as one stage: the first one has the input, the last one the loss."""
    width, rows = (WIDTH, ROWS) if place.on_gpu else (SMALL_WIDTH, SMALL_ROWS)
    kind = torch.bfloat16 if place.on_gpu else torch.float32
    with place.device:
        own = nn.Sequential(*(Block(width) for _ in range(blocks_of(place.rank, place.ranks, fault)))).to(kind)
    stage = PipelineStage(own, place.rank, place.ranks, place.device)
    schedule = Schedule1F1B(
        stage, place.ranks if fault == "few_microbatches" else MICROBATCHES, loss_fn=functional.mse_loss
    )
    optimizer = torch.optim.SGD(own.parameters(), lr=1e-4, foreach=True)
    inputs = torch.randn(rows, width, device=place.device, dtype=kind)
    for _ in timed_steps(place, steps):
        given = (inputs,) if place.rank == 0 else ()
        target = {"target": inputs} if place.is_last else {}
        schedule.step(*given, **target)
        optimizer.step()
        optimizer.zero_grad()


def main(arguments: list[str] | None = None) -> None:
    """Train as the rank that torchrun gave this process."""
    train_as_rank(train, __doc__, FAULTS, STEPS, arguments)


if __name__ == "__main__":
    main()
