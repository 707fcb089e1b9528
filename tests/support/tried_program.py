"""A training program of two hundred small layers; arguments select what is odd about it.

It prints a hash of its losses and parameters, which no turn may change where a change alters nothing.
"""

import gc
import hashlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset


class Stuck(torch.optim.AdamW):  # type: ignore[misc]
    """An optimizer that hangs in a form."""

    def step(self) -> None:
        """Update the parameters, unless the form was changed."""
        while any(group["fused"] for group in self.param_groups):
            time.sleep(0.1)
        super().step()


class Slow(TensorDataset):  # type: ignore[misc]
    """Samples that take ten milliseconds each, without a core."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        time.sleep(0.01)
        found: tuple[torch.Tensor, ...] = super().__getitem__(index)
        return found


class Stream(IterableDataset):  # type: ignore[misc]
    """Samples that take ten milliseconds each, in one order."""

    def __iter__(self) -> Iterator[tuple[torch.Tensor, ...]]:
        """Yield the samples."""
        samples = Slow(torch.randn(400, 4), torch.randn(400, 4))
        return (samples[index] for index in range(len(samples)))


class Strict(torch.optim.AdamW):  # type: ignore[misc]
    """An optimizer that refuses a form."""

    def step(self) -> None:
        """Update the parameters, unless the form was changed."""
        if any(group["fused"] for group in self.param_groups):
            raise ValueError("must not be fused")
        super().step()


def main(steps: int, modes: set[str]) -> None:
    torch.manual_seed(1)
    layers = [nn.Linear(4, 4) for _ in range(200 if "many" in modes else 2)]
    model = nn.Sequential(*layers)
    kinds = {"strict": Strict, "stuck": Stuck}
    optimizer: Any = next((kinds[each] for each in kinds if each in modes), torch.optim.AdamW)(
        model.parameters(), lr=1e-3
    )
    samples = (Slow if "slow" in modes else TensorDataset)(torch.randn(400, 4), torch.randn(400, 4))
    loader = DataLoader(Stream() if "stream" in modes else samples, batch_size=4)
    kept: list[list[object]] = [[] for _ in range(50_000)] if "garbage" in modes else []
    digest, done = hashlib.sha256(), 0
    while done < steps:
        for inputs, wanted in loader:
            optimizer.zero_grad(set_to_none="keeps" not in modes)
            loss = nn.functional.mse_loss(model(inputs), wanted)
            loss.backward()
            optimizer.step()
            digest.update(loss.detach().numpy().tobytes())
            if "garbage" in modes:
                gc.collect()
            if "saves" in modes and done % 50 == 5:
                torch.save(model.state_dict(), "model.pt")
            if "writes" in modes and done == 5:
                Path("results.txt").write_text("new", encoding="utf-8")
            done += 1
            if done == steps:
                break
    for each in model.parameters():
        digest.update(each.detach().numpy().tobytes())
    sys.stdout.write(f"{len(kept)} {digest.hexdigest()}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), set(sys.argv[2:]))
