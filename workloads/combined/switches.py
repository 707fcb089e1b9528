"""The command line of a program with several faults, and parts that have a form with a fault and one without."""

import argparse
from collections.abc import Collection, Iterator

import common
import torch
from faults import training
from faults.training import Run
from torch import Tensor, nn, optim


def started(
    description: str | None, arguments: list[str] | None, faults: Collection[str], steps: int
) -> tuple[Run, frozenset[str]]:
    """Read the command line; return the settings of the run, and which faults are fixed.

    Args:
        description: The program's docstring.
        arguments: Its command line; None for that of this process.
        faults: The names of the faults.
        steps: The default of --steps.
    """
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument("--fix", action="append", default=[], choices=sorted(faults))
    chosen, rest = options.parse_known_args(arguments)
    return training.started(description, rest, steps), frozenset(chosen.fix)


def adam(model: nn.Module, run: Run, *, fused: bool) -> torch.optim.Optimizer:
    """Return Adam: a few kernels for all tensors, or a dozen for each of them."""
    kinds = {"fused": True} if fused and run.device.type == "cuda" else {"foreach": False, "fused": False}
    return optim.Adam(model.parameters(), lr=1e-4, **kinds)


def normed(run: Run, inputs: int, width: int, layers: int) -> nn.Sequential:
    """Return linear layers with norms between them: two small tensors for each large one."""
    hidden = run.size(width)
    parts: list[nn.Module] = [nn.Linear(inputs, hidden)]
    for _ in range(run.size(layers, 2)):
        parts += [nn.LayerNorm(hidden), nn.Linear(hidden, hidden), nn.ReLU()]
    return nn.Sequential(*parts, nn.Linear(hidden, training.OUTPUTS)).to(run.device)


class Norms:
    """The norm of each gradient, read at once or kept on the device until the end."""

    def __init__(self, model: nn.Module, *, later: bool) -> None:
        """Take the model, and whether to read them after the last step."""
        self.parameters = list(model.parameters())
        self.later = later
        self.kept: list[Tensor] = []

    def log(self) -> None:
        """Log the norm of each gradient; call it after the backward pass."""
        with common.phase("log"):
            for each in self.parameters:
                if each.grad is not None:
                    self._keep(each.grad.norm())

    def _keep(self, norm: Tensor) -> None:
        if self.later:
            self.kept.append(norm)
        else:
            norm.item()


def in_stream(run: Run, made: list[Tensor]) -> Iterator[Tensor]:
    """Yield batches in turn, copied to the device in the stream that computes."""
    number = 0
    while True:
        with common.phase("copy"):
            batch = made[number % len(made)].to(run.device, non_blocking=True)
        yield batch
        number += 1


def kept_batches(run: Run, shape: tuple[int, ...], *, pinned: bool, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Return two batches in the host's memory, pinned or not."""
    made = [torch.rand(shape).to(dtype) for _ in range(2)]
    return [each.pin_memory() for each in made] if pinned and run.device.type == "cuda" else made
