"""A graph network in the library's loop that takes the neighbours of nodes by nodes[index]: its backward pass sorts.

Fixed, it takes them with index_select, whose backward pass adds without sorting.
"""

import torch
from torch import Tensor, nn

from faults import lightning_loop, training

SHAPE = "a graph network in the library's loop, with narrow messages along four million edges"
LIBRARY = "Lightning"
EXPECTS = {"": ("compute/sorted_gradient",), "--fixed": ()}

NODES, EDGES, WIDTH, LAYERS = 400_000, 4_000_000, 8, 2


class Graph(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Layers in which each node gets the sum of what its neighbours send."""

    def __init__(self, run: training.Run, source: Tensor, target: Tensor) -> None:
        """Take the settings of the run, and both nodes of each edge."""
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        self.last = nn.Linear(WIDTH, training.OUTPUTS)
        self.source, self.target, self.sorts = source, target, not run.fixed

    def forward(self, nodes: Tensor) -> Tensor:
        for layer in self.layers:
            sent = layer(nodes)
            sent = sent[self.source] if self.sorts else sent.index_select(0, self.source)
            nodes = torch.relu(torch.zeros_like(nodes).index_add(0, self.target, sent))
        scores: Tensor = self.last(nodes)
        return scores


def main(arguments: list[str] | None = None) -> None:
    """Train, and print how many steps were done."""
    run = training.started(__doc__, arguments)
    count = run.size(NODES)
    source, target = torch.randint(count, (2, run.size(EDGES, 64)), device=run.device)
    network = Graph(run, source, target).to(run.device)
    batch = [training.rows(run, count, WIDTH), torch.zeros(count, training.OUTPUTS, device=run.device)]
    lightning_loop.fit(run, lightning_loop.Module(run, network), lightning_loop.repeated(run, batch))
    print(f"{run.steps} steps")


if __name__ == "__main__":
    main()
