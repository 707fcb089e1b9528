"""Ctrl-C and other ending signals while a capture is read: the command ends at once, and says how to go on."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType

from nsyswrap.cli.terminal import printable

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SHOW_CURSOR = "\x1b[?25h"


class _Leave:
    """A signal handler that prints a message and ends the process, without waiting for its threads."""

    def __init__(self, message: str, hint: str, clean_up: Callable[[], object]) -> None:
        self._text = f"nsyswrap: {printable(message)}\n" + (f"hint: {printable(hint)}\n" if hint else "")
        self._clean_up = clean_up

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        try:
            self._clean_up()
            terminal = sys.stderr is not None and sys.stderr.isatty()
            # os.write, because another thread may hold the lock of the stream.
            os.write(2, f"{_SHOW_CURSOR if terminal else ''}\n{self._text}".encode(errors="replace"))
        finally:
            os._exit(128 + number)


@contextmanager
def leaving_at_once(message: str, hint: str = "", clean_up: Callable[[], object] = lambda: None) -> Iterator[None]:
    """End the process at the first ending signal inside the block.

    An analysis runs in several threads. An exception in this one would wait for all of them, which can take minutes.
    A block inside another one changes nothing, and a signal that is ignored stays ignored.

    Args:
        message: What was stopped.
        hint: How to go on.
        clean_up: Called before the end.
    """
    handlers = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
    if current_thread() is not main_thread() or any(isinstance(each, _Leave) for each in handlers.values()):
        yield
        return
    leave = _Leave(message, hint, clean_up)
    changed = {number: handler for number, handler in handlers.items() if handler not in {signal.SIG_IGN, None}}
    for number in changed:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number, handler in changed.items():
            signal.signal(number, handler)
