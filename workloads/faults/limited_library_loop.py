"""The library's loop trains a transformer in a container that gives it half a core.

Fixed, there is no such limit.
"""

from contextlib import nullcontext

import torch
from torch import nn

from faults import control_group, lightning_loop, training

SHAPE = "a transformer encoder in the library's loop; a container with half a core"
LIBRARY = "Lightning"
GPUS = 0
EXPECTS = {"": ("host/cpu_quota",), "--fixed": ()}

WIDTH, LAYERS, ROWS, TOKENS, CORES = 512, 8, 64, 128, 0.5


def main(arguments: list[str] | None = None) -> None:
    """Train, and print how many steps there were."""
    run = training.started(__doc__, arguments)
    width = run.size(WIDTH, 128)
    layer = nn.TransformerEncoderLayer(width, width // 32, 2 * width, dropout=0.0, batch_first=True)
    network = nn.TransformerEncoder(layer, run.size(LAYERS, 2), enable_nested_tensor=False)
    shape = (run.size(ROWS, 16), run.size(TOKENS, 128), width)
    batch = [torch.rand(shape, device=run.device), torch.zeros(shape, device=run.device)]
    with nullcontext() if run.fixed else control_group.limited(CORES):
        lightning_loop.fit(run, lightning_loop.Module(run, network), lightning_loop.repeated(run, batch))
    print(f"{run.steps} steps")


if __name__ == "__main__":
    main()
