"""A callback in the library's loop posts a number to a server in each step, and waits for the answer.

The server stands for one that keeps metrics; it takes some milliseconds. Fixed, a thread beside the loop posts them.
"""

import http.client
import http.server
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection

import lightning
import torch
from torch import nn

from faults import lightning_loop, training

SHAPE = "linear layers in the library's loop; a callback posts a number to a server and waits for the answer"
LIBRARY = "Lightning"
GPUS = 0
EXPECTS = {"": ("host/outside_wait",), "--fixed": ()}

WIDTH, ROWS, LAYERS, ANSWERS_S, LONGEST_S = 4096, 4096, 3, 0.012, 60


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers each request after some time, over one connection."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Read what was sent, and answer."""
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(ANSWERS_S)
        self.send_response(http.HTTPStatus.NO_CONTENT)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def serve(pipe: Connection) -> None:
    """Serve on a free port, which the pipe tells."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        pipe.send(server.server_port)
        server.serve_forever()


@contextmanager
def connected() -> Iterator[http.client.HTTPConnection]:
    """Yield a connection to a server in a process of its own, as long as the block lasts."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    connection = http.client.HTTPConnection("127.0.0.1", ours.recv(), timeout=LONGEST_S)
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
        """Start the thread."""
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
