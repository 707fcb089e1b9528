"""Programs with hooks of their own: which are called, how often, in which order, with what."""

import inspect

import torch
from program import digest, run, train
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

X = torch.ones(2, 4)


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))


def say(text):
    return lambda *_arguments, **_named: print(text)


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


if __name__ == "__main__":
    run(globals())
