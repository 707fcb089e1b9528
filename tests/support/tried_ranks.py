"""A job of two ranks that trains a small model with gloo, started by torchrun; it runs until it is ended."""

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    distributed.init_process_group("gloo")
    torch.manual_seed(1)
    model = DistributedDataParallel(nn.Sequential(*(nn.Linear(4, 4) for _ in range(4))))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    while True:
        optimizer.zero_grad()
        model(torch.randn(4, 4)).square().mean().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
