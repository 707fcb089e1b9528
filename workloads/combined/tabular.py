"""Linear layers with norms behind one loader process, which log the norm of each gradient and train with slow Adam.

Fixed, twelve processes prepare the batches, the norms are read after the last step, and the optimizer is a few kernels.
"""

from typing import TYPE_CHECKING

import common
import torch
from faults import samples, training
from torch import Tensor
from torch.nn import functional

from combined import switches

if TYPE_CHECKING:
    from collections.abc import Iterator

SHAPE = "linear layers and norms behind a loader; three faults"
FAULTS = {
    "workers": "idle/data_wait",
    "norms": "synchronization/in_step",
    "optimizer": "optimizer/many_kernels",
}

WIDTH, LAYERS, STEPS = 2048, 20, 24


def main(arguments: list[str] | None = None) -> None:
    run, fixed = switches.started(__doc__, arguments, FAULTS, STEPS)
    workers = run.size(12, 2) if "workers" in fixed else 1
    batches = samples.loader(samples.Waves(run.steps * samples.BATCH, samples.OCTAVES), workers, run)
    model = switches.normed(run, samples.FEATURES, WIDTH, LAYERS)
    optimizer = switches.adam(model, run, fused="optimizer" in fixed)
    norms = switches.Norms(model, later="norms" in fixed)
    loss = torch.zeros(())
    epoch: Iterator[list[Tensor]] | None = None
    for _ in training.steps(run):
        with common.phase("data"):
            epoch = epoch or iter(batches)
            inputs, wanted = next(epoch)
        with common.phase("copy"):
            inputs, wanted = (each.to(run.device, non_blocking=True) for each in (inputs, wanted))
        with common.phase("forward"):
            loss = functional.mse_loss(model(inputs), wanted)
        with common.phase("backward"):
            loss.backward()
        norms.log()
        with common.phase("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
    print(f"loss {loss.item():.4f} with {', '.join(sorted(fixed)) or 'nothing'} fixed")


if __name__ == "__main__":
    main()
