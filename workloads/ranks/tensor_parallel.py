"""Train encoder layers whose weights are split over the ranks, with torch.distributed.tensor.parallel.

Start it with torchrun on two GPUs or more: ``torchrun --nproc-per-node 2 tensor_parallel.py``. Each rank has its share
of the heads and of the hidden features; both halves of a layer end with an all-reduce of the activations, and the next
layer needs the result at once. With ``--fault host_in_forward`` the host of the last rank works inside the forward
pass. It has no ranges of its own. On a machine without GPUs it trains a small network with gloo.
"""

import torch
from group import LATE_S, Place, timed_steps, train_as_rank, work
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional

FAULTS = ("none", "host_in_forward")
WIDTH, LAYERS, HEADS, ROWS, LENGTH, STEPS = 4096, 4, 32, 16, 512, 16
SMALL_WIDTH, SMALL_HEADS, SMALL_ROWS, SMALL_LENGTH = 64, 4, 2, 16
SPLIT = {
    "query": ColwiseParallel,
    "key": ColwiseParallel,
    "value": ColwiseParallel,
    "out": RowwiseParallel,
    "up": ColwiseParallel,
    "down": RowwiseParallel,
}


class Layer(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Attention and a feed-forward network, each with a norm and a residual connection."""

    def __init__(self, width: int, head: int, late_s: float) -> None:
        """Take the number of features, those of a head, and how long the host works in each forward pass."""
        super().__init__()
        self.before, self.between = (nn.LayerNorm(width, elementwise_affine=False) for _ in range(2))
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.head, self.late_s = head, late_s

    def forward(self, hidden: Tensor) -> Tensor:
        """Return features of the same shape."""
        work(self.late_s)
        normed = self.before(hidden)
        heads = [
            each(normed).unflatten(-1, (-1, self.head)).transpose(1, 2) for each in (self.query, self.key, self.value)
        ]
        seen = functional.scaled_dot_product_attention(*heads)
        hidden = hidden + self.out(seen.transpose(1, 2).flatten(2))
        found: Tensor = hidden + self.down(functional.gelu(self.up(self.between(hidden))))
        return found


def network(place: Place, fault: str) -> nn.Module:
    """Return the layers, split over all ranks."""
    width, heads = (WIDTH, HEADS) if place.on_gpu else (SMALL_WIDTH, SMALL_HEADS)
    late_s = LATE_S if fault == "host_in_forward" and place.is_last else 0.0
    with place.device:
        layers = [Layer(width, width // heads, late_s if at == LAYERS // 2 else 0.0) for at in range(LAYERS)]
    mesh = init_device_mesh(place.device.type, (place.ranks,))
    for layer in layers:
        parallelize_module(layer, mesh, {name: style() for name, style in SPLIT.items()})
    return nn.Sequential(*layers)


def train(place: Place, fault: str, steps: int) -> None:
    """Train as one rank; all ranks have the same input."""
    model = network(place, fault)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=True)
    shape = (ROWS, LENGTH, WIDTH) if place.on_gpu else (SMALL_ROWS, SMALL_LENGTH, SMALL_WIDTH)
    inputs = torch.randn(shape, device=place.device)
    for _ in timed_steps(place, steps):
        with torch.autocast(place.device.type, torch.bfloat16):
            loss = functional.mse_loss(model(inputs).float(), inputs)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def main(arguments: list[str] | None = None) -> None:
    """Train as the rank that torchrun gave this process."""
    train_as_rank(train, __doc__, FAULTS, STEPS, arguments)


if __name__ == "__main__":
    main()
