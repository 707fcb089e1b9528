"""A network's features are copied to pageable memory with .cpu(): the host waits for the copy, then the GPU is idle.

Fixed, they go to two pinned buffers in turn, in a stream of their own, and the host reads those of the step before.
"""

import common
import torch
from torch import Tensor
from torch.nn import functional

from faults import models, training
from faults.training import Run

SHAPE = "convolutions without training; the copies go from the GPU to the host"
EXPECTS = {"": ("copies/pageable",), "--fixed": ()}

CHANNELS, LAYERS, SIDE, IMAGES, STEPS = 128, 24, 56, 128, 30


class Buffers:
    """Two pinned buffers that take turns, and a stream that fills them."""

    def __init__(self, like: Tensor) -> None:
        """Take features with the shape of all later ones."""
        on_gpu = like.device.type == "cuda"
        self.kept = [torch.empty(like.shape, dtype=like.dtype, pin_memory=on_gpu) for _ in range(2)]
        self.stream = torch.cuda.Stream() if on_gpu else None
        self.number = 0

    def keep(self, features: Tensor) -> Tensor:
        """Begin to copy features to the host; return the buffer, which is full when the next step has been launched."""
        buffer = self.kept[self.number % 2]
        self.number += 1
        if self.stream is None:
            return buffer.copy_(features)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            buffer.copy_(features, non_blocking=True)
        features.record_stream(self.stream)
        return buffer


def halved(features: Tensor) -> Tensor:
    """Return features with half as many pixels a side."""
    found: Tensor = functional.avg_pool2d(features, 2)
    return found


@torch.no_grad()  # type: ignore[untyped-decorator]  # torch is not typed here
def extract(run: Run, model: torch.nn.Module, images: Tensor) -> Tensor:
    """Return the features of the last step, in the host's memory."""
    buffers = Buffers(halved(model(images))) if run.fixed else None
    kept = torch.zeros(())
    for _ in training.steps(run):
        with common.phase("forward"):
            features = halved(model(images))
        with common.phase("copy"):
            kept = buffers.keep(features) if buffers else features.cpu()
    if run.device.type == "cuda":
        torch.cuda.synchronize()
    return kept


def main(arguments: list[str] | None = None) -> None:
    """Extract features, and print the mean of the last ones."""
    run = training.started(__doc__, arguments, STEPS)
    model = models.convolutions(run, CHANNELS, LAYERS).eval()
    side = run.size(SIDE, 8)
    images = torch.rand(run.size(IMAGES, 2), 3, side, side, device=run.device, dtype=torch.bfloat16)
    kept = extract(run, model, images.contiguous(memory_format=torch.channels_last))
    print(f"mean {kept.float().mean().item():.4f} of {kept.numel()} features")


if __name__ == "__main__":
    main()
