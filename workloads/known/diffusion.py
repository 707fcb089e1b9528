"""A small U-Net learns to remove noise; its moving average is updated tensor by tensor, and each step reads the loss.

Fixed, the average is updated by a few kernels for all tensors, and the loss is read after the last step.
"""

import common
import torch
from faults import training
from torch import Tensor, nn
from torch.nn import functional

CHANNELS, SIDE, ROWS, LEVELS, TIMES, STEPS = 128, 64, 32, 3, 1000, 60
DECAY, GROUPS = 0.999, 8


class Residual(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Two convolutions after norms, with the time added between them."""

    def __init__(self, before: int, after: int, times: int) -> None:
        """Take the channels before and after it, and the features of the time."""
        super().__init__()
        self.norms = nn.ModuleList([nn.GroupNorm(GROUPS, before), nn.GroupNorm(GROUPS, after)])
        self.first, self.second = nn.Conv2d(before, after, 3, padding=1), nn.Conv2d(after, after, 3, padding=1)
        self.time, self.short = nn.Linear(times, after), nn.Conv2d(before, after, 1)

    def forward(self, values: Tensor, time: Tensor) -> Tensor:
        """Return values [rows, after, side, side]."""
        found = self.first(functional.silu(self.norms[0](values))) + self.time(time)[:, :, None, None]
        result: Tensor = self.short(values) + self.second(functional.silu(self.norms[1](found)))
        return result


class Network(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Goes down and up again, and passes what it found on the way down."""

    def __init__(self, channels: int) -> None:
        """Take the channels of the first level; each further one has twice as many."""
        super().__init__()
        widths = [channels * 2**level for level in range(LEVELS)]
        self.time, self.first = nn.Embedding(TIMES, channels), nn.Conv2d(3, channels, 3, padding=1)
        self.down = nn.ModuleList(
            Residual(widths[max(level - 1, 0)], width, channels) for level, width in enumerate(widths)
        )
        self.up = nn.ModuleList(
            Residual(width + widths[min(level + 1, LEVELS - 1)], width, channels)
            for level, width in reversed(list(enumerate(widths)))
        )
        self.last = nn.Conv2d(channels, 3, 3, padding=1)

    def forward(self, noisy: Tensor, times: Tensor) -> Tensor:
        """Return the noise in images [rows, 3, side, side] at times int64 [rows]."""
        time, values, kept = functional.silu(self.time(times)), self.first(noisy), []
        for part in self.down:
            values = part(values, time)
            kept.append(values)
            values = functional.avg_pool2d(values, 2)
        for part in self.up:
            values = functional.interpolate(values, scale_factor=2.0)
            values = part(torch.cat([values, kept.pop()], dim=1), time)
        noise: Tensor = self.last(values)
        return noise


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments, STEPS)
    on_gpu, rows, side = run.device.type == "cuda", run.size(ROWS, 2), run.size(SIDE, 16)
    model = Network(run.size(CHANNELS, GROUPS)).to(run.device)
    weights = list(model.parameters())
    averages = [each.detach().clone() for each in weights]
    optimizer = torch.optim.AdamW(weights, lr=1e-4, fused=on_gpu)
    images, losses = torch.rand(rows, 3, side, side, device=run.device), []
    for _ in training.steps(run):
        times = torch.randint(TIMES, (rows,), device=run.device)
        noise, share = torch.randn_like(images), (times / TIMES)[:, None, None, None]
        with common.phase("forward"), torch.autocast(run.device.type, torch.bfloat16):
            loss = functional.mse_loss(model(images.lerp(noise, share), times), noise)
        with common.phase("backward"):
            loss.backward()
        with common.phase("optimizer"), torch.no_grad():
            optimizer.step()
            optimizer.zero_grad()
            if run.fixed:
                torch._foreach_lerp_(averages, weights, 1 - DECAY)
            else:
                for average, weight in zip(averages, weights, strict=True):
                    average.mul_(DECAY).add_(weight * (1 - DECAY))
        losses.append(loss.detach() if run.fixed else loss.item())
    print(f"mean loss {sum(map(float, losses)) / run.steps:.4f}")


if __name__ == "__main__":
    main()
