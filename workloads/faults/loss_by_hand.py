"""A classifier over many classes whose cross entropy is written by hand: softmax, logarithm, choice and mean.

Fixed, it is PyTorch's cross entropy.
"""

import common
import torch
from torch import Tensor, nn
from torch.nn import functional

from faults import training

SHAPE = "a classifier over 32,768 classes, with its loss by hand, trained in bfloat16"
EXPECTS = {"": ("compute/loss_by_parts",), "--fixed": ()}

ROWS, WIDTH, CLASSES = 8192, 512, 32768


def cross_entropy(scores: Tensor, wanted: Tensor) -> Tensor:
    """Return the mean surprise of the wanted classes."""
    likely = scores.softmax(-1)
    surprise = -torch.log(likely + 1e-9)
    chosen = functional.one_hot(wanted, scores.shape[-1]).to(scores.dtype)
    return (surprise * chosen).sum(-1).mean()


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    width, classes = run.size(WIDTH), run.size(CLASSES)
    network = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, classes))
    model = network.to(run.device, torch.bfloat16)
    optimizer = training.sgd(model, run)
    inputs = training.rows(run, run.size(ROWS), width).to(torch.bfloat16)
    wanted = torch.randint(classes, (len(inputs),), device=run.device)
    loss = torch.zeros(())
    for _ in training.steps(run):
        with common.phase("forward"):
            loss = (functional.cross_entropy if run.fixed else cross_entropy)(model(inputs), wanted)
        training.descend(loss, optimizer)
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
