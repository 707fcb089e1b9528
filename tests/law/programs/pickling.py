"""Programs that pickle or copy modules, optimizers and functions of torch."""

import functools
import pickle
import pickletools

import torch
from program import run
from torch import nn


def references(value):
    """Print what a pickle of a value refers to, with its texts; those of tensors have addresses in them."""
    data = pickle.dumps(value, protocol=2)
    operations = [(code.name, argument) for code, argument, _ in pickletools.genops(data)]
    print(type(value).__name__, sorted({argument for name, argument in operations if name == "GLOBAL"}))
    print([argument for name, argument in operations if name == "BINUNICODE" and len(argument) < 30])
    return pickle.loads(data)


def program_functions_of_torch():
    for function in (torch.save, torch.load, torch.autograd.backward, torch.utils.data.get_worker_info):
        print(references(function) is function)
    references(functools.partial(torch.load, map_location="cpu", weights_only=True))
    references(functools.partial(torch.save, {"a": 1}))


def program_methods_of_torch():
    for method in (nn.Module.__call__, nn.Module.to, torch.optim.SGD.step, torch.optim.Optimizer.zero_grad):
        print(references(method) is method)


if __name__ == "__main__":
    run(globals())
