"""What other processes do while a program trains.

It imports no torch, so a process that a test spawns starts quickly.
"""

import http
import http.server
import socket
import time
from multiprocessing.connection import Connection

# A question to a server, in bytes, and the longest wait for its process.
QUESTION, LONGEST_S = b"score", 60


class _Answers(http.server.BaseHTTPRequestHandler):
    """Answers each request after some time, over one connection."""

    protocol_version = "HTTP/1.1"
    answers_s = 0.0

    def do_POST(self) -> None:
        """Read what was sent, and answer."""
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(self.answers_s)
        self.send_response(http.HTTPStatus.NO_CONTENT)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def serve_posts(pipe: Connection, answers_s: float) -> None:
    """Answer each POST after some seconds, on a free port, which the pipe tells."""
    handler = type("Answers", (_Answers,), {"answers_s": answers_s})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        pipe.send(server.server_port)
        server.serve_forever()


def answer_questions(address: tuple[str, int], questions: int, thinks_s: float) -> None:
    """Answer some questions of a program that listens, each after some seconds."""
    with socket.create_connection(address, LONGEST_S) as client:
        for _ in range(questions):
            if not client.recv(len(QUESTION)):
                return
            time.sleep(thinks_s)
            client.sendall(b"1")


def play(pipe: Connection, features: int, moves_s: float) -> None:
    """Answer each move with a position of some features, after some seconds, until the other side is closed."""
    try:
        while True:
            pipe.recv_bytes()
            time.sleep(moves_s)
            pipe.send_bytes(bytes(range(features)))
    except (EOFError, ConnectionError):
        return
