"""A product of small matrices for each expert, one after the other: each is too small for the GPU.

All of them are one CUDA graph, so the host does not delay them. Fixed, one batched product does all experts.
"""

from collections.abc import Callable

import common
import torch
from torch import Tensor

from faults import graph_for_each_layer, training
from faults.training import Run

SHAPE = "a mixture of experts without training, in a CUDA graph; one small product for each expert"
EXPECTS = {"": ("compute/small_matrices",), "--fixed": ()}

EXPERTS, ROWS, WIDTH, LAYERS = 64, 128, 512, 8


def expert_by_expert(rows: Tensor, weights: Tensor, results: Tensor) -> None:
    for mine, weight, result in zip(rows, weights, results, strict=True):
        torch.mm(mine, weight, out=result)


def prepared(run: Run, work: Callable[[], None]) -> Callable[[], None]:
    """Return the work as one launch, where there is a GPU."""
    if run.device.type != "cuda":
        return work
    work()
    return graph_for_each_layer.as_graph(work)


def main(arguments: list[str] | None = None) -> None:
    """Compute, and print the mean of the results."""
    run = training.started(__doc__, arguments)
    experts, width, layers = run.size(EXPERTS, 4), run.size(WIDTH), run.size(LAYERS, 2)
    weights = torch.randn(layers, experts, width, width, device=run.device).to(torch.bfloat16) / width**0.5
    rows = torch.randn(experts, run.size(ROWS), width, device=run.device).to(torch.bfloat16)
    results = torch.empty_like(rows)

    def work() -> None:
        for layer in weights:
            if run.fixed:
                torch.bmm(rows, layer, out=results)
            else:
                expert_by_expert(rows, layer, results)

    step = prepared(run, work)
    for _ in training.steps(run):
        with common.phase("forward"):
            step()
    print(f"mean {results.float().mean().item():.4f}")


if __name__ == "__main__":
    main()
