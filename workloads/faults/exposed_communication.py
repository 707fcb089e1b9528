"""Two GPUs add up their gradients after the backward pass: during the communication no kernel runs.

Fixed, DistributedDataParallel sends the gradients of the wide layers, which are ready first, while those of the
convolutions are computed. It needs two GPUs.
"""

import os
import tempfile
from pathlib import Path

import common
import torch
from torch import distributed, multiprocessing, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from faults import training
from faults.training import Run

SHAPE = "convolutions before wide layers on two GPUs; all gradients are summed after the backward pass"
EXPECTS = {"": ("communication/exposed",), "--fixed": ()}
GPUS = 2

CHANNELS, SIDE, IMAGES = 256, 56, 64
WIDTH, CONVOLUTIONS = 8192, 2


def network(run: Run) -> nn.Module:
    """Return convolutions, which take the time, before wide layers, which have the weights."""
    channels, width = run.size(CHANNELS, 8), run.size(WIDTH)
    tower: list[nn.Module] = []
    for _ in range(CONVOLUTIONS):
        tower += [nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.ReLU()]
    wide = [nn.Linear(channels, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
    whole = nn.Sequential(*tower, nn.AdaptiveAvgPool2d(1), nn.Flatten(), *wide, nn.Linear(width, training.OUTPUTS))
    return whole.to(run.device, memory_format=torch.channels_last)


def rank(number: int, run: Run, meeting: str) -> None:
    """Train as one of two processes, each with a GPU of its own where there are any."""
    on_gpu = run.device.type == "cuda"
    device = torch.device("cuda", number) if on_gpu else run.device
    if on_gpu:
        torch.cuda.set_device(device)
    common.plant(number)
    torch.set_float32_matmul_precision("high")
    own = Run(run.steps, device, run.fixed)
    plain = network(own)
    # It is made before the group: modules that torch imports for it would keep the group, and its threads, alive at
    # exit.
    optimizer = training.sgd(plain, own)
    kind = "nccl" if on_gpu else "gloo"
    distributed.init_process_group(kind, init_method=f"file://{meeting}", rank=number, world_size=GPUS)
    model = DistributedDataParallel(plain, gradient_as_bucket_view=True) if run.fixed else plain
    images, side = run.size(IMAGES, 2), run.size(SIDE, 8)
    inputs = torch.rand(images, run.size(CHANNELS, 8), side, side, device=device)
    inputs = inputs.to(memory_format=torch.channels_last)
    wanted = training.rows(own, images, training.OUTPUTS)
    loss = torch.zeros(())
    for _ in training.steps(own):
        with common.phase("forward"):
            loss = functional.mse_loss(model(inputs), wanted)
        with common.phase("backward"):
            loss.backward()
            if not run.fixed:
                for each in model.parameters():
                    distributed.all_reduce(each.grad)
        with common.phase("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
    # One write, so that the lines of two ranks do not mix.
    print(f"rank {number}: loss {loss.item():.4f}\n", end="")
    # No rank may exit while another still communicates with it.
    distributed.barrier()
    distributed.destroy_process_group()


def main(arguments: list[str] | None = None) -> None:
    """Train in two processes."""
    run = training.started(__doc__, arguments, gpus=GPUS)
    if run.device.type == "cuda" and torch.cuda.device_count() < GPUS:
        raise SystemExit(f"exposed_communication: it needs {GPUS} GPUs")
    os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(rank, (run, str(Path(folder) / "meeting")), nprocs=GPUS)


if __name__ == "__main__":
    main()
