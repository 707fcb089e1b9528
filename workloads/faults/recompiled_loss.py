"""A compiled loss over the rows of a batch that count: their number is new in each step, and so is the kernel.

It is compiled with dynamic=False. Fixed, dynamic=True gives one kernel for all numbers, compiled before the first step.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from faults import compiling, lightning_loop, training
from faults.training import Run

if TYPE_CHECKING:
    from collections.abc import Callable

SHAPE = "linear layers in the library's loop; the loss alone is compiled, again in each step"
LIBRARY = "Lightning"
EXPECTS = {"": ("modules/in_window",), "--fixed": ()}

WIDTH, ROWS, STEPS = 4096, 8192, 14
# This many more rows count in each step.
MORE = 16


def focal(given: Tensor, wanted: Tensor) -> Tensor:
    """Return the mean squared error, in which large errors weigh more."""
    error = (given - wanted).abs()
    return (error.square() * torch.tanh(error)).mean()


class Counted(lightning_loop.Module):
    """A network whose loss leaves out the rows that only fill the batch."""

    def __init__(self, run: Run) -> None:
        super().__init__(run, training.network(run, run.size(WIDTH), WIDTH))
        on_gpu = run.device.type == "cuda"
        self.focal: Callable[[Tensor, Tensor], Tensor] = torch.compile(focal, dynamic=run.fixed) if on_gpu else focal
        self.rows = run.size(ROWS) // 2

    def loss(self, given: Tensor, wanted: Tensor) -> Tensor:
        self.rows = min(self.rows + MORE, len(given))
        return self.focal(given[: self.rows], wanted[: self.rows])


def main(arguments: list[str] | None = None) -> None:
    """Train, and print how many rows counted at the end."""
    run = training.started(__doc__, arguments, STEPS)
    rows = run.size(ROWS)
    batch = [training.rows(run, rows, run.size(WIDTH)), training.rows(run, rows, training.OUTPUTS)]
    with compiling.afresh():
        module = Counted(run)
        if run.fixed:
            module.loss(module.network(batch[0]), batch[1]).backward()
        lightning_loop.fit(run, module, lightning_loop.repeated(run, batch))
    print(f"trained {run.steps} steps, {module.rows} rows counted in the last")


if __name__ == "__main__":
    main()
