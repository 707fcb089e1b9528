"""The step gives memory back with torch.cuda.empty_cache(), so the next one asks the driver for it again.

Fixed, the allocator keeps it.
"""

import common
import torch

from faults import training

SHAPE = "linear layers; the end of each step empties the cache"
EXPECTS = {"": ("memory/churn",), "--fixed": ()}

WIDTH, ROWS = 4096, 4096


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    step = training.usual_step(run, WIDTH, ROWS)
    loss = torch.zeros(())
    for _ in training.steps(run):
        loss = step()
        if not run.fixed and run.device.type == "cuda":
            with common.phase("tidy"):
                torch.cuda.empty_cache()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
