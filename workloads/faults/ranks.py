"""Two processes that train together, each with a GPU of its own where there are any."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import common
import torch
from torch import distributed, multiprocessing

from faults.training import Run

GPUS = 2


def spawn(work: Callable[[int, Run, int], None], run: Run) -> None:
    """Do the work in two processes; each gets its rank, the run and the port of the rendezvous.

    Raises:
        SystemExit: There are GPUs, but too few.
    """
    if run.device.type == "cuda" and torch.cuda.device_count() < GPUS:
        raise SystemExit(f"{work.__module__.split('.')[-1]}: it needs {GPUS} GPUs")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    multiprocessing.spawn(work, (run, port), nprocs=GPUS)


def one_of_two(number: int, run: Run, port: int) -> Run:
    """Make this process one of the two, for libraries that read the rank from environment variables; return its run."""
    os.environ |= {
        "RANK": str(number),
        "LOCAL_RANK": str(number),
        "WORLD_SIZE": str(GPUS),
        "LOCAL_WORLD_SIZE": str(GPUS),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    common.plant(number)
    torch.set_float32_matmul_precision("high")
    if run.device.type != "cuda":
        return run
    device = torch.device("cuda", number)
    torch.cuda.set_device(device)
    return replace(run, device=device)


@contextmanager
def group(run: Run) -> Iterator[None]:
    """Keep the group of the two processes; neither exits while the other still communicates with it."""
    distributed.init_process_group("nccl" if run.device.type == "cuda" else "gloo")
    try:
        yield
        distributed.barrier()
    finally:
        distributed.destroy_process_group()
