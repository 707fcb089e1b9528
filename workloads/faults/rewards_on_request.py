"""Each step asks another process for a number and waits for the answer, between forward pass and optimizer.

The other process stands for a server that scores what a network wrote. It thinks for some milliseconds. Fixed, the
program asks in one step and takes the answer in the next one, so the server thinks while the GPU works.
"""

import socket
from multiprocessing import get_context

import torch

from faults import servers, training

SHAPE = "linear layers; each step waits for the answer of a server"
GPUS = 0
EXPECTS = {"": ("host/outside_wait",), "--fixed": ()}

WIDTH, ROWS, THINKS_S = 4096, 4096, 0.008


def main(arguments: list[str] | None = None) -> None:
    run = training.started(__doc__, arguments)
    width = run.size(WIDTH, training.ON_CPU)
    model = training.network(run, width, WIDTH, on_cpu=training.ON_CPU)
    optimizer = training.sgd(model, run)
    inputs = training.rows(run, run.size(ROWS, training.ON_CPU), width)
    wanted = training.rows(run, run.size(ROWS, training.ON_CPU), training.OUTPUTS)
    loss, score = torch.zeros(()), 0
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(servers.LONGEST_S)
        work = (listener.getsockname(), run.steps + 1, THINKS_S)
        server = get_context("spawn").Process(target=servers.answer_questions, args=work, daemon=True)
        server.start()
        peer, _ = listener.accept()
        with peer:
            peer.settimeout(servers.LONGEST_S)
            if run.fixed:
                peer.sendall(servers.QUESTION)
            for _ in training.steps(run):
                loss = training.train(model, optimizer, inputs, wanted)
                peer.sendall(servers.QUESTION)
                score += int(peer.recv(1))
    print(f"loss {loss.item():.4f}, score {score}")


if __name__ == "__main__":
    main()
