"""Small programs that a change from outside can make faster, each with the edit that makes the same change by hand.

    python tools/edited_programs.py NAME [--fixed [VALUE]] [--steps N]

A program is named after the experiment of `nsyswrap try` that fits. VALUE is that of the experiment, such as the number
of threads. They complete the planted faults of workloads/faults, which have no such program.
"""

import argparse
import os
import time
from collections.abc import Callable, Iterator

import torch
from faults import training
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

Fixed = str | None
Step = Callable[[], object]


def trained(run: training.Run, model: Callable[..., Tensor], module: nn.Module, batches: Iterator[Tensor]) -> Step:
    """Return a step that trains a module, called as ``model``, on the next batch."""
    optimizer = training.sgd(module, run)

    def step() -> None:
        loss = model(next(batches)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def same(batch: Tensor) -> Iterator[Tensor]:
    while True:
        yield batch


def deep(run: training.Run) -> nn.Sequential:
    """Return many small layers: far more launches than work."""
    width = run.size(256, 8)
    layers = [
        part for _ in range(run.size(40, 2)) for part in (nn.Linear(width, width), nn.LayerNorm(width), nn.GELU())
    ]
    return nn.Sequential(*layers).to(run.device)


def cuda_graphs(run: training.Run, fixed: Fixed) -> Step:
    """A deep network of small layers; fixed, both of its passes are CUDA graphs."""
    model, batch = deep(run), training.rows(run, 64, run.size(256, 8))
    if fixed is not None and run.device.type == "cuda":
        model = torch.cuda.make_graphed_callables(model, (batch,))
    return trained(run, model, model, same(batch))


def compiled(run: training.Run, fixed: Fixed) -> Step:
    """The same network; fixed, it is compiled."""
    model, batch = deep(run), training.rows(run, 64, run.size(256, 8))
    called = model if fixed is None else torch.compile(model, mode=fixed or "reduce-overhead")
    return trained(run, called, model, same(batch))


def zero_grad(run: training.Run, fixed: Fixed) -> Step:
    """Large layers whose gradients are filled with zeros, and then added to; fixed, they are set to None."""
    width = run.size(4096)
    model, batch = training.network(run, width, layers=8), training.rows(run, run.size(256, 4), width)
    optimizer = training.sgd(model, run)

    def step() -> None:
        optimizer.zero_grad(set_to_none=fixed is not None)
        model(batch).square().mean().backward()
        optimizer.step()

    return step


def threads(run: training.Run, fixed: Fixed) -> Step:
    """One thread computes the spectrum of each batch on the CPU; fixed, all cores do."""
    torch.set_num_threads(1 if fixed is None else int(fixed or len(os.sched_getaffinity(0))))
    width = 512
    model, waves, turn = training.network(run, width), torch.rand(1024, width), torch.rand(width, width)

    def batches() -> Iterator[Tensor]:
        while True:
            yield (waves @ turn).sin().to(run.device)

    return trained(run, model, model, batches())


class Batches(Dataset[Tensor]):  # type: ignore[misc]  # torch is not typed here
    """Two batches in shared memory, one after the other; every so many take longer, without a core."""

    def __init__(self, shape: tuple[int, ...], every: int = 0, slow_s: float = 0.0) -> None:
        """Take the shape of a batch, and which ones take how long."""
        self.made, self.every, self.slow_s = [torch.rand(shape).share_memory_() for _ in range(2)], every, slow_s

    def __len__(self) -> int:
        """Return more than any run needs."""
        return 1 << 20

    def __getitem__(self, index: int) -> Tensor:
        """Return a batch."""
        if self.every and index % self.every == 0:
            time.sleep(self.slow_s)
        return self.made[index % 2]


def copied(run: training.Run, loader: DataLoader[Tensor], *, waits: bool) -> Iterator[Tensor]:
    """Yield the batches of a loader on the device; the host waits for a copy, or does not."""
    for batch in loader:
        yield batch.to(run.device, non_blocking=not waits)


def loaded(run: training.Run, loader: DataLoader[Tensor], layers: int, *, waits: bool) -> Step:
    """Return a step that trains large layers on the batches of a loader."""
    model = training.network(run, run.size(4096), layers=layers)
    return trained(run, model, model, copied(run, loader, waits=waits))


def pin_memory(run: training.Run, fixed: Fixed) -> Step:
    """Batches in pageable memory, whose copies block the host; fixed, the loader pins them, and nothing waits."""
    is_pinned = fixed is not None and run.device.type == "cuda"
    batches = Batches((run.size(2048, 4), run.size(4096)))
    loader = DataLoader(batches, batch_size=None, num_workers=1, pin_memory=is_pinned)
    return loaded(run, loader, 6, waits=not is_pinned)


def non_blocking(run: training.Run, fixed: Fixed) -> Step:
    """Batches in pinned memory, whose copies the host waits for; fixed, it does not."""
    batches = Batches((run.size(512, 4), run.size(4096)))
    loader = DataLoader(batches, batch_size=None, num_workers=1, pin_memory=run.device.type == "cuda")
    return loaded(run, loader, 12, waits=fixed is None)


def prefetch(run: training.Run, fixed: Fixed) -> Step:
    """Every sixteenth batch takes 40 ms, and few are loaded ahead; fixed, many are."""
    batches = Batches((run.size(1024, 4), run.size(4096)), 16, 0.04)
    loader = DataLoader(
        batches, batch_size=None, num_workers=2, prefetch_factor=2 if fixed is None else int(fixed or 8)
    )
    return loaded(run, loader, 8, waits=True)


def attention(run: training.Run, fixed: Fixed) -> Step:
    """Attention whose flash and cuDNN kernels were switched off; fixed, they may take part, or only one of them."""
    flags = torch.backends.cuda
    for name in ("flash", "cudnn", "mem_efficient"):
        is_on = name == "mem_efficient" if fixed is None else fixed in {"", name}
        getattr(flags, f"enable_{name}_sdp")(is_on)
    shape, head = (run.size(8, 1), run.size(2048), run.size(1024)), run.size(64, 16)
    given, mixed = (
        nn.Linear(shape[2], size, device=run.device, dtype=torch.bfloat16) for size in (3 * shape[2], shape[2])
    )

    class Attention(nn.Module):  # type: ignore[misc]  # torch is not typed here
        def __init__(self) -> None:
            super().__init__()
            self.given, self.mixed = given, mixed

        def forward(self, tokens: Tensor) -> Tensor:
            rows, length, width = tokens.shape
            parts = self.given(tokens).view(rows, length, 3, width // head, head)
            query, key, value = parts.permute(2, 0, 3, 1, 4)
            seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            found: Tensor = self.mixed(seen.transpose(1, 2).reshape(rows, length, width))
            return found

    model = Attention()
    batch = torch.rand(shape, device=run.device, dtype=torch.bfloat16)
    return trained(run, model, model, same(batch))


def cudnn_benchmark(run: training.Run, fixed: Fixed) -> Step:
    """Convolutions of odd sizes in FP32, whose algorithms cuDNN chooses by its rules; fixed, it measures them."""
    torch.backends.cudnn.benchmark = fixed is not None
    channels, side = run.size(96, 4), run.size(57, 8)
    shapes = ((7, 1), (5, 1), (3, 2), (3, 4), (1, 1))
    layers = [nn.Conv2d(channels, channels, size, padding="same", dilation=far) for size, far in shapes]
    model = nn.Sequential(*(part for each in layers for part in (each, nn.ReLU()))).to(run.device)
    batch = torch.rand(run.size(32, 1), channels, side, side, device=run.device)
    return trained(run, model, model, same(batch))


PROGRAMS = (
    cuda_graphs,
    compiled,
    zero_grad,
    threads,
    pin_memory,
    non_blocking,
    prefetch,
    attention,
    cudnn_benchmark,
)


def main(arguments: list[str] | None = None) -> None:
    by_name = {each.__name__: each for each in PROGRAMS}
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("name", choices=by_name)
    options.add_argument("--fixed", nargs="?", const="", metavar="VALUE", help="make the change by hand")
    chosen, rest = options.parse_known_args(arguments)
    run = training.started(__doc__, rest)
    step = by_name[chosen.name](run, chosen.fixed)
    for _ in training.steps(run):
        step()


if __name__ == "__main__":
    main()
