"""Programs that make it hard to change them from outside come through unharmed, or a change is refused in words."""

import sys
from pathlib import Path

import pytest
from capture_fixtures import options

from nsyswrap.experiments.request import Request, run_request

pytestmark = pytest.mark.thorough

START = """
import threading, torch
from torch import nn
from torch.nn import functional as F
torch.set_num_threads(1)
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
images, labels = torch.randn(4, 6), torch.randint(0, 3, (4,))

def loss_of(step):
    return F.cross_entropy(model(images), labels)

def train(optimizer=optimizer, loss_of=loss_of, steps=10 ** 6):
    for step in range(steps):
        optimizer.zero_grad(set_to_none=False)
        loss_of(step).backward()
        optimizer.step()

"""
ODD = {
    "an optimizer of its own": """
class Own(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})
    def step(self):
        for each in self.param_groups[0]["params"]:
            each.data.sub_(each.grad, alpha=0.1)
train(Own(model.parameters()))
""",
    "two optimizers": """
other = torch.optim.SGD(model[2].parameters(), lr=0.01)
def both(step):
    other.step()
    return loss_of(step)
train(loss_of=both)
""",
    "an optimizer that needs a closure": """
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.01, max_iter=2)
while True:
    def closure():
        optimizer.zero_grad()
        loss = loss_of(0)
        loss.backward()
        return loss
    optimizer.step(closure)
""",
    "sparse gradients": """
table = nn.Embedding(10, 4, sparse=True)
train(torch.optim.SparseAdam(table.parameters()), lambda step: table(labels).square().mean())
""",
    "complex parameters": """
model = nn.Linear(4, 4, dtype=torch.complex64)
values = torch.randn(3, 4, dtype=torch.complex64)
train(torch.optim.Adam(model.parameters()), lambda step: model(values).abs().mean())
""",
    "parameters that are added later": """
def grows(step):
    if step == 15:
        model.append(nn.Linear(3, 3))
        optimizer.add_param_group({"params": model[3].parameters()})
    return loss_of(step)
train(loss_of=grows)
""",
    "inputs and outputs by name": """
class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = model
    def forward(self, *, images, labels):
        return {"loss": F.cross_entropy(self.inner(images), labels)}
named = Named()
train(loss_of=lambda step: named(images=images, labels=labels)["loss"])
""",
    "a gradient of its own": """
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values):
        return values * 2
    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2
train(loss_of=lambda step: Twice.apply(loss_of(step)))
""",
    "training in another thread": """
thread = threading.Thread(target=train)
thread.start()
thread.join()
""",
    "hooks and slots": """
class Slotted(nn.Linear):
    __slots__ = ("kept",)
layer = Slotted(3, 3)
layer.register_forward_hook(lambda module, given, output: output + 1)
model.append(layer)
train(torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True))
""",
    "collections of its own": """
import gc
gc.disable()
def collecting(step):
    gc.collect(0)
    gc.freeze()
    return loss_of(step)
train(loss_of=collecting)
""",
    "a model that is compiled already": """
model = torch.compile(model, backend="eager")
train()
""",
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_program_comes_through(tmp_path: Path, name: str) -> None:
    """All changes without a compiler are tried, and none fails."""
    path = tmp_path / "program.py"
    path.write_text(START + ODD[name], encoding="utf-8")
    turns = ("gc", "zero_grad", "threads", "channels_last", "tf32", "foreach", "fused")
    request = Request(turns=turns, processes=("workers", "pin_memory"), budget_s=8.0, block_s=0.02)
    answer = run_request(request, options(tmp_path / "out", sys.executable, str(path)))
    assert [each["words"] for each in (*answer.of("error"), *answer.of("exception"))] == []
    assert answer.exit_code == 0
    assert any(answer.of("end"))
    verdicts = {each["spec"]: each["verdict"] for each in answer.of("result")}
    assert "failed" not in verdicts.values()
    assert verdicts["tf32"] == verdicts["workers"] == "does not apply"
