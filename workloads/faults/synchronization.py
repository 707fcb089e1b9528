"""The step logs its loss and the norm of each gradient: each .item() waits for the GPU, which then has nothing to do.

Fixed, the norms stay on the GPU, and are read once after the last step.
"""

import common
import torch
from torch import Tensor

from faults import training

SHAPE = "linear layers; one wait for each parameter, between backward pass and optimizer"
EXPECTS = {"": ("synchronization/in_step",), "--fixed": ()}

LAYERS, WIDTH, ROWS = 24, 2048, 8192


def main(arguments: list[str] | None = None) -> None:
    """Train, and print how much was logged."""
    run = training.started(__doc__, arguments)
    model = training.network(run, run.size(WIDTH), WIDTH, run.size(LAYERS, 3))
    optimizer = training.sgd(model, run)
    inputs = training.rows(run, run.size(ROWS), run.size(WIDTH))
    wanted = training.rows(run, run.size(ROWS), training.OUTPUTS)
    logged: list[float] = []
    kept: list[Tensor] = []
    for _ in training.steps(run):
        with common.phase("forward"):
            loss = torch.nn.functional.mse_loss(model(inputs), wanted)
        with common.phase("backward"):
            loss.backward()
        with common.phase("log"):
            for each in (loss, *(one.grad for one in model.parameters() if one.grad is not None)):
                norm = each.detach().norm()
                if run.fixed:
                    kept.append(norm)
                else:
                    logged.append(norm.item())
        with common.phase("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
    logged += torch.stack(kept).tolist() if kept else []
    print(f"logged {len(logged)} numbers, the last is {logged[-1]:.4f}")


if __name__ == "__main__":
    main()
