"""Programs whose warnings, tracebacks and logs name files and lines, and programs that read their caller."""

import sys
import warnings

import torch
from program import run
from torch import nn
from torch.utils.data import DataLoader, Dataset

X = torch.ones(2, 4)


class Failing(nn.Module):
    def forward(self, x):
        return self.inner(x)

    def inner(self, x):
        raise ValueError(f"cannot use {tuple(x.shape)}")


def frames(skip=1):
    """Return the functions that called, with the last part of the paths of their files, innermost first."""
    found = []
    frame = sys._getframe(skip)
    while frame is not None:
        found.append((frame.f_code.co_filename.rpartition("/")[2], frame.f_code.co_name, frame.f_lineno))
        frame = frame.f_back
    return found


def program_error_in_forward():
    nn.Sequential(nn.Linear(4, 4), Failing())(X)


def program_error_in_optimizer_step():
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(X).sum().backward()
    model.weight.data = torch.ones(3, 3)
    optimizer.step()


def program_warning_of_module_to():
    warnings.simplefilter("always")
    nn.Linear(4, 2).to(torch.complex64)
    nn.Linear(4, 2).to(device="cpu", dtype=torch.complex64)


def program_warnings_of_the_program():
    """Warnings with ``stacklevel`` come from the code that calls a module, an optimizer or a loader."""
    warnings.simplefilter("always")

    class Old(nn.Module):
        def forward(self, x):
            for level in range(1, 6):
                warnings.warn(f"old, level {level}", stacklevel=level)
            return x

    class OldOptimizer(torch.optim.SGD):
        def step(self, closure=None):
            for level in range(1, 5):
                warnings.warn(f"old step, level {level}", stacklevel=level)

    class OldData(Dataset):
        def __len__(self):
            return 1

        def __getitem__(self, index):
            for level in range(1, 8):
                warnings.warn(f"old data, level {level}", stacklevel=level)
            return index

    Old()(X)
    OldOptimizer(nn.Linear(2, 2).parameters(), lr=0.1).step()
    list(DataLoader(OldData()))


def program_frames_in_backward_and_step():
    class Curious(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            print(*frames(), sep="\n")
            return x * 2

        @staticmethod
        def backward(context, gradient):
            print(*frames(), sep="\n")
            return gradient

    class Own(torch.optim.SGD):
        def step(self, closure=None):
            print(*frames(), sep="\n")
            return super().step(closure)

        def zero_grad(self, *arguments, **named):
            print(*frames(), sep="\n")

    model = nn.Linear(4, 2)
    optimizer = Own(model.parameters(), lr=0.1)
    Curious.apply(model(X)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


if __name__ == "__main__":
    run(globals())
