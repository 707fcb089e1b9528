"""The library's loop loads without processes of its own, and its dataset reads a file for each picture.

DataLoader(num_workers=0), the default. Fixed, the dataset has read all files once, before the first step.
"""

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from faults import disk, lightning_loop, training

SHAPE = "convolutions in the library's loop; its loader has no processes and reads a file for each picture"
LIBRARY = "Lightning"
GPUS = 0
EXPECTS = {"": ("host/file_reads",), "--fixed": ()}

SIDE, BATCH, CHANNELS = 128, 64, 64


class Pictures(Dataset):  # type: ignore[misc]  # torch is not typed here
    """Pictures in files; a file is read each time the loader takes its picture."""

    def __init__(self, paths: list[Path], count: int, *, keep: bool) -> None:
        """Take the files, how many pictures to yield, and whether to read all files now."""
        self.paths, self.count = paths, count
        self.kept = [disk.read(path) for path in paths] if keep else []

    def __len__(self) -> int:
        """Return the number of pictures of an epoch."""
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """Return a picture, float32 [3, side, side], and its target."""
        place = index % len(self.paths)
        content = self.kept[place] if self.kept else disk.read(self.paths[place])
        picture = torch.frombuffer(bytearray(content), dtype=torch.uint8).view(3, SIDE, SIDE)
        return picture.float() / 255, torch.zeros(training.OUTPUTS)


def main(arguments: list[str] | None = None) -> None:
    """Train, and print how many pictures there were."""
    run = training.started(__doc__, arguments)
    channels = run.size(CHANNELS, 8)
    layers = (
        nn.Conv2d(3, channels, 3, stride=4, padding=1),
        nn.ReLU(),
        nn.Conv2d(channels, channels, 3, stride=2, padding=1),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(16 * channels, training.OUTPUTS),
    )
    with disk.written(BATCH, 3 * SIDE * SIDE) as paths:
        pictures = Pictures(paths, BATCH * run.steps, keep=run.fixed)
        module = lightning_loop.Module(run, nn.Sequential(*layers))
        lightning_loop.fit(run, module, DataLoader(pictures, batch_size=BATCH))
    print(f"{BATCH * run.steps} pictures")


if __name__ == "__main__":
    main()
