"""Programs that make it hard to record their work: what a recorder must neither change nor misunderstand."""

from typing import NamedTuple

_START = """
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
images, labels = torch.randn(4, 5, 6), torch.randint(0, 3, (4, 5))


def loss_of(step):
    return F.cross_entropy(model(images[step]), labels[step])


def train(steps=4, loss_of=loss_of):
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
        """Return the whole program."""
        return _START + self.text


HOSTILE: dict[str, Hostile] = {
    "state in globals": Hostile(
        "scale = 1.0\n"
        "def scaled(step):\n"
        "    global scale\n"
        "    scale *= 1.1\n"
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
        "for _ in range(3): print(optimizer.step(closure).item())\n"
    ),
    "two optimizers": Hostile(
        "other = torch.optim.Adam(model[2].parameters())\n"
        "for step in range(3):\n"
        "    train(1); other.step(); other.zero_grad()\n"
    ),
    "dataset with side effects": Hostile(
        "class Data(torch.utils.data.Dataset):\n    def __len__(self): return 8\n    def __getitem__(self, at):\n"
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
        "import _thread\ndone = _thread.allocate_lock(); done.acquire()\ndef work():\n    train(2); done.release()\n"
        "_thread.start_new_thread(work, ()); done.acquire()\ntrain(2)\n"
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
    "training at exit": Hostile("import atexit\natexit.register(train, 2)\ntrain(2)\n"),
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
        "for step in range(3):\n"
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
        "for step in range(3):\n"
        "    optimizer.zero_grad(); out = model(images[step]); out.backward(torch.ones_like(out)); "
        "optimizer.step(); print(out.sum().item())\n"
    ),
    "no step at all": Hostile("print(sum(range(10)))\n", "no work"),
    "parameters that are replaced": Hostile(
        "for step in range(3):\n    train(1)\n    model[0].weight = nn.Parameter(model[0].weight.detach().clone())\n"
        "    optimizer.param_groups[0]['params'][0] = model[0].weight\n"
    ),
    "names that look like ours": Hostile(
        "class WorkRecord: pass\n"
        "print(type(WorkRecord()).__name__, torch.nn.modules.module._global_forward_hooks.__class__.__name__)\n"
        "train()\n"
    ),
}
