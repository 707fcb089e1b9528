"""A library's loop with benchmark=True over recordings whose length changes: each new length times all algorithms.

Fixed, benchmark is False, and the library chooses by its heuristics.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader

from faults import lightning_loop, training

SHAPE = "convolutions over time in the library's loop, on recordings of a new length in each step"
LIBRARY = "Lightning"
EXPECTS = {"": ("compute/autotuning",), "--fixed": ()}

RECORDINGS, CHANNELS, LAYERS, LENGTH, SIZES, APART = 32, 256, 4, 1024, 151, 8


def main(arguments: list[str] | None = None) -> None:
    """Train, and print how many steps were done."""
    run = training.started(__doc__, arguments)
    channels = run.size(CHANNELS, 8)
    layers: list[nn.Module] = []
    for _ in range(run.size(LAYERS, 2)):
        layers += [nn.Conv1d(channels, channels, 5, padding=2), nn.ReLU()]
    network = nn.Sequential(*layers).to(run.device, torch.bfloat16)
    lengths = [run.size(LENGTH) + APART * (7 * number % SIZES) for number in range(run.steps)]
    shapes = [(run.size(RECORDINGS, 2), channels, length) for length in lengths]
    batches = [[torch.rand(shape, device=run.device, dtype=torch.bfloat16)] * 2 for shape in shapes]
    lightning_loop.fit(
        *(run, lightning_loop.Module(run, network), DataLoader(batches, batch_size=None)), benchmark=not run.fixed
    )
    torch.backends.cudnn.benchmark = False
    print(f"{run.steps} steps")


if __name__ == "__main__":
    main()
