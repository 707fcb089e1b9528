"""Programs that look at functions and classes of torch: names, signatures, source, identity."""

import sys

import torch
import torch.distributed.checkpoint as dcp
from program import digest, run, train
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter

CLASSES = (
    *(nn.Module, nn.Linear, torch.Tensor, torch.optim.Optimizer, torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW),
    *(torch.amp.GradScaler, DataLoader, _BaseDataLoaderIter, torch.autograd.Function),
)


def use():
    """Train, and read a loader, so that what is replaced at its first use is replaced."""
    model = nn.Linear(4, 2)
    train(model, torch.optim.SGD(model.parameters(), lr=0.1))
    train(model, torch.optim.AdamW(model.parameters()))
    list(DataLoader(TensorDataset(torch.ones(4, 1))))


def program_identities():
    use()
    print(torch.save is torch.serialization.save, torch.load is torch.serialization.load)
    print(torch.Tensor.to is torch._C.TensorBase.to, torch.Tensor.cuda is torch._C.TensorBase.cuda)
    print(nn.Module.__call__ is nn.Module._wrapped_call_impl, nn.Linear.__call__ is nn.Module.__call__)
    print(torch.optim.SGD.zero_grad is torch.optim.Optimizer.zero_grad)
    print(torch.cuda.amp.GradScaler.step is torch.amp.GradScaler.step, dcp.save is dcp.state_dict_saver.save)


def program_attributes_of_classes():
    use()
    for kind in CLASSES:
        print(kind.__name__, len(vars(kind)), digest(*sorted(vars(kind))), len(dir(kind)))
        print(
            {type(value).__name__ for value in vars(kind).values()} - {"NoneType"}
            and sorted({type(value).__name__ for value in vars(kind).values()})
        )


def program_own_hooks_in_instances():
    """The hooks that a program's own objects have are those of the program."""
    model = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters())
    optimizer.register_step_pre_hook(lambda *_: None)
    model.register_forward_hook(lambda *_: None)
    train(model, optimizer)
    for value in (model, optimizer):
        print({name: len(hooks) for name, hooks in sorted(vars(value).items()) if name.endswith("_hooks")})
    print(model.weight._backward_hooks, model.weight._post_accumulate_grad_hooks)


def program_namespaces_of_modules():
    use()
    for name in ("torch", "torch.nn", "torch.optim", "torch.autograd", "torch.utils.data", "torch.serialization", "gc"):
        names = vars(sys.modules[name])
        print(name, len(names), digest(*sorted(names)))
    strangers = {
        f"{name}.{each}"
        for name, module in list(sys.modules.items())
        if name == "torch" or name.startswith("torch.")
        for each, value in list(vars(module).items())
        if "nsyswrap" in str(getattr(value, "__module__", "")) or "nsyswrap" in each
    }
    print(strangers)


if __name__ == "__main__":
    run(globals())
