"""A recurrent network whose cell is written out in small operators, in Lightning's loop: one instant after another.

The GPU is done with each before the host has launched the next. Fixed, make_graphed_callables launches both passes of
the cells as one CUDA graph each.
"""

import torch
from torch import Tensor, nn

from faults import lightning_loop, training

SHAPE = "a recurrent network in the library's loop; forward and backward pass in small operators"
LIBRARY = "Lightning"
EXPECTS = {"": ("launches/launch_bound",), "--fixed": ()}

WIDTH, ROWS, INSTANTS, STEPS = 512, 256, 48, 14


class Cells(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """A gated recurrent cell that goes through a sequence."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gates, self.fresh = nn.Linear(2 * width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, values: Tensor) -> Tensor:
        """Return the last state [rows, width] of values [rows, instants, width]."""
        state = torch.zeros_like(values[:, 0])
        for value in values.unbind(1):
            update, reset = torch.sigmoid(self.gates(torch.cat([value, state], 1))).chunk(2, 1)
            fresh = torch.tanh(self.fresh(torch.cat([value, reset * state], 1)))
            state = update * state + (1 - update) * fresh
        return state


def main(arguments: list[str] | None = None) -> None:
    """Train, and print how many steps."""
    run = training.started(__doc__, arguments, STEPS)
    width, rows = run.size(WIDTH), run.size(ROWS, 2)
    cells = Cells(width).to(run.device)
    values = torch.rand(rows, run.size(INSTANTS, 4), width, device=run.device)
    if run.fixed and run.device.type == "cuda":
        cells = torch.cuda.make_graphed_callables(cells, (values,))
    batch = [values, torch.zeros(rows, width, device=run.device)]
    lightning_loop.fit(run, lightning_loop.Module(run, cells), lightning_loop.repeated(run, batch))
    print(f"trained {run.steps} steps")


if __name__ == "__main__":
    main()
