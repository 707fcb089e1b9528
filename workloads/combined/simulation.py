"""A simulation in many small operators, and a network that learns from it and empties the cache after each step.

Fixed, the simulation is one CUDA graph, and the allocator keeps its memory.
"""

import common
import torch
from faults import launch_bound, training
from torch import Tensor

from combined import switches

SHAPE = "a simulation in elementwise operators, and linear layers that learn from it"
FAULTS = {"graph": "launches/launch_bound", "cache": "memory/churn"}

WIDTH, ROWS, INSTANTS, STEPS = 4096, 4096, 300, 20


def main(arguments: list[str] | None = None) -> None:
    """Simulate and train, and print the last loss."""
    run, fixed = switches.started(__doc__, arguments, FAULTS, STEPS)
    width, rows, instants = run.size(WIDTH), run.size(ROWS), run.size(INSTANTS, 10)
    drive = training.rows(run, rows // 4 or 1, width)
    state = torch.zeros_like(drive)
    model = training.network(run, width, WIDTH)
    optimizer = training.sgd(model, run)
    inputs, wanted = training.rows(run, rows, width), training.rows(run, rows, training.OUTPUTS)
    on_gpu, graph, loss = run.device.type == "cuda", None, torch.zeros(())
    if "graph" in fixed and on_gpu:
        launch_bound.simulate(state, drive, instants)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            launch_bound.simulate(state, drive, instants)
    for _ in training.steps(run):
        with common.phase("forward"):
            if graph is None:
                launch_bound.simulate(state, drive, instants)
            else:
                graph.replay()
        loss = training.train(model, optimizer, _driven(inputs, state), wanted)
        if "cache" not in fixed and on_gpu:
            with common.phase("tidy"):
                torch.cuda.empty_cache()
    print(f"loss {loss.item():.4f} with {', '.join(sorted(fixed)) or 'nothing'} fixed")


def _driven(inputs: Tensor, state: Tensor) -> Tensor:
    """Return the inputs with the state added to their first rows."""
    inputs[: len(state)] += state
    return inputs


if __name__ == "__main__":
    main()
