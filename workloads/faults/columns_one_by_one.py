"""After a large product, the mean and spread of each column are followed one by one: a thousand tiny kernels.

The host launches them all while the product runs, so the time is lost between the kernels. Fixed, a few kernels take
all columns at once.
"""

import common
import torch
from torch import Tensor

from faults import training
from faults.training import Run

SHAPE = "one large product a step, then a thousand tiny kernels that were launched while it ran"
EXPECTS = {"": ("gpu/between_operations",), "--fixed": ()}

ROWS, WIDTH, COLUMNS, PRODUCTS, STEPS = 8192, 8192, 256, 6, 16


class Followed:
    """The mean and the spread of columns over time."""

    def __init__(self, run: Run) -> None:
        self.columns = run.size(COLUMNS, 4)
        self.mean = torch.zeros(self.columns, device=run.device)
        self.spread = torch.ones(self.columns, device=run.device)

    def one_by_one(self, sample: Tensor) -> None:
        """Follow each column of a sample [rows, columns] in kernels of its own."""
        for number in range(self.columns):
            column = sample[number]
            self.mean[number].lerp_(column.mean(), 0.1)
            self.spread[number].lerp_(column.square().mean(), 0.1)

    def together(self, sample: Tensor) -> None:
        """Follow all columns in a few kernels."""
        self.mean.lerp_(sample.mean(1), 0.1)
        self.spread.lerp_(sample.square().mean(1), 0.1)


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments, STEPS)
    values, weight = (training.rows(run, run.size(size), run.size(WIDTH)) for size in (ROWS, WIDTH))
    weight /= weight.sum(0)
    followed = Followed(run)
    for _ in training.steps(run):
        with common.phase("forward"):
            mixed = values
            for _ in range(PRODUCTS):
                mixed = mixed @ weight
            sample = mixed[:1024, : followed.columns].T.contiguous()
            (followed.together if run.fixed else followed.one_by_one)(sample)
    print(f"spread {followed.spread.mean().item():.4f}")


if __name__ == "__main__":
    main()
