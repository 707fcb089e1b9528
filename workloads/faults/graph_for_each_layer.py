"""Each small layer is a CUDA graph of its own, so hundreds of tiny graphs follow one another.

The host has launched them all while a large product ran; the GPU takes longer from graph to graph than from kernel to
kernel. Fixed, all layers are one graph.
"""

from collections.abc import Callable
from functools import partial

import common
import torch
from torch import Tensor

from faults import training
from faults.training import Run

SHAPE = "large products, then a deep stack of small layers; each layer is a CUDA graph"
EXPECTS = {"": ("gpu/between_operations",), "--fixed": ()}

WIDTH, PRODUCTS, CELLS, LAYERS, STEPS = 8192, 2, 1 << 18, 400, 16


class Layers:
    """Small layers that change a state in place, float32 [cells]."""

    def __init__(self, run: Run) -> None:
        self.state = torch.rand(run.size(CELLS), device=run.device)
        self.scales = torch.linspace(0.9, 1.1, run.size(LAYERS, 10), device=run.device)

    def layer(self, number: int) -> None:
        self.state.mul_(self.scales[number])

    def every(self) -> None:
        for number in range(len(self.scales)):
            self.layer(number)


def as_graph(work: Callable[[], None]) -> Callable[[], None]:
    """Return the same work as one launch."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    launch: Callable[[], None] = graph.replay
    return launch


def prepared(run: Run, layers: Layers) -> list[Callable[[], None]]:
    """Return the launches of a step after the products, in order."""
    if run.device.type != "cuda":
        return [layers.every]
    layers.every()
    if run.fixed:
        return [as_graph(layers.every)]
    return [as_graph(partial(layers.layer, number)) for number in range(len(layers.scales))]


def main(arguments: list[str] | None = None) -> None:
    """Compute, and print the mean of the state."""
    run = training.started(__doc__, arguments, STEPS)
    weight: Tensor = training.rows(run, run.size(WIDTH), run.size(WIDTH))
    layers = Layers(run)
    parts = prepared(run, layers)
    for _ in training.steps(run):
        with common.phase("forward"):
            for _ in range(PRODUCTS):
                torch.mm(weight, weight)
            for part in parts:
                part()
    print(f"mean {layers.state.mean().item():.4f}")


if __name__ == "__main__":
    main()
