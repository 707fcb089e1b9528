"""A recurrent network over long sequences from pageable memory, which empties the allocator's cache after each step.

Fixed, the sequences are in pinned memory, and the allocator keeps its memory.
"""

import common
import torch
from faults import training
from torch import nn
from torch.nn import functional

from combined import switches

SHAPE = "a recurrent network over long sequences; one large copy a step, and an allocator that keeps nothing"
FAULTS = {"pinned": "copies/pageable", "cache": "memory/churn"}

ROWS, INSTANTS, FEATURES, HIDDEN, LAYERS, STEPS = 64, 200, 2048, 1024, 2, 24


def main(arguments: list[str] | None = None) -> None:
    run, fixed = switches.started(__doc__, arguments, FAULTS, STEPS)
    features, hidden = run.size(FEATURES), run.size(HIDDEN)
    network = nn.GRU(features, hidden, num_layers=LAYERS, batch_first=True).to(run.device)
    head = nn.Linear(hidden, training.OUTPUTS).to(run.device)
    optimizer = switches.adam(nn.ModuleList([network, head]), run, fused=True)
    shape = run.size(ROWS, 2), run.size(INSTANTS, 8), features
    batches = switches.in_stream(run, switches.kept_batches(run, shape, pinned="pinned" in fixed))
    wanted, loss = training.rows(run, shape[0], training.OUTPUTS), torch.zeros(())
    for _ in training.steps(run):
        batch = next(batches)
        with common.phase("forward"):
            loss = functional.mse_loss(head(network(batch)[0][:, -1]), wanted)
        training.descend(loss, optimizer)
        if "cache" not in fixed and run.device.type == "cuda":
            with common.phase("tidy"):
                torch.cuda.empty_cache()
    print(f"loss {loss.item():.4f} with {', '.join(sorted(fixed)) or 'nothing'} fixed")


if __name__ == "__main__":
    main()
