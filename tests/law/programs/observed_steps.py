"""Programs that go on for more steps than are recorded when they run armed: step 6 is the X-ray step."""

import cProfile
import gc
import os
import sys
import threading
import weakref

import torch
from program import digest, failing, run
from torch import nn
from torch.utils.checkpoint import checkpoint

STEPS = 9
X = torch.linspace(-1, 1, 24).reshape(6, 4)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(4), nn.Linear(4, 4)

    def forward(self, x):
        return x + torch.nn.functional.dropout(self.linear(self.norm(x)), 0.2) * 0.5


def net():
    torch.manual_seed(0)
    return nn.Sequential(Block(), nn.Sequential(Block(), nn.ReLU()), nn.Linear(4, 2))


def train(inside=lambda _step: None, called=None, model=None, make=torch.optim.AdamW):
    """Train a model, with something done in each step; print what each step computes."""
    model = model or net()
    optimizer = make(model.parameters(), lr=0.01)
    for step in range(STEPS):
        inputs = X + torch.randn(X.shape) * 0.1
        loss = (called or model)(inputs)[:, 0].square().sum() + inputs[0] @ inputs[1]
        inside(step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, float(loss).hex())
    print(digest(model, torch.get_rng_state()), {type(each).__name__ for each in optimizer.state.values()})
    return model


def program_eager():
    train()
    print(sys.getprofile(), sys.gettrace(), torch.autograd.profiler._is_profiler_enabled)


def program_steps_of_two_kinds_in_turns():
    """A discriminator that is trained in each step, and a generator in every second one: so both are observed."""
    generator = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(generator.parameters(), lr=0.1)

    def inside(step):
        if step % 2:
            optimizer.zero_grad()
            generator(X).square().mean().backward()
            optimizer.step()

    train(inside)
    print(digest(generator, torch.get_rng_state()))


def program_checkpoint():
    model = net()
    train(called=lambda x: checkpoint(model, x, use_reentrant=False), model=model)
    train(called=lambda x: checkpoint(model, x.requires_grad_(), use_reentrant=True), model=model)


def program_autocast_and_scaler():
    model, scaler = net(), torch.amp.GradScaler("cpu", init_scale=8.0)

    def called(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return scaler.scale(model(x)).float()

    train(called=called, model=model)


def program_own_function():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            context.save_for_backward(x)
            return x * 2 + x[0]

        @staticmethod
        def backward(context, gradient):
            (x,) = context.saved_tensors
            return gradient * 2 + x.mean()

    model = net()
    train(called=lambda x: Twice.apply(model(Twice.apply(x))), model=model)


def program_hooks():
    model = net()
    said = []
    for name, module in model.named_modules():
        module.register_forward_hook(lambda _m, _a, y, name=name: said.append((name, tuple(y.shape))))
        module.register_full_backward_hook(lambda _m, _i, o, name=name: said.append((name, float(o[0].sum()))))
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda p: said.append(digest(p.grad)))
    train(model=model)
    print(len(said), digest(said))


def program_own_tensor_class():
    seen = []

    class Own(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            seen.append(getattr(function, "__name__", str(function)))
            return super().__torch_function__(function, types, args, kwargs or {})

    model = net()
    train(called=lambda x: model(x.as_subclass(Own)), model=model)
    print(len(seen), digest(seen))


def program_compiled():
    model = net()
    train(called=torch.compile(model, backend="aot_eager"), model=model)


def program_compiled_in_the_step():
    model = net()
    calls = []

    def called(x):
        calls.append(torch.compile(model, backend="aot_eager", dynamic=len(calls) % 2 == 0))
        if len(calls) in {6, 7, 8}:
            return calls[-1](x[: len(calls) - 3]).sum(0, keepdim=True)
        return model(x)

    train(called=called, model=model)
    print(torch._dynamo.utils.counters["stats"]["unique_graphs"])


def program_profiler_in_the_step():
    names = []

    def ready(profiler):
        names.append(sorted({each.key for each in profiler.key_averages() if each.key.startswith("aten::")}))

    schedule = torch.profiler.schedule(wait=5, warmup=1, active=2)
    with torch.profiler.profile(schedule=schedule, on_trace_ready=ready, record_shapes=True) as profiler:
        train(lambda _step: profiler.step())
    print(names, torch.autograd._profiler_enabled())


def program_profiler_of_one_step():
    def inside(step):
        with torch.profiler.profile(with_stack=True) as profiler:
            X.square().sum()
        print(step, [each.key for each in profiler.key_averages() if each.key.startswith("aten::")])

    train(inside)


def program_profiler_around_all():
    with torch.profiler.profile() as profiler:
        train()
    print(sum(each.count for each in profiler.key_averages() if each.key == "aten::mm"))


def program_execution_trace_in_the_step():
    def inside(step):
        print(torch.autograd._profiler_enabled())
        observer = torch.profiler.ExecutionTraceObserver().register_callback(f"trace{step}")
        observer.start()
        X.square()
        observer.stop()
        observer.unregister_callback()
        with open(f"trace{step}") as file:
            print(file.read().count("aten::square"))

    train(inside)


def program_other_tools():
    if not hasattr(sys, "monitoring"):
        return train()

    def inside(step):
        print([sys.monitoring.get_tool(number) for number in (0, 1, 2, 3, 5)])
        sys.monitoring.use_tool_id(3, f"own {step}")
        sys.monitoring.free_tool_id(3)

    return train(inside)


def program_other_profilers():
    counts, calls, forward = {}, [], Block.forward.__code__

    def inside(step):
        profiler = cProfile.Profile()
        profiler.runcall(lambda: [abs(each) for each in (X @ X.T).flatten().tolist()])
        sys.settrace(lambda _frame, event, _what: calls.append(event))
        abs(X + 1)
        next(iter([X]))
        sys.settrace(None)
        counts[step] = sum(each.callcount for each in profiler.getstats()), calls[:]

    sys.setprofile(lambda frame, event, what: frame.f_code is forward and calls.append((event, str(what)[:20])))
    train(inside)
    sys.setprofile(None)
    print(len(calls), digest(calls), digest(counts))


def program_errors_in_the_step():
    def inside(step):
        with failing():
            torch.ones(2, 3) @ torch.ones(2, 3)
        with failing():
            X[9]
        with failing():
            torch.cat([X, step])
        with failing():
            nn.Linear(3, 2)(X)
        with failing():
            next(each / 0 for each in [1])
        with failing():
            [X + each for each in (1, "a")]

    train(inside)


def program_error_out_of_the_step():
    def inside(step):
        if step == 6:
            raise ArithmeticError("the end")

    with failing():
        train(inside)
    train()
    print(torch.autograd._profiler_enabled(), torch.autograd.profiler._is_profiler_enabled)
    with failing():
        train(inside)


def program_lifetimes():
    ends = []

    def inside(step):
        made = torch.ones(3) + step
        weakref.finalize(made, ends.append, f"tensor {step}")
        module = nn.Linear(4, 4)
        weakref.finalize(module, ends.append, f"module {step}")
        module(X)
        call = eval("lambda x: x + 1")
        call(X)
        own = type("Own", (nn.Identity,), {})
        own()(X)
        references = [weakref.ref(each) for each in (module, call.__code__, own)]
        del made, module, call, own
        gc.collect()
        print([each() for each in references], ends)

    train(inside)


def program_frames():
    class Seeing(nn.Module):
        def forward(self, x):
            frame, names = sys._getframe(), []
            while frame.f_code is not train.__code__:
                names.append((frame.f_code.co_name, frame.f_lineno, sorted(frame.f_locals)[:3]))
                frame = frame.f_back
            print(digest(names))
            return x

    model = net().append(Seeing())
    train(model=model)


def program_evaluation_in_the_step():
    model = net()
    loader = torch.utils.data.DataLoader(X, batch_size=2)

    def inside(step):
        if step % 3 == 0:
            model.eval()
            with torch.no_grad():
                print(sum(float(model(batch).sum()) for batch in loader))
            model.train()

    train(inside, model=model)


def program_workers_in_the_step():
    def inside(step):
        loader = torch.utils.data.DataLoader(X, batch_size=2, num_workers=1)
        print(step, digest([each * 2 for each in loader]))

    train(inside)


def program_forks_in_the_step():
    def inside(step):
        pid = os.fork()
        if not pid:
            print("child", step, float((X @ X.T).sum()), torch.autograd._profiler_enabled(), flush=True)
            os._exit(step)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        sys.stdout.flush()

    sys.stdout.flush()
    train(inside)


def program_threads_in_the_step():
    found = {}

    def work(step):
        model = net()
        model(X + step).sum().backward()
        found[step] = digest(*[each.grad for each in model.parameters()])

    def inside(step):
        thread = threading.Thread(target=work, args=(step,))
        thread.start()
        X.square()
        thread.join()

    train(inside)
    print(found)


def program_deep_calls():
    def deep(left):
        return X.sum() if not left else deep(left - 1) + 1

    train(lambda step: print(step, float(deep(800))))


def program_collections():
    def inside(step):
        gc.collect()
        rings = [[] for _ in range(5)]
        for ring in rings:
            ring.append(ring)
        del rings, ring
        print(gc.collect() >= 5)

    train(inside)


def program_functional():
    model = net()
    parameters = dict(model.named_parameters())

    def inside(_step):
        def call(values, x):
            return torch.func.functional_call(model, values, (x[None],)).sum()

        torch.manual_seed(1)
        found = torch.func.vmap(torch.func.grad(call), (None, 0), randomness="different")(parameters, X)
        print(digest(*found.values()))

    train(inside, model=model)


def program_scripted():
    scripted = torch.jit.trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)), X)
    train(called=scripted, model=scripted)


def program_two_steps_of_optimizers():
    model = net()
    second = torch.optim.SGD(model[0].parameters(), lr=0.1)

    def called(x):
        second.step()
        return model(x)

    train(called=called, model=model)


def program_lists():
    def inside(step):
        print(digest(torch.stack([X[0]] * 4000)), torch.tensor([[1, 2], [3, step]]).tolist())

    train(inside, make=lambda parameters, lr: torch.optim.SGD(parameters, lr=lr, foreach=True))


if __name__ == "__main__":
    run(globals())
