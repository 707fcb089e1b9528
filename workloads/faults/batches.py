"""Large batches that wait in the host's memory, and two ways to bring them to the GPU."""

from collections.abc import Iterator
from contextlib import nullcontext

import common
import torch
from torch import Tensor

from faults import training
from faults.training import Run

ROWS, WIDTH = 4096, 8192
# Batches in use at once: one is trained on while the other is copied.
KEPT = 2


def prepared(run: Run, *, pinned: bool) -> list[Tensor]:
    """Return batches in the host's memory, float32 [rows, width], pinned or not."""
    shape = run.size(ROWS), run.size(WIDTH)
    made = [torch.rand(shape) for _ in range(KEPT)]
    return [each.pin_memory() for each in made] if pinned and run.device.type == "cuda" else made


def one_by_one(run: Run, batches: list[Tensor]) -> Iterator[Tensor]:
    """Yield each batch on the device, copied on demand in the stream that computes."""
    number = 0
    while True:
        with common.phase("copy"):
            batch = batches[number % KEPT].to(run.device, non_blocking=True)
        yield batch
        number += 1


def ahead(run: Run, batches: list[Tensor]) -> Iterator[Tensor]:
    """Yield each batch on the device, copied in a stream of its own while the one before it trains."""
    beside = torch.cuda.Stream() if run.device.type == "cuda" else None
    own = torch.cuda.stream(beside) if beside else nullcontext()
    number, coming = 0, None
    while True:
        with common.phase("copy"):
            if coming is None:
                with own:
                    coming = batches[0].to(run.device, non_blocking=True)
            if beside:
                torch.cuda.current_stream().wait_stream(beside)
                coming.record_stream(torch.cuda.current_stream())
            batch, number = coming, number + 1
            with own:
                coming = batches[number % KEPT].to(run.device, non_blocking=True)
        yield batch


def train(run: Run, batches: Iterator[Tensor]) -> Tensor:
    """Train on the batches; return the last loss."""
    model = training.network(run, run.size(WIDTH))
    optimizer = training.sgd(model, run)
    wanted = training.rows(run, run.size(ROWS), training.OUTPUTS)
    loss = torch.zeros(())
    for _ in training.steps(run):
        loss = training.train(model, optimizer, next(batches), wanted)
    return loss
