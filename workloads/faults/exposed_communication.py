"""Two GPUs add up their gradients when the backward pass is over: while they talk, nobody computes.

Mended, DistributedDataParallel sends each part of the gradients while the next one is computed. It needs two GPUs.
"""

import os
import tempfile
from pathlib import Path

import common
import torch
from torch import distributed, multiprocessing
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from faults import training
from faults.training import Run

EXPECTS = {"": ("communication/exposed",), "--mended": ()}
GPUS = 2

WIDTH, ROWS, LAYERS = 4096, 2048, 8


def rank(number: int, run: Run, meeting: str) -> None:
    """Train as one of two processes, each with a GPU of its own where there are any."""
    on_gpu = run.device.type == "cuda"
    device = torch.device("cuda", number) if on_gpu else run.device
    if on_gpu:
        torch.cuda.set_device(device)
    common.plant(number)
    torch.set_float32_matmul_precision("high")
    kind = "nccl" if on_gpu else "gloo"
    distributed.init_process_group(kind, init_method=f"file://{meeting}", rank=number, world_size=GPUS)
    own = Run(run.steps, device, run.mended)
    plain = training.network(own, run.size(WIDTH), WIDTH, LAYERS)
    model = DistributedDataParallel(plain) if run.mended else plain
    optimizer = training.sgd(model, own)
    inputs = training.rows(own, run.size(ROWS), run.size(WIDTH))
    wanted = training.rows(own, run.size(ROWS), training.OUTPUTS)
    loss = torch.zeros(())
    for _ in training.steps(own):
        with common.phase("forward"):
            loss = functional.mse_loss(model(inputs), wanted)
        with common.phase("backward"):
            loss.backward()
            if not run.mended:
                for each in model.parameters():
                    distributed.all_reduce(each.grad)
        with common.phase("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
    print(f"rank {number}: loss {loss.item():.4f}")
    distributed.destroy_process_group()


def main(arguments: list[str] | None = None) -> None:
    """Train in two processes."""
    run = training.started(__doc__, arguments)
    if run.device.type == "cuda" and torch.cuda.device_count() < GPUS:
        raise SystemExit(f"exposed_communication: it needs {GPUS} GPUs")
    os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(rank, (run, str(Path(folder) / "meeting")), nprocs=GPUS)


if __name__ == "__main__":
    main()
