"""What torch's compiler sees of a marked program: the graphs of the program without marks."""

import subprocess
import sys
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import torch

from nsyswrap.capture.annotate.compiler import compile_check, frame_skipper, own_code


def test_the_compiler_skips_our_frames() -> None:
    """This works with each API of torch; without one nothing happens."""
    names = {code.co_name for code in own_code()}
    assert {"begin_data", "_prepare_steps", "opener", "end", "_ensure_step"} <= names

    class Frames:
        skipped: list[Any] = []  # noqa: RUF012 - one test's

        @classmethod
        def skip_code(cls, code: CodeType) -> None:
            cls.skipped.append(code)

    class Old:
        class _C:
            class _dynamo:  # noqa: N801 - torch's own name
                eval_frame = Frames

        class compiler:  # noqa: N801 - torch's own name
            is_compiling = staticmethod(lambda: False)

    frame_skipper(Old)("code")  # type: ignore[arg-type]
    assert Frames.skipped == ["code"]
    assert compile_check(Old)() is False
    Old._C._dynamo.eval_frame = None  # type: ignore[assignment]  # noqa: SLF001 - it stands for an older torch
    frame_skipper(Old)("code")  # type: ignore[arg-type]
    frame_skipper(torch)(test_the_compiler_skips_our_frames.__code__)


COMPILED = """
import sys, torch
from torch import nn
if sys.argv[1] != "plain":
    from nsyswrap.capture.annotate.compiled import loaded
    from nsyswrap.capture.annotate.marker import Marker
    from nsyswrap.capture.annotate.torch_calls import patch
    from annotate_fixtures import Recorder, compiled_recording
    compiled, recorder = loaded(sys.argv[1]), Recorder()
    patch(torch, compiled_recording(compiled, recorder) if compiled else Marker(recorder))
kind = type(nn.Module.__call__).__name__
from torch._dynamo.utils import counters

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
    def forward(self, x):
        return torch.relu(self.linear(x.to(torch.float32)))

class Breaking(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Block(), Block()
    def forward(self, x):
        x = self.first(x)
        print(end="")
        return self.second(x)

def show(name, value):
    print(name, value, counters["stats"]["unique_graphs"], counters["stats"]["calls_captured"],
          counters["frames"]["ok"], sum(counters["graph_break"].values()))
    counters.clear()
    torch._dynamo.reset()

torch.manual_seed(0)
x = torch.randn(2, 4)
value = Block()(x)  # before anything is compiled
show("whole", torch.compile(nn.Sequential(Block(), Block()), fullgraph=True, backend="eager")(x).sum().item())
value = x
for block in [torch.compile(Block(), backend="eager") for _ in range(12)]:
    value = block(value)
show("many", value.sum().item())
show("breaking", torch.compile(Breaking(), backend="eager")(x).sum().item())
model = Block()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
step = torch.compile(optimizer.step, backend="eager")
for _ in range(2):
    model(x).sum().backward()
    step()
print("optimizer", model.linear.weight.sum().item())
print("calls:", kind, type(nn.Module.__call__).__name__, file=sys.stderr)
"""


# Runs the program in a process for each form; all share the import of torch, which takes longest.
IN_ALL_FORMS = """
import os, runpy, sys
import sympy, torch

for form in ("plain", "", sys.argv[1]):
    print(end="--", flush=True)
    if not os.fork():
        sys.argv[1:] = [form]
        runpy.run_path("compiled.py", run_name="__main__")
        sys.stdout.flush()
        os._exit(0)
    assert os.wait()[1] == 0
"""


def test_compiled_modules_are_compiled_as_without_marks(tmp_path: Path, compiled_module: ModuleType) -> None:
    """They have the same graphs, frames and breaks, and share no compilation cache that they did not share before.

    The marks are in Python, then in compiled code, which torch's compiler cannot trace.
    """
    (tmp_path / "compiled.py").write_text(COMPILED)
    paths = f"{Path(__file__).parents[2] / 'support'}:{Path(__file__).parents[3]}"
    command = [sys.executable, "-c", IN_ALL_FORMS, str(compiled_module.__file__)]
    variables = {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, env=variables)
    _, plain, marked, compiled = done.stdout.split("--")
    assert (marked, compiled) == (plain, plain)
    calls = [line.split()[1:] for line in done.stderr.splitlines() if line.startswith("calls:")]
    assert calls == [["function", "function"], ["function", "function"], ["ModuleCall", "function"]]
    assert plain.count("\n") == 4
