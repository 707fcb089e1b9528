"""Another process computes on the core that launches: the GPU waits until the launching thread gets the core back.

Fixed, the program keeps the cores that it was given.
"""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import torch

from faults import training

SHAPE = "linear layers, eight batches a step; a process that computes on the same core"
EXPECTS = {"": ("idle/off_cpu",), "--fixed": ()}

# Small enough that the CPU sets the pace, also on a large GPU.
WIDTH, ROWS, STEPS, BATCHES = 512, 64, 40, 8
BUSY = "while True: pass"


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments, STEPS)
    step = training.usual_step(run, WIDTH, ROWS)
    loss = step()
    allowed = os.sched_getaffinity(0)
    core = {max(allowed)}
    other = subprocess.Popen([sys.executable, "-c", BUSY])  # noqa: S603 - the text above
    os.sched_setaffinity(other.pid, core)
    # Autograd's thread began in the step above. Threads of the profiler may end meanwhile.
    for task in () if run.fixed else Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(task.name), core)
    try:
        for _ in training.steps(run):
            for _ in range(BATCHES):
                loss = step()
    finally:
        other.kill()
        other.wait()
        os.sched_setaffinity(0, allowed)
    print(f"loss {torch.as_tensor(loss).item():.4f}")


if __name__ == "__main__":
    main()
