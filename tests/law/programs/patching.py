"""Programs that replace functions of torch themselves, and restore them."""

import functools
import gc
from contextlib import contextmanager
from unittest import mock

import torch
from program import digest, run, train
from torch import nn

X = torch.ones(2, 4)


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


def program_optimizer_step_after_use():
    model, counts = nn.Linear(4, 2), {}
    optimizer = torch.optim.AdamW(model.parameters())
    train(model, optimizer)
    with counted(torch.optim.AdamW, "step", counts), counted(torch.optim.Optimizer, "__init__", counts):
        train(model, optimizer)
        train(model, torch.optim.AdamW(model.parameters()))
    print(counts, digest(train(model, optimizer)))


def program_save_load_and_collect():
    counts = {}
    with counted(torch, "save", counts), counted(torch, "load", counts), counted(gc, "collect", counts):
        torch.save({"a": X}, "a.pt")
        print(digest(torch.load("a.pt")))
        gc.collect()
    print(counts)


def program_patched_before_the_first_use_and_left():
    """Wrappers that stay, over those of a second tool, as experiment trackers leave them."""
    calls = []

    def over(name, inner):
        return lambda *arguments, **named: (calls.append(name), inner(*arguments, **named))[1]

    nn.Module.__call__ = over("first", nn.Module.__call__)
    nn.Module.__call__ = over("second", nn.Module.__call__)
    torch.optim.SGD.step = over("step", torch.optim.SGD.step)
    print(digest(train(nn.Linear(4, 2), steps=1)), calls)


def program_mock():
    with mock.patch.object(nn.Module, "__call__", return_value=5), mock.patch("torch.save") as save:
        print(nn.Linear(4, 2)(X))
        torch.save(1, "a.pt")
    print(save.mock_calls, digest(train()))
    with mock.patch.object(torch.optim.SGD, "step", autospec=True) as step:
        train(steps=2)
    print(step.call_count, digest(train()))


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
