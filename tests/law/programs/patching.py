"""Programs that replace functions of torch themselves, and restore them."""

import functools
from contextlib import contextmanager

import torch
from program import digest, run, train
from torch import nn


@contextmanager
def counted(owner, name, counts):
    """Count the calls of a function, by a wrapper in its place; restore it afterwards and check that it is there."""
    is_own = name in vars(owner)
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapper(*arguments, **named):
        counts[name] = counts.get(name, 0) + 1
        return original(*arguments, **named)

    setattr(owner, name, wrapper)
    yield
    print(owner.__name__, name, getattr(owner, name) is wrapper, is_own, end=" ")
    if is_own:
        setattr(owner, name, original)
    else:
        delattr(owner, name)
    print(getattr(owner, name) is original, name in vars(owner))


def program_optimizer_steps():
    counts = {}
    model = nn.Linear(4, 2)
    with counted(torch.optim.SGD, "step", counts), counted(torch.optim.Optimizer, "zero_grad", counts):
        print(digest(train(model, torch.optim.SGD(model.parameters(), lr=0.1))))
    print(counts, digest(train(model, torch.optim.SGD(model.parameters(), lr=0.1))))


def program_replaced_classes():
    """A program puts a class of its own in the place of torch's."""

    class Linear(nn.Linear):
        pass

    class SGD(torch.optim.SGD):
        def step(self, closure=None):
            print("own step")
            return super().step(closure)

    original = nn.Linear, torch.optim.SGD
    nn.Linear, torch.optim.SGD = Linear, SGD
    print(type(train(steps=1)[0]).__qualname__)
    nn.Linear, torch.optim.SGD = original
    print(type(train(steps=1)[0]).__qualname__)


if __name__ == "__main__":
    run(globals())
