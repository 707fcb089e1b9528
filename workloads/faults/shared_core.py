"""Another process computes on the core that launches: the GPU waits until the launching thread gets the core back.

Fixed, the other process waits instead of computing.
"""

import os
import subprocess
import sys
from pathlib import Path

import torch

from faults import training

SHAPE = "linear layers in many small batches; a process that computes on the same core"
LIBRARY = ""
EXPECTS = {"": ("idle/off_cpu",), "--fixed": ()}

WIDTH, ROWS, STEPS, BATCHES = 1024, 512, 60, 8
BUSY = "while True: pass"
WAITING = "import signal; signal.pause()"


def main(arguments: list[str] | None = None) -> None:
    """Train, and print the last loss."""
    run = training.started(__doc__, arguments, STEPS)
    width = run.size(WIDTH)
    model = training.network(run, width, WIDTH)
    optimizer = training.sgd(model, run)
    inputs = training.rows(run, run.size(ROWS), width)
    wanted = training.rows(run, run.size(ROWS), training.OUTPUTS)
    loss = training.train(model, optimizer, inputs, wanted)
    allowed = os.sched_getaffinity(0)
    other = subprocess.Popen([sys.executable, "-c", WAITING if run.fixed else BUSY])  # noqa: S603 - the texts above
    # The launching threads and the other process have one core; autograd's thread has begun above.
    core = {max(allowed)}
    for task in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(task.name), core)
    os.sched_setaffinity(other.pid, core)
    try:
        for _ in training.steps(run):
            for _ in range(BATCHES):
                loss = training.train(model, optimizer, inputs, wanted)
    finally:
        other.kill()
        other.wait()
        os.sched_setaffinity(0, allowed)
    print(f"loss {torch.as_tensor(loss).item():.4f}")


if __name__ == "__main__":
    main()
