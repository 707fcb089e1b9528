"""Every second step writes the weights, their moving average and the optimizer's state to three files.

Fixed, they are written once, after the last step.
"""

import tempfile
from pathlib import Path

import common
import torch
from torch import nn

from faults import training
from faults.training import Run

SHAPE = "convolutions and a moving average of the weights; every second step writes three files"
GPUS = 0
EXPECTS = {"": ("host/checkpoint",), "--fixed": ()}

CHANNELS, IMAGES, SIDE, HIDDEN, EVERY, DECAY = 64, 512, 32, 512, 2, 0.01


def pictures(run: Run) -> tuple[nn.Module, torch.Tensor]:
    """Return convolutions with a large layer behind them, and random pictures for them."""
    channels, side = run.size(CHANNELS, 8), run.size(SIDE, 16)
    layers = (
        nn.Conv2d(3, channels, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(channels, channels, 3, padding=1, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(channels * side * side // 4, run.size(HIDDEN, 2 * HIDDEN)),
        nn.Linear(run.size(HIDDEN, 2 * HIDDEN), training.OUTPUTS),
    )
    return nn.Sequential(*layers).to(run.device), torch.rand(run.size(IMAGES, 64), 3, side, side, device=run.device)


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    model, images = pictures(run)
    average = {name: value.detach().clone() for name, value in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, fused=run.device.type == "cuda")
    wanted = training.rows(run, len(images), training.OUTPUTS)
    loss = torch.zeros(())
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)

        def save() -> None:
            torch.save(model.state_dict(), folder / "model.pt")
            torch.save(average, folder / "average.pt")
            torch.save(optimizer.state_dict(), folder / "optimizer.pt")

        for number in training.steps(run):
            loss = training.train(model, optimizer, images, wanted)
            with common.phase("optimizer"):
                torch._foreach_lerp_(list(average.values()), [*model.parameters()], DECAY)
            if not run.fixed and number % EVERY == EVERY - 1:
                save()
        save()
        size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"loss {loss.item():.4f}, {size} bytes saved")


if __name__ == "__main__":
    main()
