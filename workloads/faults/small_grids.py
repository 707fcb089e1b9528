"""A softmax over each row of a matrix, one row at a time: each kernel is one block, and 131 multiprocessors are idle.

Fixed, one kernel takes all rows at once.
"""

import common
import torch

from faults import training

SHAPE = "a softmax without training, row by row"
EXPECTS = {"": ("occupancy/small_grid",), "--fixed": ()}

ROWS, WIDTH = 132, 1 << 20


def main(arguments: list[str] | None = None) -> None:
    """Sum up, and print the sum."""
    run = training.started(__doc__, arguments)
    rows = training.rows(run, run.size(ROWS, 4), run.size(WIDTH))
    shares = torch.empty_like(rows)
    for _ in training.steps(run):
        with common.phase("forward"):
            if run.fixed:
                torch.softmax(rows, 1, out=shares)
            else:
                for row, share in zip(rows, shares, strict=True):
                    torch.softmax(row, 0, out=share)
    print(f"sum {shares.sum().item():.1f}")


if __name__ == "__main__":
    main()
