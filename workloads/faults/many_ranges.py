"""Thousands of NVTX ranges in a step: under a profiler the host records them, and the GPU waits.

Fixed, only the phases have ranges.
"""

import common
import torch

from faults import training

SHAPE = "linear layers; ranges around plain Python in each step"
EXPECTS = {"": ("capture/overhead",), "--fixed": ()}

WIDTH, ROWS = 4096, 3072
PIECES, STEPS = 7000, 10


def look(values: list[float], *, named: bool) -> float:
    """Return a sum, with or without a range around each summand."""
    total = 0.0
    for value in values:
        if named:
            torch.cuda.nvtx.range_push("piece")
        total += value
        if named:
            torch.cuda.nvtx.range_pop()
    return total


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments, STEPS)
    step = training.usual_step(run, WIDTH, ROWS)
    values = [0.5] * run.size(PIECES)
    loss, total = torch.zeros(()), 0.0
    named = run.device.type == "cuda" and not run.fixed
    for _ in training.steps(run):
        loss = step()
        with common.phase("look"):
            total += look(values, named=named)
    print(f"loss {loss.item():.4f}, sum {total}")


if __name__ == "__main__":
    main()
