"""A process on this machine that answers messages: it loads what it needs once and keeps it."""

import multiprocessing
import signal
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection

from nsyswrap.base.errors import ExportError, NsyswrapError

# A process that has answered ends in milliseconds. Source: ours.
END_LIMIT_S = 10


class LostProcessError(ExportError):
    """A process ended before it had answered."""


class Worker:
    """A process that answers messages, one at a time.

    It ignores Ctrl-C, which a terminal sends to all processes: the one that started it decides. It ends when that one
    is gone.

    Args:
        make: A function of a module; called once in the process, it returns the function that answers a message.
        *arguments: Its arguments, which can be pickled.
    """

    def __init__(self, make: Callable[..., Callable[..., object]], *arguments: object) -> None:
        # A fork would copy threads in an unknown state.
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, partial(make, *arguments)), daemon=True)
        self._process.start()
        other.close()

    def send(self, message: object) -> None:
        """Send the process its next message.

        Raises:
            LostProcessError: The process ended.
        """
        try:
            self.connection.send(message)
        except OSError as error:
            raise _lost() from error

    def answer(self) -> object:
        """Return the answer to the last message.

        Raises:
            LostProcessError: The process ended.
            NsyswrapError: The function raised it.
        """
        try:
            answer = self.connection.recv()
        except (EOFError, OSError) as error:
            raise _lost() from error
        if isinstance(answer, Exception):
            raise answer
        return answer

    def end(self, *, now: bool = False) -> None:
        """End the process: after its last answer, or now. One that goes on for long is killed."""
        self.connection.close()
        if not now:
            self._process.join(END_LIMIT_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join(END_LIMIT_S)


def _lost() -> LostProcessError:
    return LostProcessError("a process that reads captures ended", hint="give fewer captures at once")


def _serve(connection: Connection, make: Callable[[], Callable[..., object]]) -> None:
    """Answer messages until the other side closes the connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        answer = make()
        while True:
            connection.send(answer(connection.recv()))
    except (EOFError, BrokenPipeError):
        return  # The other side ended, or gave up.
    except Exception as error:  # noqa: BLE001 - raised on the other side
        connection.send(error if isinstance(error, NsyswrapError) else RuntimeError(repr(error)))
