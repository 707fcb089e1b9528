"""A callback in the library's loop posts a number to a server in each step, and waits for the answer.

The server stands for one that keeps metrics; it takes some milliseconds. Fixed, a thread beside the loop posts them.
"""

import http.client
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context

import lightning
import torch
from torch import nn

from faults import lightning_loop, servers, training

SHAPE = "linear layers in the library's loop; a callback posts a number to a server and waits for the answer"
LIBRARY = "Lightning"
GPUS = 0
EXPECTS = {"": ("host/outside_wait",), "--fixed": ()}

WIDTH, ROWS, LAYERS, ANSWERS_S = 4096, 4096, 3, 0.012


@contextmanager
def connected() -> Iterator[http.client.HTTPConnection]:
    """Yield a connection to a server in a process of its own, as long as the block lasts."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=servers.serve_posts, args=(theirs, ANSWERS_S), daemon=True)
    server.start()
    connection = http.client.HTTPConnection("127.0.0.1", ours.recv(), timeout=servers.LONGEST_S)
    yield connection
    connection.close()
    server.kill()
    server.join()


def post(connection: http.client.HTTPConnection, number: int) -> None:
    """Send a number, and wait for the answer."""
    connection.request("POST", "/", str(number))
    connection.getresponse().read()


class Poster(lightning.Callback):  # type: ignore[misc]  # lightning is not typed here
    """Posts the number of each step: itself, or through a thread."""

    def __init__(self, connection: http.client.HTTPConnection, *, beside: bool) -> None:
        """Take the connection, and whether to post from a thread beside the loop."""
        self.connection = connection
        self.numbers: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._post_all) if beside else None

    def _post_all(self) -> None:
        while (number := self.numbers.get()) >= 0:
            post(self.connection, number)

    def on_train_start(self, *_: object) -> None:
        if self.thread:
            self.thread.start()

    def on_train_batch_end(self, trainer: lightning.Trainer, *_: object) -> None:
        """Post the number of the step, or leave it to the thread."""
        if self.thread:
            self.numbers.put(trainer.global_step)
        else:
            post(self.connection, trainer.global_step)

    def on_train_end(self, *_: object) -> None:
        """Wait until all is posted."""
        if self.thread:
            self.numbers.put(-1)
            self.thread.join()


def main(arguments: list[str] | None = None) -> None:
    """Train, and print how many numbers were posted."""
    run = training.started(__doc__, arguments)
    width = run.size(WIDTH, training.ON_CPU)
    layers = [part for _ in range(LAYERS) for part in (nn.Linear(width, width), nn.ReLU())]
    batch = [torch.rand(run.size(ROWS, training.ON_CPU), width), torch.zeros(run.size(ROWS, training.ON_CPU), width)]
    with connected() as connection:
        module = lightning_loop.Module(run, nn.Sequential(*layers))
        batches = lightning_loop.repeated(run, [each.to(run.device) for each in batch])
        callbacks = [Poster(connection, beside=run.fixed), lightning_loop.Marks(run)]
        lightning_loop.fit(run, module, batches, callbacks=callbacks)
    print(f"{run.steps} numbers posted")


if __name__ == "__main__":
    main()
