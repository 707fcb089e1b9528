"""Programs that compile with torch.compile."""

import torch
from program import digest, run, train
from torch import nn
from torch._dynamo.utils import counters

X = torch.ones(2, 4)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)

    def forward(self, x):
        return self.first(x).relu()


def seeded(kind=Net):
    torch.manual_seed(0)
    return kind()


def graphs():
    """Print how many graphs and graph breaks the compiler counts, and why."""
    print("frames", dict(counters["frames"]), "stats", dict(counters["stats"]))
    print("breaks", sorted(counters["graph_break"].items()), "unimplemented", sorted(counters["unimplemented"].items()))


def program_own_class_first():
    model = torch.compile(seeded(), backend="eager")
    print(digest(model(X)))
    graphs()


def program_aot_eager_trains():
    model = seeded(lambda: nn.Sequential(Net(), nn.Linear(4, 2)))
    print(digest(train(model, called=torch.compile(model, backend="aot_eager"))))
    graphs()


def program_inductor_trains():
    model = seeded(lambda: nn.Sequential(Net(), nn.Linear(4, 2)))
    print(digest(train(model, called=torch.compile(model))))
    graphs()


def program_training_first_then_compile():
    model = train()
    print(digest(model))
    print(digest(torch.compile(model.eval(), backend="eager", fullgraph=True)(X)))
    graphs()


def program_compiled_step_function():
    """The whole step is compiled: forward, loss, backward is outside, and the optimizer."""
    model = seeded(lambda: nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @torch.compile(backend="aot_eager")
    def loss_of(x):
        return model(x).square().sum()

    @torch.compile(backend="eager")
    def step():
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(3):
        loss_of(X).backward()
        step()
    print(digest(model))
    graphs()


def program_compiled_optimizer_and_module_calls():
    """A module with hooks of the program is compiled, and called in compiled code of a function."""
    model = seeded()
    model.first.register_forward_hook(lambda _module, _inputs, output: output + 1)
    model.register_forward_pre_hook(lambda _module, inputs: (inputs[0] * 2,))
    print(digest(torch.compile(model, backend="eager", fullgraph=True)(X)))
    graphs()


def program_guards():
    """The texts of the guards of a compiled module name what it depends on."""
    model = seeded()
    torch.compile(model, backend="eager")(X)
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list

    for function in (Net.forward, nn.Module._call_impl, nn.Module._wrapped_call_impl):
        entries = _debug_get_cache_entry_list(function.__code__)
        print(function.__qualname__, len(entries))
        for entry in entries:
            print(sorted({type(leaf).__name__ for leaf in entry.guard_manager.root.get_leaf_guards()}))


if __name__ == "__main__":
    run(globals())
