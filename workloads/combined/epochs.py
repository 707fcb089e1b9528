"""Short epochs that each start their loader processes, and an Adam that goes through the tensors one by one.

Fixed, the processes are kept, and the optimizer is a few kernels.
"""

from typing import TYPE_CHECKING

import common
import torch
from faults import samples, training
from torch import Tensor

from combined import switches

if TYPE_CHECKING:
    from collections.abc import Iterator

SHAPE = "linear layers and norms behind a loader; its processes start with each short epoch"
FAULTS = {"kept": "data/worker_start", "optimizer": "optimizer/many_kernels"}

WIDTH, LAYERS, EPOCH, STEPS = 2048, 20, 6, 36


def main(arguments: list[str] | None = None) -> None:
    run, fixed = switches.started(__doc__, arguments, FAULTS, STEPS)
    batches = samples.loader(samples.Waves(EPOCH * samples.BATCH, 0), run.size(4, 2), run, persistent="kept" in fixed)
    model = switches.normed(run, samples.FEATURES, WIDTH, LAYERS)
    optimizer = switches.adam(model, run, fused="optimizer" in fixed)
    loss = torch.zeros(())
    epoch: Iterator[list[Tensor]] = iter(())
    for number in training.steps(run):
        with common.phase("data"):
            if number % EPOCH == 0:
                epoch = iter(batches)
            inputs, wanted = next(epoch)
        with common.phase("copy"):
            inputs, wanted = (each.to(run.device, non_blocking=True) for each in (inputs, wanted))
        loss = training.train(model, optimizer, inputs, wanted)
    print(f"loss {loss.item():.4f} with {', '.join(sorted(fixed)) or 'nothing'} fixed")


if __name__ == "__main__":
    main()
