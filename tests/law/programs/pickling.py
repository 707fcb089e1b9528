"""Programs that pickle or copy modules, optimizers and functions of torch."""

import copy
import copyreg
import functools
import io
import pickle
import pickletools

import torch
from program import digest, run, train
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


def program_classes_of_torch():
    for kind in (nn.Linear, torch.optim.AdamW, torch.utils.data.DataLoader, torch.amp.GradScaler, torch.Tensor):
        print(references(kind) is kind)


def program_modules_and_optimizers():
    model = train()
    print(digest(references(model)))
    optimizer = torch.optim.AdamW(model.parameters())
    train(model, optimizer)
    restored = references(optimizer)
    print(digest(restored.state_dict()), sorted(vars(restored)))
    references(torch.optim.lr_scheduler.StepLR(optimizer, 2).state_dict())
    references(nn.CrossEntropyLoss(label_smoothing=0.1))


def program_deepcopies():
    model = train()
    optimizer = torch.optim.Adam(model.parameters())
    train(model, optimizer)
    again, other = copy.deepcopy((model, optimizer))
    train(again, other)
    train(model, optimizer)
    print(digest(model), digest(again), digest(other.state_dict()))
    scheduler = copy.deepcopy(torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10))
    print(sorted(vars(scheduler)), scheduler.last_epoch)


def program_scheduler_copied_after_steps():
    optimizer = torch.optim.SGD(train().parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    for _ in range(3):
        optimizer.step()
        scheduler.step()
    again = copy.deepcopy(scheduler)
    again.step()
    print(scheduler.get_last_lr(), again.get_last_lr(), again.optimizer is optimizer)
    print(sorted(vars(again.optimizer)))


def program_saved_and_loaded():
    file = io.BytesIO()
    model = train()
    torch.save({"model": model.state_dict(), "epoch": 3}, file)
    print(len(file.getvalue()))
    file.seek(0)
    print(digest(torch.load(file)["model"]))
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    print(digest(torch.load(file, weights_only=False)))


def program_load_of_unsafe_pickle():
    file = io.BytesIO()
    torch.save({"call": print}, file)
    file.seek(0)
    try:
        torch.load(file)
    except pickle.UnpicklingError as error:
        print(str(error).splitlines()[0])


def program_copyreg():
    class Reduced(pickle.Pickler):
        dispatch_table = copyreg.dispatch_table.copy()

    Reduced.dispatch_table[nn.ReLU] = lambda _module: (nn.Sigmoid, ())
    file = io.BytesIO()
    Reduced(file).dump(nn.Sequential(nn.ReLU()))
    print(pickle.loads(file.getvalue()))
    print(sorted(str(kind) for kind in copyreg.dispatch_table))


if __name__ == "__main__":
    run(globals())
