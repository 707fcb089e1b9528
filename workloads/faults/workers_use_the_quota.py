"""Processes beside the training compute on the CPU time of the same container, and so use up its quota of one core.

They stand for workers that evaluate or prepare something all the time. Fixed, there is no quota.
"""

import subprocess
import sys
from contextlib import nullcontext

import torch
from torch import nn

from faults import control_group, training

SHAPE = "a recurrent network; processes beside it use up the CPU time of their container"
GPUS = 0
EXPECTS = {"": ("host/cpu_quota",), "--fixed": ()}

FEATURES, HIDDEN, ROWS, LENGTH, CORES, OTHERS = 256, 1024, 256, 32, 1.0, 1
BUSY = "while True: pass"


class Recurrent(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Recurrent layers, and a linear one over their last state."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.layers = nn.GRU(FEATURES, hidden, 2, batch_first=True)
        self.last = nn.Linear(hidden, training.OUTPUTS)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return outputs [rows, outputs] of sequences [rows, length, features]."""
        found: torch.Tensor = self.last(self.layers(inputs)[0][:, -1])
        return found


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    model = Recurrent(run.size(HIDDEN, 128)).to(run.device)
    optimizer = training.sgd(model, run)
    rows = run.size(ROWS, 64)
    inputs = torch.rand(rows, LENGTH, FEATURES, device=run.device)
    wanted = training.rows(run, rows, training.OUTPUTS)
    loss = training.train(model, optimizer, inputs, wanted)
    with nullcontext() if run.fixed else control_group.limited(CORES):
        others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(OTHERS)]  # noqa: S603 - the text above
        try:
            for _ in training.steps(run):
                loss = training.train(model, optimizer, inputs, wanted)
        finally:
            for other in others:
                other.kill()
                other.wait()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
