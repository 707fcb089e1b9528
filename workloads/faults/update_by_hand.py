"""An update written by hand goes through the parameters one by one: momentum, clipping, and a moving average of each.

Some eight tiny kernels for each tensor. Fixed, torch._foreach_ functions do the same for all tensors at once.
"""

import common
import torch
from torch import Tensor, nn

from faults import models, training

SHAPE = "convolutions; the update is the program's own, with a moving average of the weights"
EXPECTS = {"": ("optimizer/many_kernels",), "--fixed": ()}

CHANNELS, LAYERS, SIDE, IMAGES, STEPS = 128, 48, 28, 256, 16
RATE, MOMENTUM, SLOW, MOST = 1e-3, 0.9, 0.01, 1.0


class Update:
    """Gradient descent with momentum and clipped gradients, and a moving average of the parameters."""

    def __init__(self, model: nn.Module) -> None:
        """Take the network; its parameters as they are begin the average."""
        self.parameters = list(model.parameters())
        self.momenta = [torch.zeros_like(each) for each in self.parameters]
        self.slow = [each.detach().clone() for each in self.parameters]

    @torch.no_grad()  # type: ignore[untyped-decorator]  # torch is not typed here
    def one_by_one(self, gradients: list[Tensor]) -> None:
        for parameter, gradient, momentum, slow in zip(
            self.parameters, gradients, self.momenta, self.slow, strict=True
        ):
            norm = torch.linalg.vector_norm(gradient)
            gradient.mul_((MOST / (norm + 1e-6)).clamp_(max=1.0))
            momentum.mul_(MOMENTUM).add_(gradient)
            parameter.add_(momentum, alpha=-RATE)
            slow.lerp_(parameter, SLOW)

    @torch.no_grad()  # type: ignore[untyped-decorator]  # torch is not typed here
    def together(self, gradients: list[Tensor]) -> None:
        """Update all tensors in a few kernels."""
        factors = torch._foreach_norm(gradients)  # noqa: SLF001 - its name
        torch._foreach_add_(factors, 1e-6)
        torch._foreach_reciprocal_(factors)
        torch._foreach_clamp_max_(factors, MOST)
        torch._foreach_mul_(gradients, factors)
        torch._foreach_mul_(self.momenta, MOMENTUM)
        torch._foreach_add_(self.momenta, gradients)
        torch._foreach_add_(self.parameters, self.momenta, alpha=-RATE)
        torch._foreach_lerp_(self.slow, self.parameters, SLOW)


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments, STEPS)
    model = models.convolutions(run, CHANNELS, LAYERS)
    update = Update(model)
    side = run.size(SIDE, 8)
    images = torch.rand(run.size(IMAGES, 2), 3, side, side, device=run.device, dtype=torch.bfloat16)
    images = images.contiguous(memory_format=torch.channels_last)
    loss = torch.zeros(())
    for _ in training.steps(run):
        with common.phase("forward"):
            loss = model(images).square().mean()
        with common.phase("backward"):
            loss.backward()
        with common.phase("optimizer"):
            gradients = [each.grad for each in update.parameters]
            (update.together if run.fixed else update.one_by_one)(gradients)
            model.zero_grad()
    print(f"loss {loss.item():.4f}, {len(update.parameters)} tensors")


if __name__ == "__main__":
    main()
