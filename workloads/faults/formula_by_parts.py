"""A formula over many numbers, one operator after the other: each writes a tensor that the next one reads again.

Fixed, torch.compile makes one kernel of the formula.
"""

from typing import TYPE_CHECKING

import common
import torch
from torch import Tensor

from faults import compiling, training

if TYPE_CHECKING:
    from collections.abc import Callable

SHAPE = "a formula without a network, in a dozen elementwise operators"
EXPECTS = {"": ("compute/unfused",), "--fixed": ()}

NUMBERS = 1 << 26


def damped(time: Tensor, speed: Tensor) -> Tensor:
    """Return how far a damped oscillation is from rest at each time, for each speed."""
    angle = time * speed
    swing = torch.cos(angle) + torch.sin(angle) * 0.5
    decay = torch.exp(time * -0.25)
    return torch.tanh(swing * decay).square() + 1.0


def main(arguments: list[str] | None = None) -> None:
    """Compute, and print the mean."""
    run = training.started(__doc__, arguments)
    time, speed = torch.rand(2, run.size(NUMBERS), device=run.device)
    with compiling.afresh(), torch.no_grad():
        formula: Callable[[Tensor, Tensor], Tensor] = damped
        if run.fixed and run.device.type == "cuda":
            formula = torch.compile(damped)
        far = formula(time, speed)
        for _ in training.steps(run):
            with common.phase("forward"):
                far = formula(time, speed)
    print(f"mean {far.mean().item():.4f}")


if __name__ == "__main__":
    main()
