"""Programs that trace, export, script or transform modules."""

import torch
from program import digest, run
from torch import nn

X = torch.ones(2, 4)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 2)

    def forward(self, x):
        return self.second(self.first(x).relu())


def program_fx_symbolic_trace():
    traced = torch.fx.symbolic_trace(Net())
    print(traced.code)
    print(digest(traced(X)))


def program_jit_script_and_freeze():
    scripted = torch.jit.script(Net().eval())
    print(scripted.code)
    frozen = torch.jit.freeze(scripted)
    print(frozen.code)
    print(digest(scripted(X)), digest(frozen(X)))


def program_torch_function_mode():
    """A mode sees the functions of torch that a training calls, in order."""
    from torch.overrides import TorchFunctionMode

    class Names(TorchFunctionMode):
        def __torch_function__(self, function, kinds, arguments=(), named=None):
            names.append(getattr(function, "__name__", str(function)))
            return function(*arguments, **(named or {}))

    names = []
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Names():
        model(X).sum().backward()
        optimizer.step()
        X.to("cpu")
    print(names)


def program_dispatch_mode():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, operator, kinds, arguments=(), named=None):
            names.append(str(operator))
            return operator(*arguments, **(named or {}))

    names = []
    with Operators():
        Net()(X).sum().backward()
    print(names)


if __name__ == "__main__":
    run(globals())
