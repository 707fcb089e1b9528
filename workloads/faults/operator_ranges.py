"""The training runs under emit_nvtx: an NVTX range around each operator, with the shapes of its arguments in the text.

The host records these ranges, and the GPU waits for its launches. Fixed, the training runs without them, and nsys still
records the kernels.
"""

from contextlib import nullcontext

import torch
from torch import Tensor, nn

from faults import lightning_loop, training

SHAPE = "a deep residual network of many small operators, in the library's loop; ranges around all operators"
LIBRARY = "Lightning"
EXPECTS = {"": ("capture/overhead",), "--fixed": ()}

WIDTH, ROWS, LAYERS, STEPS = 1536, 14336, 32, 10


class Gated(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """A residual block whose norm and gate are written out in operators of their own."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, rows: Tensor) -> Tensor:
        """Return rows of the same shape."""
        scaled = rows * torch.rsqrt(rows.square().mean(-1, keepdim=True) + 1e-6) * self.scale
        inner = self.inner(scaled)
        found: Tensor = rows + inner * torch.sigmoid(inner)
        return found


def main(arguments: list[str] | None = None) -> None:
    """Train, and print how many steps."""
    run = training.started(__doc__, arguments, STEPS)
    width = run.size(WIDTH)
    network = nn.Sequential(*(Gated(width) for _ in range(run.size(LAYERS, 2)))).to(run.device, torch.bfloat16)
    batch = [torch.rand(run.size(ROWS), width, device=run.device, dtype=torch.bfloat16) for _ in range(2)]
    named = run.device.type == "cuda" and not run.fixed
    ranges = torch.autograd.profiler.emit_nvtx(record_shapes=True) if named else nullcontext()
    with ranges:
        lightning_loop.fit(run, lightning_loop.Module(run, network), lightning_loop.repeated(run, batch))
    print(f"trained {run.steps} steps")


if __name__ == "__main__":
    main()
