"""A loop of accelerate in mixed precision: each micro-batch has an autocast of its own that casts all weights again.

Fixed, one autocast around all of them keeps what it cast.
"""

from contextlib import nullcontext

import common
import torch
from accelerate import Accelerator
from torch.nn import functional

from faults import training

SHAPE = "linear layers that accelerate prepares for mixed precision, in three micro-batches a step"
LIBRARY = "accelerate"
EXPECTS = {"": ("compute/repeated_casts",), "--fixed": ()}

MICRO_BATCHES, WIDTH, ROWS, LAYERS = 3, 8192, 512, 3


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    width = run.size(WIDTH)
    library = Accelerator(mixed_precision="bf16", cpu=run.device.type == "cpu")
    network = training.network(run, width, WIDTH, LAYERS)
    model, optimizer = library.prepare(network, training.sgd(network, run))
    batches = training.rows(run, MICRO_BATCHES * run.size(ROWS, 2), width).chunk(MICRO_BATCHES)
    wanted = torch.zeros(len(batches[0]), training.OUTPUTS, device=run.device)
    loss = torch.zeros(())
    for _ in training.steps(run):
        with library.autocast() if run.fixed else nullcontext():
            for inputs in batches:
                with common.phase("forward"):
                    loss = functional.mse_loss(model(inputs), wanted)
                with common.phase("backward"):
                    library.backward(loss)
        with common.phase("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
