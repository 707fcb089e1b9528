"""The training that faults are planted in: it keeps a GPU busy and has no fault of its own.

Products of large matrices in TF32, a fused optimizer, one batch that stays on the GPU, and a host that is never more
than a step ahead. So the cost of a fault shows in comparison with a run without faults.
"""

import argparse
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import common
import torch
from torch import Tensor, nn
from torch.nn import functional

STEPS = 40
OUTPUTS = 16
# Where there is no GPU a program only shows that it runs, if its fault needs a GPU.
SMALL = 32
# Where its fault lies on the host alone, a step takes about ten milliseconds on the cores.
ON_CPU = 512


@dataclass(frozen=True, slots=True)
class Run:
    """Settings of a run.

    Attributes:
        fixed: Whether to leave the fault out.
    """

    steps: int
    device: torch.device
    fixed: bool

    def size(self, on_gpu: int, elsewhere: int = SMALL) -> int:
        return on_gpu if self.device.type == "cuda" else elsewhere


def started(description: str | None, arguments: list[str] | None, steps: int = STEPS, gpus: int = 1) -> Run:
    """Read the command line, seed everything, and let products of matrices use TF32.

    Args:
        description: The program's docstring.
        arguments: Its command line; None for that of this process.
        steps: The default of --steps.
        gpus: How many GPUs the program uses. Some libraries spread their work over all that they see.
    """
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(gpus))))
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--fixed", action="store_true", help="leave the fault out")
    options.add_argument("--steps", type=common.positive, default=steps, metavar="N", help="steps to do (%(default)s)")
    options.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="the GPU if there is one")
    chosen = options.parse_args(arguments)
    common.plant(0)
    torch.set_float32_matmul_precision("high")
    device = common.device_named(chosen.device)
    if device.type == "cpu":
        # Threads that share the cores with the profiler would delay one another.
        torch.set_num_threads(1)
    return Run(chosen.steps, device, chosen.fixed)


def run_named(
    description: str | None, programs: Mapping[str, Callable[[Run], float]], arguments: list[str] | None
) -> None:
    """Run the program of a module with several that the command line names first, and print its loss.

    Raises:
        SystemExit: It has none of this name.
    """
    name, *options = [*(sys.argv[1:] if arguments is None else arguments), ""]
    if name not in programs:
        raise SystemExit(f"name one of {', '.join(programs)}")
    print(f"loss {programs[name](started(description, options[:-1])):.4f}")


class Pace:
    """Keeps the host at most one step ahead of the GPU, so that a step lasts as long for both.

    ::

        host    | step 1 || step 2 |.waits.| step 3 |.waits.|
        GPU         |#### step 1 ####|#### step 2 ####|####
    """

    def __init__(self, device: torch.device) -> None:
        self.on_gpu = device.type == "cuda"
        self.ends: deque[torch.cuda.Event] = deque()

    def wait(self) -> None:
        """Wait until the step before the one just launched has ended on the GPU."""
        if not self.on_gpu:
            return
        end = torch.cuda.Event()
        end.record()
        self.ends.append(end)
        if len(self.ends) > 1:
            self.ends.popleft().synchronize()


def steps(run: Run) -> Iterator[int]:
    """Yield the number of each step, inside its range, and keep the host's pace after it."""
    pace = Pace(run.device)
    for number in range(run.steps):
        with common.batch(number):
            yield number
            pace.wait()


def network(run: Run, inputs: int, width: int = 4096, layers: int = 3, on_cpu: int = SMALL) -> nn.Sequential:
    """Return linear layers with ReLU between them, on the device of the run.

    Args:
        run: Settings of the run.
        inputs: Features of a row.
        width: Features of each hidden layer on a GPU.
        layers: Hidden layers.
        on_cpu: Features of each hidden layer where there is no GPU.
    """
    hidden = run.size(width, on_cpu)
    parts: list[nn.Module] = [nn.Linear(inputs, hidden), nn.ReLU()]
    for _ in range(layers - 1):
        parts += [nn.Linear(hidden, hidden), nn.ReLU()]
    return nn.Sequential(*parts, nn.Linear(hidden, OUTPUTS)).to(run.device)


def sgd(model: nn.Module, run: Run) -> torch.optim.Optimizer:
    """Return an optimizer that is one kernel on a GPU."""
    return torch.optim.SGD(model.parameters(), lr=1e-4, fused=run.device.type == "cuda")


def rows(run: Run, count: int, width: int) -> Tensor:
    """Return random rows on the device of the run, float32 of shape [count, width]."""
    return torch.rand(count, width, device=run.device)


def train(
    model: Callable[[Tensor], Tensor], optimizer: torch.optim.Optimizer, inputs: Tensor, wanted: Tensor
) -> Tensor:
    """Do the three phases of a step; return the loss, still on the device."""
    with common.phase("forward"):
        loss = functional.mse_loss(model(inputs), wanted)
    descend(loss, optimizer)
    return loss.detach()


def descend(loss: Tensor, optimizer: torch.optim.Optimizer) -> None:
    """Do the backward pass and the optimizer's phase of a step."""
    with common.phase("backward"):
        loss.backward()
    with common.phase("optimizer"):
        optimizer.step()
        optimizer.zero_grad()


def usual_step(run: Run, width: int, count: int) -> Callable[[], Tensor]:
    """Return a step of linear layers with one batch of random rows, which returns its loss.

    Args:
        run: Settings of the run.
        width: Features of a row on a GPU.
        count: Rows on a GPU.
    """
    features = run.size(width)
    model = network(run, features, width)
    inputs, wanted = rows(run, run.size(count), features), rows(run, run.size(count), OUTPUTS)
    return partial(train, model, sgd(model, run), inputs, wanted)


def train_all(
    run: Run,
    model: Callable[[Tensor], Tensor],
    optimizer: torch.optim.Optimizer,
    inputs: Tensor,
    wanted: Tensor,
) -> Tensor:
    """Do all steps with one batch; return the last loss. A mean of losses keeps the memory of all of them."""
    loss = torch.zeros(())
    for _ in steps(run):
        loss = train(model, optimizer, inputs, wanted)
    return loss
