"""Programs that train: bits of parameters, states of generators, keys of states."""

import random

import torch
from program import digest, run, train
from torch import nn

X = torch.linspace(-1, 1, 8).reshape(2, 4)


def net(*layers):
    torch.manual_seed(0)
    return nn.Sequential(*(layers or (nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))))


def linear():
    torch.manual_seed(0)
    return nn.Linear(4, 2)


def program_states_of_generators():
    import numpy

    random.seed(1)
    numpy.random.seed(1)
    model = train()
    print(digest(model), digest(torch.get_rng_state()), torch.initial_seed())
    print(digest(random.getstate()), random.random(), numpy.random.random(), digest(numpy.random.get_state()[1]))


def program_optimizers():
    for kind in (
        *(
            torch.optim.SGD,
            torch.optim.Adam,
            torch.optim.AdamW,
            torch.optim.Adagrad,
            torch.optim.RMSprop,
            torch.optim.Rprop,
        ),
        *(torch.optim.NAdam, torch.optim.RAdam, torch.optim.Adamax, torch.optim.ASGD, torch.optim.Adadelta),
    ):
        model = linear()
        optimizer = kind(model.parameters(), lr=0.05)
        train(model, optimizer)
        print(kind.__name__, digest(model), digest(optimizer.state_dict()), sorted(vars(optimizer)))


def program_fused_and_foreach():
    for named in ({"foreach": True}, {"fused": True}, {"foreach": False}, {"capturable": False, "amsgrad": True}):
        model = linear()
        print(named, digest(train(model, torch.optim.AdamW(model.parameters(), **named))))


def program_grad_scaler():
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    for step in range(4):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(X).float().square().sum() * (float("inf") if step == 2 else 1)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        print(scaler.step(optimizer), scaler.get_scale())
        scaler.update()
    print(digest(model), scaler.state_dict())


def program_accumulation_and_clipping():
    model = net()
    optimizer = torch.optim.Adam(model.parameters())
    for batch in range(6):
        (model(X + batch).square().sum() / 3).backward()
        if batch % 3 == 2:
            print(float(nn.utils.clip_grad_norm_(model.parameters(), 0.5)))
            optimizer.step()
            optimizer.zero_grad(set_to_none=batch == 5)
            print([each.grad is None for each in model.parameters()])
    print(digest(model))


def program_two_optimizers():
    """A generator and a discriminator train in turn."""
    first, second = linear(), linear()
    other = nn.Linear(2, 1)
    one = torch.optim.Adam(first.parameters(), betas=(0.5, 0.9))
    two = torch.optim.SGD([*second.parameters(), *other.parameters()], lr=0.1)
    for _ in range(3):
        two.zero_grad()
        (other(second(X)).sum() - other(first(X).detach()).sum()).backward()
        two.step()
        one.zero_grad()
        other(first(X)).square().sum().backward()
        one.step()
    print(digest(first), digest(second), digest(other))


def program_optimizer_in_backward():
    """Each parameter has an optimizer, which steps in a hook in the backward pass."""
    model = net()
    optimizers = {each: torch.optim.SGD([each], lr=0.1) for each in model.parameters()}

    def step(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for each in model.parameters():
        each.register_post_accumulate_grad_hook(step)
    for _ in range(3):
        model(X).square().sum().backward()
    print(digest(model), [each.grad for each in model.parameters()])


def program_own_optimizer():
    class Own(torch.optim.Optimizer):
        def __init__(self, parameters, rate=0.1):
            super().__init__(parameters, {"rate": rate})

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for each in group["params"]:
                    if each.grad is not None:
                        each -= group["rate"] * each.grad.sign()
            return 5

        def zero_grad(self):
            print("own zero_grad")
            super().zero_grad(set_to_none=False)

    class Child(Own):
        def step(self, closure=None):
            print("child", super().step(closure))

    class Mixed(torch.optim.AdamW):
        def step(self, *arguments, **named):
            self.count = getattr(self, "count", 0) + 1
            return super().step(*arguments, **named)

    for kind in (Own, Child, Mixed):
        model = linear()
        optimizer = kind(model.parameters())
        print(kind.__name__, digest(train(model, optimizer)), getattr(optimizer, "count", None), optimizer.step())
        print(kind.step.__qualname__, kind.zero_grad.__qualname__, "step" in vars(optimizer))


def program_wrapping_optimizer():
    """An object that is no Optimizer has one, and forwards all calls."""

    class Wrapper:
        def __init__(self, inner):
            self.inner = inner

        def __getattr__(self, name):
            print(name)
            return getattr(self.inner, name)

    model = linear()
    print(digest(train(model, Wrapper(torch.optim.SGD(model.parameters(), lr=0.1)), steps=2)))


def program_optimizer_with_replaced_step():
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inner = optimizer.step
    optimizer.step = lambda *arguments: (print("before"), inner(*arguments))[1]
    train(model, optimizer, steps=2)
    print(digest(model), inner.__self__ is optimizer, inner.__func__ is torch.optim.SGD.step)


def program_optimizer_step_inside_forward():
    inner = linear()
    optimizer = torch.optim.SGD(inner.parameters(), lr=0.1)

    class Adapting(nn.Module):
        def forward(self, x):
            with torch.enable_grad():
                optimizer.zero_grad()
                inner(x).square().sum().backward()
                optimizer.step()
            return inner(x)

    model = Adapting()
    with torch.no_grad():
        print(digest(model(X)), digest(model(X)), digest(inner))


if __name__ == "__main__":
    run(globals())
