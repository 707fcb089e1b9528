"""A small network learns what a large one says, at full precision, and the allocator's cache is emptied in each step.

Fixed, products of matrices use TF32, and the allocator keeps its memory.
"""

import common
import torch
from faults import training
from torch import nn
from torch.nn import functional

from combined import switches

SHAPE = "a network that learns from another one; inputs made on the GPU"
FAULTS = {"tf32": "tensor_cores/not_used", "cache": "memory/churn"}

ROWS, WIDTH, LAYERS, STEPS = 2048, 3072, 4, 24


def network(run: training.Run, width: int, layers: int) -> nn.Sequential:
    """Return linear layers with GELU between them."""
    parts = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.GELU())]
    return nn.Sequential(*parts).to(run.device)


def main(arguments: list[str] | None = None) -> None:
    run, fixed = switches.started(__doc__, arguments, FAULTS, STEPS)
    if "tf32" not in fixed:
        torch.set_float32_matmul_precision("highest")
    width, rows = run.size(WIDTH), run.size(ROWS)
    teacher, pupil = network(run, width, 2 * LAYERS), network(run, width, LAYERS)
    optimizer, loss = switches.adam(pupil, run, fused=True), torch.zeros(())
    for _ in training.steps(run):
        with common.phase("data"):
            inputs = torch.randn(rows, width, device=run.device)
        with common.phase("forward"):
            with torch.no_grad():
                wanted = teacher(inputs)
            loss = functional.mse_loss(pupil(inputs), wanted)
        training.descend(loss, optimizer)
        if "cache" not in fixed and run.device.type == "cuda":
            with common.phase("tidy"):
                torch.cuda.empty_cache()
    print(f"loss {loss.item():.4f} with {', '.join(sorted(fixed)) or 'nothing'} fixed")


if __name__ == "__main__":
    main()
