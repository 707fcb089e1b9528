"""A policy plays in environments that run in other processes: each step waits until all have moved.

Fixed, the environments are a step ahead: they move while the policy learns from their last positions.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection

import torch
from torch import Tensor, nn

from faults import servers, training

SHAPE = "a policy that plays; each step waits for environments in other processes"
GPUS = 0
EXPECTS = {"": ("host/outside_wait",), "--fixed": ()}

FEATURES, HIDDEN, COPIES, ENVIRONMENTS, MOVES_S = 64, 4096, 1024, 3, 0.008
MOVE = b"move"


@contextmanager
def environments() -> Iterator[list[Connection]]:
    """Yield connections to environments, each in a process of its own, as long as the block lasts."""
    context = get_context("spawn")
    ours, theirs = zip(*(context.Pipe() for _ in range(ENVIRONMENTS)), strict=True)
    running = [context.Process(target=servers.play, args=(each, FEATURES, MOVES_S), daemon=True) for each in theirs]
    for process, end in zip(running, theirs, strict=True):
        process.start()
        end.close()
    yield list(ours)
    for pipe, process in zip(ours, running, strict=True):
        pipe.close()
        process.join()


def move(pipes: list[Connection]) -> None:
    """Let all environments move."""
    for pipe in pipes:
        pipe.send_bytes(MOVE)


def positions(pipes: list[Connection]) -> Tensor:
    """Return the positions of all environments, float32 [environments, features]."""
    return torch.tensor([list(pipe.recv_bytes()) for pipe in pipes], dtype=torch.float32)


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    hidden = run.size(HIDDEN, training.ON_CPU)
    layers = (nn.Linear(FEATURES, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 2))
    model = nn.Sequential(*layers).to(run.device)
    optimizer = training.sgd(model, run)
    copies = run.size(COPIES, 128)
    wanted = training.rows(run, copies * ENVIRONMENTS, 2)
    loss = torch.zeros(())
    with environments() as pipes:
        move(pipes)
        for _ in training.steps(run):
            seen = positions(pipes) / 255
            if run.fixed:
                move(pipes)
            loss = training.train(model, optimizer, seen.repeat(copies, 1).to(run.device), wanted)
            if not run.fixed:
                move(pipes)
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
