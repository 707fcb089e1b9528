"""Ctrl-C and other ending signals while no program runs: the command ends, keeps the capture, and says how to go on."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from nsyswrap.capture.result_folder import LOCK_NAME, REPORT_NAME, reserve_folder
from nsyswrap.cli.terminal import printable

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from nsyswrap.capture.options import CaptureOptions

_STOPPED = "stopped before the report was made"
_RESUME = "The capture is kept: run 'nsyswrap resume {}' to make the report"
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
    """
    from nsyswrap.capture.signals import ENDING_SIGNALS, handled  # noqa: PLC0415 - loaded when something is analyzed

    handlers = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
    if any(isinstance(each, _Leave) for each in handlers.values()):
        yield
        return
    caught = [number for number, handler in handlers.items() if handler not in {signal.SIG_IGN, None}]
    with handled(caught, _Leave(message, hint, clean_up)):
        yield


@contextmanager
def reserved(options: "CaptureOptions") -> "Iterator[Path]":
    """Reserve the folder of the result until the end of the block; an ending signal says how to go on."""
    from nsyswrap.capture.signals import signals_as_errors  # noqa: PLC0415

    held = reserve_folder(options.folder, force=options.force, next_free=options.next_free)
    with signals_as_errors(), held as place, interrupt_hint(place):
        yield place


def stopping_at_once(folder: "Path") -> "AbstractContextManager[None]":
    """Return a block in which an ending signal ends this process without waiting for the analysis."""
    message, hint = _STOPPED, _RESUME.format(folder)
    return leaving_at_once(message, hint, clean_up=lambda: (folder / LOCK_NAME).unlink(missing_ok=True))


@contextmanager
def interrupt_hint(folder: "Path") -> "Iterator[None]":
    """Turn Ctrl-C or another ending signal into an error that says that the capture is kept, and how to continue.

    Raises:
        CaptureInterruptedError: Ctrl-C was pressed, or another ending signal arrived.
    """
    from nsyswrap.capture.signals import number_of, stopped_error  # noqa: PLC0415

    try:
        yield
    except KeyboardInterrupt as error:
        hint = _RESUME.format(folder) if (folder / REPORT_NAME).is_file() else ""
        raise stopped_error(number_of(error), _STOPPED, hint) from error
