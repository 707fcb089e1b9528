"""Programs that train: bits of parameters, states of generators, keys of states."""

import random
import warnings

import torch
from program import digest, failing, run, train
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

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


def program_lbfgs():
    model = linear()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4, line_search_fn="strong_wolfe")
    calls = []

    def closure():
        calls.append(1)
        optimizer.zero_grad()
        loss = (model(X) - 1).square().sum()
        loss.backward()
        return loss

    for _ in range(3):
        print(float(optimizer.step(closure)))
    print(len(calls), digest(model))


def program_closure_of_sgd():
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = model(X).square().sum()
        loss.backward()
        return loss

    print(float(optimizer.step(closure)), float(optimizer.step(closure=closure)), digest(model))


def program_sparse_adam():
    torch.manual_seed(0)
    model = nn.EmbeddingBag(10, 4, sparse=True, mode="sum")
    optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.tensor([[1, 2, step]])).square().sum().backward()
        print(model.weight.grad.layout, model.weight.grad._nnz())
        optimizer.step()
    print(digest(model))


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


def program_autocast():
    model = net()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = model(X)
        print(y.dtype, torch.is_autocast_enabled("cpu"), model[0](X).dtype, nn.functional.softmax(y, 1).dtype)
    y.float().sum().backward()
    print(digest(y), digest(*(each.grad for each in model.parameters())))


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


def program_schedulers():
    schedulers = torch.optim.lr_scheduler
    for make in (
        lambda optimizer: schedulers.StepLR(optimizer, 2),
        lambda optimizer: schedulers.CosineAnnealingWarmRestarts(optimizer, 3),
        lambda optimizer: schedulers.OneCycleLR(optimizer, 1.0, total_steps=8),
        lambda optimizer: schedulers.CyclicLR(optimizer, 0.1, 1.0),
        lambda optimizer: schedulers.SequentialLR(
            optimizer, [schedulers.ConstantLR(optimizer), schedulers.ExponentialLR(optimizer, 0.5)], [2]
        ),
        lambda optimizer: schedulers.LambdaLR(optimizer, lambda epoch: 1 / (epoch + 1)),
    ):
        optimizer = torch.optim.SGD(linear().parameters(), lr=0.5, momentum=0.9)
        scheduler = make(optimizer)
        found = []
        for _ in range(5):
            optimizer.step()
            scheduler.step()
            found.append(round(optimizer.param_groups[0]["lr"], 6))
        print(type(scheduler).__name__, found, sorted(scheduler.state_dict()))


def program_plateau_and_averages():
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    average = torch.optim.swa_utils.AveragedModel(model)
    for loss in (3.0, 3.0, 3.0):
        train(model, optimizer, steps=1)
        average.update_parameters(model)
        plateau.step(loss)
    torch.optim.swa_utils.update_bn([X], average)
    print(optimizer.param_groups[0]["lr"], digest(average), int(average.n_averaged))


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


def program_add_param_group_and_states():
    model = net()
    optimizer = torch.optim.Adam(model[0].parameters())
    train(model, optimizer)
    optimizer.add_param_group({"params": model[2].parameters(), "lr": 0.5})
    train(model, optimizer)
    state = optimizer.state_dict()
    print([len(group["params"]) for group in state["param_groups"]], digest(state["state"]))
    again = torch.optim.Adam([{"params": model[0].parameters()}, {"params": model[2].parameters()}])
    again.load_state_dict(state)
    print(digest(train(model, again)), repr(again).splitlines()[:4])


def program_checkpointing():
    for reentrant in (False, True):
        model = net(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 2))
        calls = []
        model[0].register_forward_hook(lambda *_: calls.append(torch.is_grad_enabled()))
        x = X.clone().requires_grad_()
        y = checkpoint(model, x, use_reentrant=reentrant)
        y.sum().backward()
        print(reentrant, calls, digest(x.grad), digest(*(each.grad for each in model.parameters())))
    x = X.clone().requires_grad_()
    checkpoint_sequential(net(), 2, x, use_reentrant=False).sum().backward()
    print(digest(x.grad))


def program_nested_checkpoints_and_early_stop():
    model = net()
    x = X.clone().requires_grad_()

    def inner(x):
        return checkpoint(model[0], x, use_reentrant=False).relu()

    with torch.utils.checkpoint.set_checkpoint_early_stop(False):
        model[2](checkpoint(inner, x, use_reentrant=False)).sum().backward()
    print(digest(x.grad))
    with failing():
        checkpoint(lambda x: 1 / 0, x, use_reentrant=False)


def program_double_backward():
    model = net(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    x = X.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    gradient.square().sum().backward()
    print(digest(x.grad), digest(*(each.grad for each in model.parameters() if each.grad is not None)))
    print(digest(torch.autograd.functional.hessian(lambda x: model(x).sum(), X)))


def program_arguments_of_backward():
    a, b = X.clone().requires_grad_(), X.clone().requires_grad_()
    y = a * b
    y.backward(torch.ones_like(y), retain_graph=True, inputs=[a])
    print(digest(a.grad), b.grad)
    torch.autograd.backward([y, y.sum()], [torch.ones_like(y), None], retain_graph=True)
    torch.autograd.backward(y.sum(), create_graph=False)
    print(digest(a.grad), digest(b.grad))
    with failing():
        y.sum().backward()
    with failing():
        y.backward()


def program_own_functions():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x**3, x**2

        @staticmethod
        def setup_context(context, inputs, output):
            context.save_for_backward(inputs[0], output[1])
            context.mark_non_differentiable(output[1])

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(context, gradient, _other):
            x, square = context.saved_tensors
            return 3 * square * gradient

    x = X.double().requires_grad_()
    Cube.apply(x)[0].sum().backward()
    print(digest(x.grad), torch.autograd.gradcheck(lambda x: Cube.apply(x)[0], x), Cube.apply(x)[0].grad_fn.name())


def program_backward_inside_backward():
    """A function trains inside the backward pass of another."""

    class Training(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x.clone()

        @staticmethod
        def backward(context, gradient):
            with torch.enable_grad():
                print(digest(train(linear())))
            return gradient

    x = X.clone().requires_grad_()
    Training.apply(x).sum().backward()
    print(digest(x.grad))


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


def program_anomaly_detection():
    x = X.clone().requires_grad_()
    with torch.autograd.detect_anomaly(check_nan=True), failing(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (x * 0 / 0).sqrt().sum().backward()


def program_modules_that_change_in_place():
    model = net(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.BatchNorm1d(4), nn.Hardswish(inplace=True), nn.Linear(4, 2))
    print(digest(train(model)), digest(model.eval()(X)), sorted(model.state_dict()))
    with failing():
        y = X.clone().requires_grad_()
        y += 1


def program_complex_and_sparse():
    model = linear().to(torch.float64)
    z = torch.complex(X.double(), X.double() * 2).requires_grad_()
    (z.abs().square().sum() + model(z.real).sum()).backward()
    print(digest(z.grad), z.grad.dtype)
    sparse = torch.eye(4).to_sparse().requires_grad_()
    torch.sparse.mm(sparse, X.T).sum().backward()
    print(digest(sparse.grad.to_dense()), sparse.to(torch.float64).dtype, X.to_sparse_csr().to("cpu").layout)


def program_quantized():
    warnings.simplefilter("ignore")
    model = net().eval()
    quantized = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    print(quantized, digest(quantized(X)), sorted(quantized.state_dict()))


def program_pruned_and_parametrized():
    from torch.nn.utils import parametrizations, parametrize, prune

    model = linear()
    prune.l1_unstructured(model, "weight", 0.5)
    print(sorted(dict(model.named_buffers())), len(model._forward_pre_hooks), digest(train(model)))
    prune.remove(model, "weight")
    print(digest(model), sorted(model.state_dict()))
    torch.manual_seed(0)
    for wrap in (parametrizations.spectral_norm, parametrizations.weight_norm, parametrizations.orthogonal):
        model = wrap(nn.Linear(4, 2))
        print(wrap.__name__, type(model).__name__, digest(train(model)), sorted(model.state_dict()))
        print(type(model).__mro__[1].__name__, parametrize.is_parametrized(model))
        parametrize.remove_parametrizations(model, "weight")
        print(type(model).__name__)


def program_recurrent_and_attention():
    torch.manual_seed(0)
    lstm = nn.LSTM(4, 3, num_layers=2, dropout=0.1, batch_first=True)
    lstm(X[None])[0].sum().backward()
    print(digest(*(each.grad for each in lstm.parameters())), len(lstm._flat_weights))
    layer = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 2, enable_nested_tensor=False)
    train(layer, called=lambda x: layer(x[None]))
    print(digest(layer), digest(layer.eval()(X[None])), digest(nn.MultiheadAttention(4, 2).eval()(X, X, X)[0]))


def program_moved_modules():
    model = net()
    print(
        model.to(torch.float64)[0].weight.dtype,
        model.to("cpu") is model,
        model.cpu() is model,
        model.half()[0].weight.dtype,
    )
    print(model.float().to(X)[0].weight.dtype, model.to(memory_format=torch.channels_last) is model)
    print(model.to("meta")[0].weight.device, model.to_empty(device="cpu")[0].weight.device)
    print(X.to(torch.float16).dtype, X.to("cpu", torch.float64).dtype, X.to(X.double()).dtype, X.to("cpu") is X)
    print(X.to(device="cpu", copy=True) is X, X.to("meta").device, nn.Module.to(linear(), device="meta").weight.device)
    with torch.device("meta"):
        print(nn.Linear(2, 2).weight.device)
    with failing():
        X.cuda()
    with failing():
        X.to("cuda")
    with failing():
        linear().cuda()


def program_inference_and_evaluation():
    model = net(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 2))
    with torch.inference_mode():
        y = model(X)
    print(y.is_inference(), digest(y))
    with torch.no_grad():
        print(model(X).requires_grad, digest(model.eval()(X)))
    with failing():
        y.sum().backward()
    with failing():
        (y * torch.ones(1, requires_grad=True)).sum().backward()


def program_saved_and_continued():
    model = linear()
    optimizer = torch.optim.AdamW(model.parameters())
    train(model, optimizer)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state()}, "c.pt")
    found = torch.load("c.pt")
    other = nn.Linear(4, 2)
    other.load_state_dict(found["model"])
    again = torch.optim.AdamW(other.parameters())
    again.load_state_dict(found["optimizer"])
    print(digest(train(other, again)) == digest(train(model, optimizer)), digest(other), digest(found["rng"]))
    mapped = torch.load("c.pt", mmap=True, map_location=lambda storage, _place: storage)
    print(digest(mapped["model"]), sorted(mapped["optimizer"]["state"][0]))


def program_dataclass_and_other_modules():
    import dataclasses

    @dataclasses.dataclass(eq=False)
    class Config(nn.Module):
        size: int = 4

        def __post_init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.inner = nn.Linear(self.size, 2)

        def forward(self, x):
            return self.inner(x)

    class Callable(nn.Module):
        def __call__(self, x):
            print("own call")
            return super().__call__(x)

        def forward(self, x):
            return x

    class Slotted(nn.Module):
        __slots__ = ("other",)

        def forward(self, x=None, *, scale=2):
            return scale

    print(Config()(X).shape, Config(), Callable()(X).shape, Slotted()(scale=3), Slotted()())
    print(nn.ModuleList([nn.ReLU()])[0](X).shape, nn.ModuleDict({"a": nn.ReLU()})["a"](X).shape)
    with failing():
        nn.ModuleList([nn.ReLU()])(X)
    with failing():
        nn.Module()(X)


def program_deterministic_and_defaults():
    torch.use_deterministic_algorithms(True)
    torch.set_default_dtype(torch.float64)
    print(digest(train()), torch.get_default_dtype())
    torch.set_default_device("meta")
    print(nn.Linear(2, 2).weight.device, torch.get_default_device())


if __name__ == "__main__":
    run(globals())
