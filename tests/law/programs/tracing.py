"""Programs that trace, export, script or transform modules."""

import io
import warnings

import torch
from program import digest, failing, run
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


def program_fx_transform():
    traced = torch.fx.symbolic_trace(Net())
    for node in traced.graph.nodes:
        if node.op == "call_method":
            node.target = "sigmoid"
    traced.recompile()
    print(digest(traced(X)))
    print(digest(torch.fx.Interpreter(traced).run(X)))


def program_make_fx():
    from torch.fx.experimental.proxy_tensor import make_fx

    model = Net()
    print(make_fx(lambda x: model(x).sum())(X).code)
    print(make_fx(lambda x: torch.autograd.grad(model(x).sum(), x)[0])(X.clone().requires_grad_()).code)


def program_export():
    exported = torch.export.export(Net().eval(), (X,))
    print(exported.graph)
    print(exported.graph_signature)
    print(digest(exported.module()(X)))


def program_export_dynamic_saved_and_loaded():
    rows = torch.export.Dim("rows", min=2, max=64)
    exported = torch.export.export(Net().eval(), (torch.ones(3, 4),), dynamic_shapes=({0: rows},), strict=True)
    file = io.BytesIO()
    torch.export.save(exported, file)
    file.seek(0)
    print(digest(torch.export.load(file).module()(X)))
    print(exported.range_constraints)


def program_jit_trace():
    traced = torch.jit.trace(Net(), X)
    print(traced.graph)
    print(traced.code)
    print(digest(traced(X)))


def program_jit_script_and_freeze():
    scripted = torch.jit.script(Net().eval())
    print(scripted.code)
    frozen = torch.jit.freeze(scripted)
    print(frozen.code)
    print(digest(scripted(X)), digest(frozen(X)))


def program_jit_saved_and_loaded():
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(Net()), file)
    file.seek(0)
    loaded = torch.jit.load(file)
    print(digest(loaded(X)), sorted(loaded.state_dict()))


def program_jit_trace_with_control_flow():
    class Branch(Net):
        def forward(self, x):
            return self.first(x) if x.sum() > 0 else self.second(x)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        traced = torch.jit.trace(Branch(), X)
    print([(each.category.__name__, each.filename.rpartition("/")[2], each.lineno) for each in caught])
    print(traced.code)


def program_jit_script_of_functions():
    @torch.jit.script
    def loss(x, y):
        return (x - y).square().mean()

    print(loss.code, loss(X, X * 2))
    with failing():
        torch.jit.script(nn.Module.to)


def program_functional_call_and_grad():
    from torch.func import functional_call, grad, jacrev, vmap

    model = Net()
    values = dict(model.named_parameters())

    def loss(values, x):
        return functional_call(model, values, (x,)).sum()

    print(digest(grad(loss)(values, X)))
    print(digest(vmap(grad(loss), (None, 0))(values, X)))
    print(digest(jacrev(lambda x: functional_call(model, values, (x,)))(X)))


def program_stacked_ensemble():
    from torch.func import functional_call, stack_module_state, vmap

    models = [Net() for _ in range(3)]
    values, buffers = stack_module_state(models)
    print(digest(vmap(lambda v, b: functional_call(models[0], (v, b), (X,)))(values, buffers)))


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


def program_tensor_subclass():
    class Counted(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, kinds, arguments=(), named=None):
            names.append(getattr(function, "__name__", str(function)))
            return super().__torch_function__(function, kinds, arguments, named or {})

    names = []
    x = X.clone().as_subclass(Counted)
    print(type(Net()(x)).__name__, type(x.to("cpu", torch.float64)).__name__)
    x.requires_grad_()
    Net()(x).sum().backward()
    print(digest(x.grad))
    print(names)


if __name__ == "__main__":
    run(globals())
