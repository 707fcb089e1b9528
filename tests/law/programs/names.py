"""Programs that look at functions and classes of torch: names, signatures, source, identity."""

import doctest
import inspect
import io
import pydoc
import sys
import typing

import torch
import torch.distributed.checkpoint as dcp
from program import digest, run, train
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter

FUNCTIONS = {
    "nn.Module.__call__": nn.Module.__call__,
    "nn.Module.to": nn.Module.to,
    "nn.Module.cuda": nn.Module.cuda,
    "Tensor.backward": torch.Tensor.backward,
    "Tensor.to": torch.Tensor.to,
    "Tensor.cuda": torch.Tensor.cuda,
    "autograd.backward": torch.autograd.backward,
    "autograd.grad": torch.autograd.grad,
    "Optimizer.__init__": torch.optim.Optimizer.__init__,
    "Optimizer.step": torch.optim.Optimizer.step,
    "Optimizer.zero_grad": torch.optim.Optimizer.zero_grad,
    "SGD.step": torch.optim.SGD.step,
    "AdamW.step": torch.optim.AdamW.step,
    "LBFGS.step": torch.optim.LBFGS.step,
    "GradScaler.step": torch.amp.GradScaler.step,
    "GradScaler.update": torch.amp.GradScaler.update,
    "DataLoader.__iter__": DataLoader.__iter__,
    "_BaseDataLoaderIter.__next__": _BaseDataLoaderIter.__next__,
    "save": torch.save,
    "load": torch.load,
    "checkpoint.save": dcp.save,
    "checkpoint.load": dcp.load,
}
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


def program_qualified_names():
    use()
    for name, function in FUNCTIONS.items():
        print(
            name, getattr(function, "__module__", ""), function.__qualname__, function.__name__, type(function).__name__
        )


def program_signatures():
    for name, function in FUNCTIONS.items():
        try:
            print(name, inspect.signature(function))
        except ValueError as error:
            print(name, error)


def program_sources():
    for name, function in FUNCTIONS.items():
        try:
            print(name, inspect.getsourcefile(function).rpartition("/torch/")[2], digest(inspect.getsource(function)))
        except TypeError as error:
            print(name, type(error).__name__)


def program_code_objects():
    use()
    for name, function in FUNCTIONS.items():
        code = getattr(inspect.unwrap(function), "__code__", None)
        if code is not None:
            print(name, code.co_name, code.co_firstlineno, code.co_names[:5], code.co_argcount, sorted(vars(function)))


def program_documentation():
    for name, function in FUNCTIONS.items():
        print(
            name, digest(pydoc.render_doc(function)), sorted(typing.get_type_hints(function)) if name == "save" else ""
        )
    print(len(doctest.DocTestFinder().find(torch.optim.Optimizer, "Optimizer")))


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


def program_attributes_of_instances():
    model = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters())
    train(model, optimizer)
    loader = DataLoader(TensorDataset(torch.ones(4, 1)))
    batches = iter(loader)
    next(batches)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    scaler = torch.amp.GradScaler("cpu")
    for value in (model, optimizer, loader, batches, scheduler, scaler):
        print(type(value).__name__, sorted(vars(value)))
    print(sorted(vars(model.weight)), sorted(vars(torch.ones(1))))


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


def program_subclasses():
    use()
    for kind in (nn.Module, torch.optim.Optimizer, _BaseDataLoaderIter, torch.autograd.Function, torch.Tensor):
        print(
            kind.__name__, digest(*sorted(f"{each.__module__}.{each.__qualname__}" for each in kind.__subclasses__()))
        )


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


def program_overridable_functions():
    from torch.overrides import get_overridable_functions, is_tensor_method_or_property, resolve_name

    found = get_overridable_functions()
    print({str(getattr(where, "__name__", "")): len(functions) for where, functions in found.items()})
    print(resolve_name(torch.Tensor.to), resolve_name(torch.Tensor.backward), resolve_name(torch.Tensor.cuda))
    print(is_tensor_method_or_property(torch.Tensor.to), torch.Tensor.to in torch.overrides.get_testing_overrides())


def program_representations():
    print(nn.Module.__call__.__class__, str(torch.save).split(" at ")[0], str(nn.Linear(2, 2)), nn.Module.to.__class__)
    print(str(torch.Tensor.to), str(torch.optim.SGD.step).split(" at ")[0])
    help_text = io.StringIO()
    pydoc.Helper(output=help_text)(torch.optim.Optimizer.zero_grad)
    print(digest(help_text.getvalue()))


if __name__ == "__main__":
    run(globals())
