"""A server decodes the requests of its queue one by one; each token needs a hundred launches, and the host reads it.

Fixed, it decodes all that wait as one batch, each token is one CUDA graph, and the host reads finished texts.
"""

from queue import Queue
from threading import Thread

import common
import torch
from faults import one_token_at_a_time, training
from faults.one_token_at_a_time import VOCABULARY, Writer
from torch import Tensor

CLIENTS, TOKENS, STEPS = 4, 12, 60
Request = tuple[int, "Queue[list[int]]"]


def ask(requests: "Queue[Request]", first: int, times: int) -> None:
    """Be a client: send a first token, wait for the text, and send the next."""
    answers: Queue[list[int]] = Queue()
    for number in range(times):
        requests.put(((first + number) % VOCABULARY, answers))
        answers.get()


@torch.no_grad()  # type: ignore[untyped-decorator]  # torch is not typed here
def main(arguments: list[str] | None = None) -> None:
    """Serve, and print how many texts were written."""
    run = training.started(__doc__, arguments, STEPS)
    clients = run.size(CLIENTS, 2)
    rows = clients if run.fixed else 1
    writer = Writer(run, rows)
    write = writer.write
    if run.fixed and run.device.type == "cuda":
        write = one_token_at_a_time.as_graph(write)
    requests: Queue[Request] = Queue()
    for first in range(clients):
        Thread(target=ask, args=(requests, first, run.steps), daemon=True).start()
    for _ in training.steps(run):
        for _ in range(clients // rows):
            with common.phase("data"):
                taken = [requests.get() for _ in range(rows)]
            with common.phase("forward"):
                writer.token.copy_(torch.tensor([[first] for first, _ in taken]))
                writer.place.zero_()
                texts: list[Tensor] = []
                for _ in range(TOKENS):
                    write()
                    texts.append(writer.token.clone() if run.fixed else writer.token.cpu())
            with common.phase("answer"):
                for text, (_, answers) in zip(torch.cat(texts, dim=1).tolist(), taken, strict=True):
                    answers.put(text)
    print(f"{run.steps * clients} texts of {TOKENS} tokens")


if __name__ == "__main__":
    main()
