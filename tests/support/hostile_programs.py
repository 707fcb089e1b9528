"""Programs that make it hard to record their work: what a recorder must neither change nor misunderstand."""

from typing import NamedTuple

# What all programs have in common; 4 is the number of steps.
_START = """
STEPS = 4
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
images, labels = torch.randn(4, 5, 6), torch.randint(0, 3, (4, 5))


def loss_of(step):
    return F.cross_entropy(model(images[step % 4]), labels[step % 4])


def train(steps=STEPS, loss_of=loss_of):
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of(step)
        loss.backward()
        optimizer.step()
        print(step, loss.item())


"""


class Hostile(NamedTuple):
    """A hostile program.

    Attributes:
        text: The program; what all have in common comes before it.
        refused: Words with which it is refused; empty for one whose work is recorded.
    """

    text: str
    refused: str = ""

    @property
    def program(self) -> str:
        return self.with_steps(4)

    def with_steps(self, steps: int) -> str:
        """Return the whole program with another number of steps."""
        return _START.replace("STEPS = 4", f"STEPS = {steps}") + self.text


HOSTILE: dict[str, Hostile] = {
    "state in globals": Hostile(
        "scale = 1.0\n"
        "def scaled(step):\n"
        "    global scale\n"
        "    scale *= 1.001\n"
        "    return loss_of(step) * scale\n"
        "train(loss_of=scaled)\n"
    ),
    "random order": Hostile(
        "import time\ntorch.manual_seed(time.time_ns())\norder = torch.randperm(4)\n"
        "for step in range(4):\n"
        "    optimizer.zero_grad(); loss_of(order[step] if torch.rand(()) < 2 else 0).backward(); "
        "optimizer.step()\n"
        "images += torch.randn(4, 5, 6)\n"
        "for step in range(4):\n    optimizer.zero_grad(); loss_of(step).backward(); optimizer.step()\n",
        "does not repeat itself",
    ),
    "own optimizer": Hostile(
        "class Own(torch.optim.Optimizer):\n    def step(self, closure=None):\n        with torch.no_grad():\n"
        "            for each in self.param_groups[0]['params']: each -= 0.1 * each.grad.sign()\n"
        "optimizer = Own(model.parameters(), {'unusual': object})\ntrain()\n"
    ),
    "optimizer that is none": Hostile(
        "class Own:\n    def zero_grad(self): model.zero_grad()\n    def step(self):\n        with torch.no_grad():\n"
        "            for each in model.parameters(): each -= 0.1 * each.grad\noptimizer = Own()\ntrain()\n"
    ),
    "optimizer with a closure": Hostile(
        "optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)\n"
        "def closure():\n    optimizer.zero_grad(); loss = loss_of(0); loss.backward(); return loss\n"
        "for _ in range(STEPS): print(optimizer.step(closure).item())\n"
    ),
    "two optimizers": Hostile(
        "other = torch.optim.Adam(model[2].parameters())\n"
        "for step in range(STEPS):\n"
        "    train(1); other.step(); other.zero_grad()\n"
    ),
    "dataset with side effects": Hostile(
        "class Data(torch.utils.data.Dataset):\n    def __len__(self): return 4 * STEPS\n"
        "    def __getitem__(self, at):\n"
        "        with open('log.txt', 'a') as file: file.write(f'{at}\\n')\n"
        "        return torch.full((6,), float(at)), at % 3\n"
        "for x, y in torch.utils.data.DataLoader(Data(), batch_size=4, num_workers=1):\n"
        "    loss = F.cross_entropy(model(x), y); loss.backward(); optimizer.step(); print(loss.item())\n"
        "print(open('log.txt').read())\n"
    ),
    "own autograd function": Hostile(
        "class Twice(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x):\n"
        "        ctx.save_for_backward(x); return x * 2\n"
        "    @staticmethod\n    def backward(ctx, grad):\n        return grad * 2\n"
        "train(loss_of=lambda step: Twice.apply(loss_of(step)))\n"
    ),
    "own dispatch mode": Hostile(
        "from torch.utils._python_dispatch import TorchDispatchMode\nseen = []\nclass Mode(TorchDispatchMode):\n"
        "    def __torch_dispatch__(self, func, types, args=(), kwargs=None):\n"
        "        seen.append(str(func)); return func(*args, **(kwargs or {}))\n"
        "with Mode(): train(2)\nprint(len(seen), seen[:5])\n"
    ),
    "own function mode": Hostile(
        "from torch.overrides import TorchFunctionMode\nseen = []\nclass Mode(TorchFunctionMode):\n"
        "    def __torch_function__(self, func, types, args=(), kwargs=None):\n"
        "        seen.append(func.__name__); return func(*args, **(kwargs or {}))\n"
        "with Mode(): train(2)\nprint(len(seen))\n"
    ),
    "tensor with functions of its own": Hostile(
        "class Named(torch.Tensor):\n    pass\nimages = images.as_subclass(Named)\ntrain()\nprint(type(images))\n"
    ),
    "tensor with dispatch of its own": Hostile(
        "from torch.utils._pytree import tree_map\n"
        "class Wrapped(torch.Tensor):\n"
        "    @staticmethod\n"
        "    def __new__(cls, inner):\n"
        "        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype); made.inner = "
        "inner; return made\n"
        "    @classmethod\n    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):\n"
        "        plain = lambda one: one.inner if isinstance(one, Wrapped) else one\n"
        "        return func(*tree_map(plain, args), **tree_map(plain, kwargs or {}))\n"
        "with torch.no_grad(): print(model(Wrapped(images[0])).sum().item())\ntrain()\n"
    ),
    "tensors without data": Hostile(
        "from torch._subclasses.fake_tensor import FakeTensorMode\n"
        "with FakeTensorMode():\n"
        "    print(nn.Linear(6, 3)(torch.randn(2, 6)).shape)\n"
        "print(nn.Linear(6, 3, device='meta')(torch.randn(2, 6, device='meta')).shape)\ntrain()\n"
    ),
    "own profile function": Hostile(
        "import sys\n"
        "calls = []\n"
        "sys.setprofile(lambda frame, event, arg: calls.append(event) if frame.f_code.co_name == 'loss_of' "
        "else None)\n"
        "train(2)\nsys.setprofile(None)\nprint(calls)\n"
    ),
    "own audit hook": Hostile(
        "import sys\n"
        "seen = []\n"
        "sys.addaudithook(lambda event, args: seen.append(args[0]) if event == 'open' and 'mine' in "
        "str(args[0]) else None)\n"
        "open('mine.txt', 'w').close()\ntrain(2)\nprint(seen)\n"
    ),
    "training in a thread": Hostile(
        "import threading\nthread = threading.Thread(target=train)\nthread.start(); thread.join()\n"
    ),
    "thread without threading": Hostile(
        "import _thread\ndone = _thread.allocate_lock(); done.acquire()\n"
        "def work():\n    train(STEPS // 2); done.release()\n"
        "_thread.start_new_thread(work, ()); done.acquire()\ntrain(STEPS // 2)\n"
    ),
    "forked child": Hostile(
        "import os, sys\n"
        "print('before'); sys.stdout.flush()\n"
        "pid = os.fork()\n"
        "if not pid:\n"
        "    train(1); sys.stdout.flush(); os._exit(0)\n"
        "os.waitpid(pid, 0)\ntrain()\n"
    ),
    "child of multiprocessing": Hostile(
        "import multiprocessing, sys\n"
        "sys.stdout.flush()\n"
        "child = multiprocessing.get_context('fork').Process(target=train, args=(1,))\n"
        "child.start(); child.join()\nprint(child.exitcode)\ntrain(2)\n"
    ),
    "end without cleaning up": Hostile("import os, sys\ntrain()\nsys.stdout.flush()\nos._exit(0)\n", "no work"),
    "exit code": Hostile("import sys\ntrain()\nsys.exit(3)\n", "exit code 3"),
    "exception": Hostile("train()\nraise ValueError('on purpose')\n", "on purpose"),
    "training at exit": Hostile("import atexit\natexit.register(train, 2)\ntrain(STEPS)\n"),
    "functional transforms": Hostile(
        "from torch.func import functional_call, grad, vmap\nstate = dict(model.named_parameters())\n"
        "def one(state, x, y): return F.cross_entropy(functional_call(model, state, (x[None],)), y[None])\n"
        "found = vmap(grad(one), (None, 0, 0))(state, images[0], labels[0])\n"
        "print({name: each.shape for name, each in found.items()})\n"
        "train(2)\n"
    ),
    "script": Hostile("model = torch.jit.script(model)\ntrain()\n"),
    "trace": Hostile("model = torch.jit.trace(model, images[0])\ntrain()\n"),
    "gradients of gradients": Hostile(
        "def penalty(step):\n"
        "    x = images[step].requires_grad_()\n"
        "    loss = F.cross_entropy(model(x), labels[step])\n"
        "    (grad,) = torch.autograd.grad(loss, x, create_graph=True)\n"
        "    return loss + grad.pow(2).sum()\n"
        "train(loss_of=penalty)\n"
    ),
    "backward passes inside of others": Hostile(
        "def hook(grad):\n"
        "    with torch.enable_grad():\n"
        "        (torch.ones(2, requires_grad=True) * 3).sum().backward()\n"
        "    return grad * 1\n"
        "model[0].weight.register_hook(hook)\ntrain()\n"
    ),
    "two backward passes": Hostile(
        "for step in range(STEPS):\n"
        "    optimizer.zero_grad(); loss = loss_of(step); loss.backward(retain_graph=True); loss.backward(); "
        "optimizer.step(); print(loss.item())\n"
    ),
    "hooks that call the model": Hostile(
        "model[1].register_forward_hook(lambda module, args, out: (torch.no_grad()(model[0])(images[0]), "
        "None)[1])\n"
        "train()\n"
    ),
    "module that fails": Hostile(
        "class Fails(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__(); self.weight = nn.Parameter(torch.ones(1))\n"
        "    def forward(self, x): raise KeyError('x')\n"
        "for _ in range(2):\n    try: Fails()(images)\n    except KeyError as error: print('caught', error)\ntrain()\n"
    ),
    "other working folder": Hostile(
        "import os\nos.mkdir('inner'); os.chdir('inner')\ntrain()\ntorch.save(model.state_dict(), 'model.pt')\n"
    ),
    "own open": Hostile(
        "import builtins\n"
        "plain = builtins.open\n"
        "builtins.open = lambda *args, **named: plain(*args, **named)\n"
        "train()\n"
    ),
    "sparse gradients": Hostile(
        "model = nn.Sequential(nn.Embedding(9, 3, sparse=True), nn.Flatten(), nn.Linear(6, 3))\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nimages = torch.randint(0, 9, (4, 5, 2))\ntrain()\n"
    ),
    "complex numbers": Hostile(
        "weight = nn.Parameter(torch.randn(6, 3, dtype=torch.complex64))\noptimizer = torch.optim.Adam([weight])\n"
        "train(loss_of=lambda step: (images[step].to(torch.complex64) @ weight).abs().sum())\n"
    ),
    "loss that is not a number": Hostile("train(loss_of=lambda step: loss_of(step) * float('nan'))\n"),
    "gradients of a vector": Hostile(
        "for step in range(STEPS):\n"
        "    optimizer.zero_grad(); out = model(images[step]); out.backward(torch.ones_like(out)); "
        "optimizer.step(); print(out.sum().item())\n"
    ),
    "no step at all": Hostile("print(sum(range(10)))\n", "no work"),
    "parameters that are replaced": Hostile(
        "for step in range(STEPS):\n    train(1)\n"
        "    model[0].weight = nn.Parameter(model[0].weight.detach().clone())\n"
        "    optimizer.param_groups[0]['params'][0] = model[0].weight\n"
    ),
    "names that look like ours": Hostile(
        "class WorkRecord: pass\n"
        "print(type(WorkRecord()).__name__, torch.nn.modules.module._global_forward_hooks.__class__.__name__)\n"
        "train()\n"
    ),
    "training by a generator": Hostile(
        "def losses():\n    while True:\n"
        "        optimizer.zero_grad(); loss = loss_of(0); loss.backward(); optimizer.step()\n"
        "        yield loss.item()\nfound = losses()\nfor _ in range(STEPS): print(next(found))\n"
    ),
    "another program": Hostile(
        "import subprocess, sys\ntrain()\n"
        "print(subprocess.run([sys.executable, '-c', 'print(1)'], capture_output=True).stdout)\n"
    ),
    "signals": Hostile(
        "import os, signal\nseen = []\nsignal.signal(signal.SIGUSR1, lambda *_: seen.append(1))\n"
        "def interrupted(step):\n    os.kill(os.getpid(), signal.SIGUSR1); return loss_of(step)\n"
        "train(loss_of=interrupted)\nprint(len(seen) == STEPS, signal.getsignal(signal.SIGTERM))\n"
    ),
    "pickled model": Hostile(
        "import copy, io\ntrain()\nfile = io.BytesIO(); torch.save(model, file); file.seek(0)\n"
        "model = torch.load(file, weights_only=False)\nprint(sorted(vars(model)), len(copy.deepcopy(model)))\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\ntrain()\n"
    ),
    "replaced step": Hostile(
        "plain = optimizer.step\ncount = []\n"
        "optimizer.step = lambda *args: (count.append(1), plain(*args))[1]\ntrain()\nprint(len(count))\n"
    ),
    "scaled gradients": Hostile(
        "scaler = torch.amp.GradScaler('cpu', init_scale=2.0)\nfor step in range(STEPS):\n"
        "    optimizer.zero_grad(); loss = loss_of(step); scaler.scale(loss).backward(); scaler.step(optimizer)\n"
        "    scaler.update(); print(loss.item(), scaler.get_scale())\n"
    ),
    "swapped module": Hostile(
        "train(STEPS // 2)\nmodel[1] = nn.ReLU()\nmodel.append(nn.Linear(3, 3))\n"
        "optimizer.add_param_group({'params': model[3].parameters()})\ntrain(STEPS // 2)\nprint(model)\n"
    ),
    "slots and weak references": Hostile(
        "import weakref\nclass Slotted(nn.Linear):\n    __slots__ = ('kept',)\n"
        "model[2] = Slotted(8, 3); model[2].kept = weakref.ref(model)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\ntrain()\nkept = weakref.ref(model[0])\n"
        "del model, optimizer\nimport gc; gc.collect()\nprint(kept())\n"
    ),
    "own loader": Hostile(
        "class Loader(torch.utils.data.DataLoader):\n    def __iter__(self):\n"
        "        for batch in super().__iter__(): yield [batch[0] + 1]\n"
        "loader = Loader(torch.utils.data.TensorDataset(images.flatten(0, 1)), batch_size=5)\n"
        "done = 0\nwhile done < STEPS:\n    for (x,) in loader:\n"
        "        loss = F.cross_entropy(model(x), labels[0]); loss.backward(); optimizer.step()\n"
        "        done += 1; print(loss.item())\n"
    ),
    "data set with state": Hostile(
        "class Counted(torch.utils.data.IterableDataset):\n    seen = 0\n    def __iter__(self):\n"
        "        while self.seen < STEPS: self.seen += 1; yield images[self.seen % 4]\n"
        "data = Counted()\nfor x in torch.utils.data.DataLoader(data, batch_size=None):\n"
        "    loss = F.cross_entropy(model(x), labels[0]); loss.backward(); optimizer.step(); print(loss.item())\n"
        "print(data.seen)\n"
    ),
    "file that grows": Hostile(
        "def logged(step):\n    loss = loss_of(step)\n"
        "    with open('log.txt', 'a') as file: file.write(f'{step}\\n')\n    return loss\n"
        "train(loss_of=logged)\nprint(len(open('log.txt').readlines()))\n"
    ),
    "database": Hostile(
        "import sqlite3\nbase = sqlite3.connect('runs.db')\n"
        "base.execute('create table if not exists runs (loss real)')\n"
        "def kept(step):\n    loss = loss_of(step)\n    base.execute('insert into runs values (?)', (loss.item(),))\n"
        "    base.commit(); return loss\n"
        "train(loss_of=kept)\nprint(base.execute('select count(*) from runs').fetchone())\n"
    ),
    "arguments that end": Hostile(
        "import argparse\ntrain()\nargparse.ArgumentParser(prog='p').parse_args(['--wrong'])\n", "exit code 2"
    ),
    "exception in a step": Hostile(
        "def fails(step):\n    if step == STEPS - 1: raise RuntimeError('on purpose')\n    return loss_of(step)\n"
        "train(loss_of=fails)\n",
        "on purpose",
    ),
    "long lines": Hostile("train()\nfor _ in range(200): print('x' * 5000)\n"),
    "spawned child": Hostile(
        "import multiprocessing, operator, sys\nif __name__ == '__main__':\n    train()\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool: print(pool.map(abs, [-1, 2]))\n"
    ),
    "event loop": Hostile(
        "import asyncio\nasync def run():\n    for step in range(STEPS):\n        train(1); await asyncio.sleep(0)\n"
        "asyncio.run(run())\n"
    ),
    "deterministic algorithms": Hostile(
        "torch.use_deterministic_algorithms(True)\ntrain()\nprint(torch.are_deterministic_algorithms_enabled())\n"
    ),
    "functional training": Hostile(
        "from torch.func import functional_call, grad\n"
        "state = {name: each.detach() for name, each in model.named_parameters()}\n"
        "def loss(state, step):\n    out = functional_call(model, state, (images[step % 4],))\n"
        "    return F.cross_entropy(out, labels[step % 4])\n"
        "for step in range(STEPS):\n    found = grad(loss)(state, step)\n"
        "    state = {name: each - 0.1 * found[name] for name, each in state.items()}\n"
        "    print(loss(state, step).item())\n"
    ),
    "averaged copy": Hostile(
        "import copy\naverage = copy.deepcopy(model).requires_grad_(False)\nfor step in range(STEPS):\n    train(1)\n"
        "    for kept, now in zip(average.parameters(), model.parameters()): kept.lerp_(now.detach(), 0.1)\n"
        "print(average(images[0]).sum().item())\n"
    ),
    "frozen parts": Hostile(
        "model[0].requires_grad_(False)\ntrain(STEPS // 2)\nmodel[0].requires_grad_(True)\ntrain(STEPS // 2)\n"
    ),
    "inputs by name": Hostile(
        "class Named(nn.Module):\n    def __init__(self): super().__init__(); self.inner = model\n"
        "    def forward(self, *, x, y): return {'loss': F.cross_entropy(self.inner(x), y)}\n"
        "named = Named()\ntrain(loss_of=lambda step: named(x=images[step % 4], y=labels[step % 4])['loss'])\n"
    ),
    "own collections": Hostile(
        "import gc\ngc.disable()\ndef collected(step):\n    gc.collect(0); gc.freeze(); return loss_of(step)\n"
        "train(loss_of=collected)\nprint(gc.isenabled())\n"
    ),
    "compiled model": Hostile("model = torch.compile(model, backend='eager')\ntrain()\n"),
    "gradients that are kept": Hostile(
        "optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)\nplain = optimizer.zero_grad\n"
        "optimizer.zero_grad = lambda: plain(set_to_none=False)\ntrain()\n"
        "print({str(each['step'].item()) for each in optimizer.state.values()})\n"
    ),
}
