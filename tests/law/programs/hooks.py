"""Programs with hooks of their own: which are called, how often, in which order, with what."""

import inspect

import torch
from program import digest, failing, run, train
from torch import nn
from torch.nn.modules import module as modules
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

X = torch.ones(2, 4)


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))


def say(text):
    return lambda *_arguments, **_named: print(text)


def program_module_hooks_in_order():
    model = net()
    for place, each in model.named_modules():
        each.register_forward_pre_hook(say(f"pre {place}"))
        each.register_forward_pre_hook(say(f"pre first {place}"), prepend=True)
        each.register_forward_hook(say(f"post {place}"))
        each.register_full_backward_pre_hook(say(f"backward pre {place}"))
        each.register_full_backward_hook(say(f"backward {place}"))
    model(X).sum().backward()


def program_global_module_hooks():
    handles = [
        modules.register_module_forward_pre_hook(lambda module, _inputs: print("pre", type(module).__name__)),
        modules.register_module_forward_hook(lambda module, _inputs, _output: print("post", type(module).__name__)),
        modules.register_module_full_backward_hook(lambda module, *_: print("backward", type(module).__name__)),
        modules.register_module_full_backward_pre_hook(lambda module, *_: print("backward pre", type(module).__name__)),
    ]
    model = net()
    model.register_forward_pre_hook(say("own pre"))
    model.register_forward_hook(say("own post"))
    model(X).sum().backward()
    for handle in handles:
        handle.remove()
    print("removed")
    model(X).sum().backward()


def program_global_registration_hooks():
    with_names = [
        modules.register_module_parameter_registration_hook(lambda _module, name, _value: print("parameter", name)),
        modules.register_module_module_registration_hook(lambda _module, name, _value: print("module", name)),
        modules.register_module_buffer_registration_hook(lambda _module, name, _value: print("buffer", name)),
    ]
    nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    for handle in with_names:
        handle.remove()


def program_hooks_with_keywords_that_change_values():
    class Scaled(nn.Linear):
        def forward(self, x, scale=1):
            return super().forward(x) * scale

    torch.manual_seed(0)
    model = Scaled(4, 2)
    model.register_forward_pre_hook(lambda _module, inputs, named: (inputs, {**named, "scale": 3}), with_kwargs=True)
    model.register_forward_hook(lambda _module, _inputs, named, output: output + named["scale"], with_kwargs=True)
    model.register_full_backward_hook(
        lambda _module, gradients, _outputs: tuple(g * 2 if g is not None else g for g in gradients)
    )
    x = X.clone().requires_grad_()
    model(x).sum().backward()
    print(digest(model(x, scale=2)), digest(x.grad))


def program_always_called_hooks():
    class Failing(nn.Module):
        def forward(self, _x):
            raise ValueError("no result")

    model = Failing()
    model.register_forward_hook(say("called always"), always_call=True)
    model.register_forward_hook(say("called after success"))
    with failing():
        model(X)
    modules.register_module_forward_hook(say("global, called always"), always_call=True)
    with failing():
        model(X)


def program_removed_while_called():
    model = net()
    handle = model.register_forward_hook(lambda *_: (print("once"), handle.remove())[0])
    model(X)
    model(X)
    print(len(model._forward_hooks))


def program_tensor_hooks():
    x = X.clone().requires_grad_()
    y = x * 2
    x.register_hook(lambda gradient: print("leaf", digest(gradient)))
    y.register_hook(lambda gradient: gradient * 3)
    y.register_hook(lambda gradient: print("second", digest(gradient)))
    x.register_post_accumulate_grad_hook(lambda tensor: print("accumulated", digest(tensor.grad)))
    y.grad_fn.register_hook(say("node"))
    y.grad_fn.register_prehook(say("node pre"))
    y.sum().backward()


def program_multi_gradient_hooks():
    a, b = X.clone().requires_grad_(), X.clone().requires_grad_()
    torch.autograd.graph.register_multi_grad_hook((a, b), lambda gradients: print("all", len(gradients)))
    torch.autograd.graph.register_multi_grad_hook((a, b), lambda gradient: print("any", digest(gradient)), mode="any")
    (a * b).sum().backward()


def program_saved_tensor_hooks():
    packed = []

    def pack(tensor):
        packed.append(tuple(tensor.shape))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        net()(X).sum().backward()
    print(packed)


def program_queued_callbacks():
    """The engine calls a callback at the end of a backward pass, as DDP and FSDP have it."""

    class Queue(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x * 2

        @staticmethod
        def backward(context, gradient):
            torch.autograd.Variable._execution_engine.queue_callback(say("end of the backward pass"))
            print("backward")
            return gradient * 2

    x = X.clone().requires_grad_()
    x.register_hook(say("leaf"))
    Queue.apply(x).sum().backward()
    print(digest(x.grad))


def program_optimizer_hooks():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.register_step_pre_hook(say("own pre"))
    optimizer.register_step_post_hook(say("own post"))
    optimizer.register_state_dict_pre_hook(say("state_dict"))
    optimizer.register_load_state_dict_post_hook(say("load_state_dict"))
    handles = [
        register_optimizer_step_pre_hook(say("global pre")),
        register_optimizer_step_post_hook(say("global post")),
    ]
    train(nn.Linear(4, 2), steps=1)
    train(model := nn.Linear(4, 2), torch.optim.AdamW(model.parameters()), steps=1)
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    for handle in handles:
        handle.remove()
    optimizer.step()


def program_optimizer_hook_changes_arguments():
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.register_step_pre_hook(lambda _optimizer, arguments, _named: (arguments, {"closure": lambda: 7}))
    print(optimizer.step(), optimizer.step(closure=None))


def program_state_dict_hooks():
    model = net()
    model.register_state_dict_pre_hook(say("pre"))
    model.register_state_dict_post_hook(lambda _module, values, _prefix, _metadata: print(sorted(values)))
    model.register_load_state_dict_pre_hook(say("load pre"))
    model.register_load_state_dict_post_hook(lambda _module, keys: print(keys))
    print(model.load_state_dict(model.state_dict()))


def program_scheduler_sees_steps():
    """Schedulers wrap the step of an optimizer object to count its calls."""
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    print("step" in vars(optimizer), getattr(optimizer.step, "_wrapped_by_lr_sched", None), optimizer.step.__name__)
    for _ in range(3):
        optimizer.step()
        scheduler.step()
    print(optimizer._opt_called, scheduler.get_last_lr(), inspect.unwrap(optimizer.step).__qualname__)


def program_functions_that_hide_hooks():
    """Code that calls ``forward`` itself calls no hook."""
    model = net()
    model[0].register_forward_hook(say("inner"))
    model.register_forward_hook(say("outer"))
    model.forward(X)
    model._call_impl(X)
    nn.Module.__call__(model, X)


if __name__ == "__main__":
    run(globals())
