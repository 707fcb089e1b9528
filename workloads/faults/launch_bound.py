"""A simulation in many small operations: the GPU is done with each before the host has launched the next.

Fixed, the operations of a step are one CUDA graph, launched once.
"""

import common
import torch
from torch import Tensor

from faults import training

SHAPE = "a simulation without a network, in elementwise operators"
EXPECTS = {"": ("launches/launch_bound",), "--fixed": ()}

CELLS, INSTANTS, STEPS = 1 << 20, 300, 20


def simulate(state: Tensor, drive: Tensor, instants: int) -> None:
    """Move leaky cells towards their inputs, in place; both are float32 [cells]."""
    for _ in range(instants):
        state.mul_(0.95)
        state.add_(drive, alpha=0.05)
        state.clamp_(-1, 1)


def main(arguments: list[str] | None = None) -> None:
    """Simulate, and print the mean of the cells."""
    run = training.started(__doc__, arguments, STEPS)
    drive = torch.rand(run.size(CELLS), device=run.device)
    state = torch.zeros_like(drive)
    instants = run.size(INSTANTS, 10)
    graph = None
    if run.fixed and run.device.type == "cuda":
        simulate(state, drive, instants)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            simulate(state, drive, instants)
    for _ in training.steps(run):
        with common.phase("forward"):
            if graph is None:
                simulate(state, drive, instants)
            else:
                graph.replay()
    print(f"mean {state.mean().item():.4f} after {run.steps} steps of {instants} instants")


if __name__ == "__main__":
    main()
