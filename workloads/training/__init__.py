"""The training that workloads share: a loop over a loader's batches, with its phases as ranges."""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import common
import torch
from faults.training import Pace
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

Batch = list[Tensor]


@dataclass(frozen=True, slots=True)
class Task:
    """What one step works on.

    Attributes:
        loss: Function from the model and a batch on the device to the loss; runs in the forward phase.
        optimizer: Updates the model.
        amp: Whether forward passes run in half precision.
    """

    model: nn.Module
    loss: Callable[[nn.Module, Batch], Tensor]
    optimizer: torch.optim.Optimizer
    device: torch.device
    amp: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of a training: the last loss, and the medians of step and wait for data in ns, warm-up left out."""

    loss: float
    step_ns: float
    wait_ns: float

    def __str__(self) -> str:
        return f"loss {self.loss:.4f}, step {self.step_ns / 1e6:.3f} ms, data {self.wait_ns / 1e6:.3f} ms (medians)"


def loader(samples: Dataset[Batch], chosen: argparse.Namespace, device: torch.device) -> DataLoader[Batch]:
    """Return a loader of --steps batches, drawn at random from samples of any number, by --workers processes."""
    order = torch.Generator().manual_seed(chosen.seed)
    count = chosen.steps * chosen.batch_size
    return DataLoader(
        samples,
        batch_size=chosen.batch_size,
        sampler=RandomSampler(samples, replacement=True, num_samples=count, generator=order),
        num_workers=chosen.workers,
        pin_memory=device.type == "cuda",
        generator=torch.Generator(),
    )


def train(task: Task, batches: DataLoader[Batch]) -> Outcome:
    """Train once on each batch; the host stays at most one step ahead of the GPU."""
    pace, scaler = Pace(task.device), common.scaler(task.device, enabled=task.amp)
    task.model.train()
    loss = torch.zeros(())
    steps_ns: list[int] = []
    waits_ns: list[int] = []
    coming: Iterator[Batch] = iter(batches)
    for number in range(len(batches)):
        with common.batch(number):
            started_ns = time.perf_counter_ns()
            with common.phase("data"):
                batch = next(coming)
            waits_ns.append(time.perf_counter_ns() - started_ns)
            loss = step(task, scaler, batch)
            pace.wait()
            steps_ns.append(time.perf_counter_ns() - started_ns)
    return Outcome(loss.item(), common.settled_median(steps_ns), common.settled_median(waits_ns))


def step(task: Task, scaler: torch.amp.GradScaler, batch: Batch) -> Tensor:
    """Do one step on a batch in the host's memory; return the loss, still on the device."""
    with common.phase("copy"):
        batch = [each.to(task.device, non_blocking=True) for each in batch]
    with common.phase("forward"), common.autocast(task.device, enabled=task.amp):
        loss = task.loss(task.model, batch)
    with common.phase("backward"):
        scaler.scale(loss).backward()
    with common.phase("optimizer"):
        scaler.step(task.optimizer)
        scaler.update()
        task.optimizer.zero_grad(set_to_none=True)
    return loss.detach()
