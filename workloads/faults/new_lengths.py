"""Sequences come in a few lengths, and attention compiles a plan for each new one while the GPU waits.

cuDNN's attention does so for each shape, in each layer's first call of both passes. Fixed, PyTorch's own flash
attention has kernels for all lengths.
"""

import common
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from faults import models, training

SHAPE = "an encoder; every fourth step meets a new length, for which a library compiles attention"
EXPECTS = {"": ("modules/in_window",), "--fixed": ()}

WIDTH, LAYERS, ROWS, STEPS = 1024, 6, 32, 24
# A new length comes after this many steps, and is this much longer than the one before.
SAME, SHORTEST, MORE = 4, 192, 64


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments, STEPS)
    lengths = [run.size(SHORTEST + MORE * (number // SAME), 8 + number // SAME) for number in range(run.steps)]
    width = run.size(WIDTH)
    values = torch.rand(run.size(ROWS, 2), lengths[-1], width, device=run.device, dtype=torch.bfloat16)
    model = models.encoder(run, width, LAYERS)
    optimizer = training.sgd(model, run)
    ways = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    if not run.fixed:
        ways.insert(0, SDPBackend.CUDNN_ATTENTION)
    loss = torch.zeros(())
    with sdpa_kernel(ways, set_priority=True):
        for number in training.steps(run):
            with common.phase("data"):
                inputs = values[:, : lengths[number]].contiguous()
            loss = training.train(model, optimizer, inputs, torch.zeros_like(inputs))
    print(f"loss {loss.item():.4f}, lengths from {lengths[0]} to {lengths[-1]}")


if __name__ == "__main__":
    main()
