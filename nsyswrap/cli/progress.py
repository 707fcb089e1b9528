"""How far a capture is, on stderr: bars on a terminal, one line a phase elsewhere.

While the program runs, the terminal is the program's: our progress is in the terminal's title, where nothing of the
program's output can be overwritten.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

import click

from nsyswrap.capture.progress import Phase, Progress

LABELS = {
    Phase.RUNNING: "recording",
    Phase.WRITING: "nsys writes its report",
    Phase.EXPORTING: "nsys exports to SQLite",
}


@contextmanager
def shown(*, quiet: bool = False) -> Iterator[Progress]:
    """Give a progress that is shown until the end of the block.

    Args:
        quiet: Show nothing.
    """
    display: _Bars | _Lines = _Bars() if sys.stderr.isatty() and not quiet else _Lines(quiet=quiet)
    with display:
        yield display.update


@contextmanager
def working(doing: str, *, quiet: bool = False) -> Iterator[None]:
    """Show on a terminal that something is being done, and for how long, until the end of the block; nothing elsewhere.

    Args:
        doing: What is being done.
        quiet: Show nothing.
    """
    if quiet or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console  # noqa: PLC0415 - loaded when something is shown
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (SpinnerColumn(), TextColumn("nsyswrap: {task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as display:
        display.add_task(doing, total=None)
        yield


class _Lines:
    """One line a phase, for logs."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._phase: Phase | None = None

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    def update(self, phase: Phase, share: float | None) -> None:  # noqa: ARG002 - a line has no share
        if phase is not self._phase and not self._quiet:
            click.echo(f"nsyswrap: {LABELS[phase]} ...", err=True)
        self._phase = phase


class _Bars:
    """A bar for each phase after the program; while it runs, the time in the terminal's title."""

    def __init__(self) -> None:
        from rich.console import Console  # noqa: PLC0415 - loaded when something is shown
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415
        from rich.progress import Progress as Bars  # noqa: PLC0415

        columns = (TextColumn("nsyswrap: {task.description}"), BarColumn(), TimeElapsedColumn())
        self._bars = Bars(*columns, console=Console(stderr=True), transient=True)
        self._tasks: dict[Phase, int] = {}
        self._title = _Title()

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._title.stop()
        self._bars.stop()

    def update(self, phase: Phase, share: float | None) -> None:
        if phase is Phase.RUNNING:
            self._title.start()
            return
        self._title.stop()
        if phase not in self._tasks:
            self._bars.start()
            self._tasks[phase] = int(self._bars.add_task(LABELS[phase], total=None))
        if share is not None:
            from rich.progress import TaskID  # noqa: PLC0415

            self._bars.update(TaskID(self._tasks[phase]), total=1.0, completed=share)


class _Title:
    """The seconds a program has run, in the terminal's title (escape sequence OSC 0 of xterm)."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, args=(time.monotonic(),), daemon=True)
            self._thread.start()

    def stop(self) -> None:
        if self._thread is not None and not self._stop.is_set():
            self._stop.set()
            self._thread.join()
            self._write("")

    def _run(self, began: float) -> None:
        while not self._stop.is_set():
            self._write(f"nsyswrap: recording, {time.monotonic() - began:.0f} s")
            self._stop.wait(1.0)

    @staticmethod
    def _write(title: str) -> None:
        sys.stderr.write(f"\x1b]0;{title}\x07")
        sys.stderr.flush()
