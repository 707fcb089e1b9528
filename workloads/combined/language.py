"""A transformer encoder whose batches come from pageable memory, and which reads the norm of each gradient.

Fixed, the batches are in pinned memory, and the norms are read after the last step.
"""

import common
import torch
from faults import models, training
from torch.nn import functional

from combined import switches

SHAPE = "a transformer encoder; one large copy a step and one wait for each parameter"
FAULTS = {"pinned": "copies/pageable", "norms": "synchronization/in_step"}

ROWS, TOKENS, WIDTH, LAYERS, STEPS = 32, 512, 1024, 3, 24


def main(arguments: list[str] | None = None) -> None:
    run, fixed = switches.started(__doc__, arguments, FAULTS, STEPS)
    model = models.encoder(run, WIDTH, LAYERS)
    optimizer = training.sgd(model, run)
    norms = switches.Norms(model, later="norms" in fixed)
    shape = run.size(ROWS, 2), run.size(TOKENS, 8), run.size(WIDTH)
    made = switches.kept_batches(run, shape, pinned="pinned" in fixed)
    batches, loss = switches.in_stream(run, made), torch.zeros(())
    for _ in training.steps(run):
        batch = next(batches)
        with common.phase("forward"):
            values = batch.to(torch.bfloat16)
            loss = functional.mse_loss(model(values), values)
        with common.phase("backward"):
            loss.backward()
        norms.log()
        with common.phase("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
    print(f"loss {loss.item():.4f} with {', '.join(sorted(fixed)) or 'nothing'} fixed")


if __name__ == "__main__":
    main()
