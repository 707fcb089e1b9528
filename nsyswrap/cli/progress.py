"""Progress of a capture on stderr: bars on a terminal, one line for each phase elsewhere.

While the program runs, the terminal belongs to it: the title of the terminal shows step, rate and time left, where they
cannot overwrite the program's output. A line says what begins.
"""

import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import click

from nsyswrap.base import units
from nsyswrap.capture.progress import Phase
from nsyswrap.capture.step_watch import StepState

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

LABELS = {
    Phase.RUNNING: "running under nsys",
    Phase.WRITING: "nsys writes its report",
    Phase.EXPORTING: "nsys exports to SQLite",
}
# What a program does that records its own steps, by the phase of its ``StepState``.
STEP_LABELS = {
    "warm-up": "warm-up",
    "alone": "timing steps, not recorded yet",
    "recording": "recording steps",
    "x-ray": "X-ray of a step: what each operator does",
    "ended": "steps are recorded, the program runs on",
}


@contextmanager
def shown(*, quiet: bool = False) -> "Iterator[_Bars | _Lines]":
    """Yield a display until the end of the block: a progress callback, whose ``show_steps`` shows steps."""
    if quiet or not sys.stderr.isatty():
        yield _Lines(quiet=quiet)
        return
    bars = _Bars()
    try:
        yield bars
    finally:
        bars.stop()


def _step_text(state: StepState) -> str:
    """Return where a program is, for its user."""
    step = "" if state.step is None else f", step {state.step}"
    rate = "" if state.per_s is None else f", {state.per_s:.3g} steps/s"
    left = "" if state.left_s is None else f", {state.left_s:.0f} s left"
    return f"{STEP_LABELS[state.phase]}{step}{rate}{left}"


@contextmanager
def working(activity: str, *, quiet: bool = False) -> Iterator[None]:
    """Show a spinner with the elapsed time on a terminal until the end of the block; show nothing elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    with _display("spinner") as display:
        display.add_task(activity, total=None)
        yield


def _display(kind: Literal["spinner", "bar", "count"]) -> "Progress":
    """Return the display of a terminal: what is done, a spinner, or a bar and for a count its numbers, and the time."""
    from rich import progress  # noqa: PLC0415 - loaded when something is shown
    from rich.console import Console  # noqa: PLC0415

    text, bar, time_taken = (
        progress.TextColumn("nsyswrap: {task.description}"),
        progress.BarColumn(),
        progress.TimeElapsedColumn(),
    )
    columns = {
        "spinner": (progress.SpinnerColumn(), text, time_taken),
        "bar": (text, bar, time_taken),
        "count": (text, bar, progress.MofNCompleteColumn(), time_taken),
    }
    return progress.Progress(*columns[kind], console=Console(stderr=True), transient=True)


# Where there is no terminal, a line for each of so many parts of the work.
_PARTS = 10


@contextmanager
def counting(total: int) -> Iterator[Callable[[], None]]:
    """Yield a function to call after each capture; a terminal shows a bar, and elsewhere each tenth has a line."""
    if not sys.stderr.isatty():
        count = itertools.count(1)

        def line() -> None:
            number = next(count)
            if number * _PARTS // total > (number - 1) * _PARTS // total:
                click.echo(f"nsyswrap: analyzed {number} of {total} captures", err=True)

        yield line
        return
    with _display("count") as display:
        task = display.add_task("analyzed captures", total=total)
        yield lambda: display.advance(task)


@contextmanager
def reading(*, quiet: bool = False) -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function to call with what is done, how many rows are done, and of how many.

    A terminal shows a bar for each thing that is done, and before the first call a spinner. Elsewhere each tenth has a
    line. A capture that is read whole is read at once and shows no rows.
    """
    if quiet:
        yield lambda _what, _done, _all: None
        return
    if not sys.stderr.isatty():
        last = ("", -1)

        def line(what: str, done: int, every: int) -> None:
            nonlocal last
            tenth = done * _PARTS // max(every, 1)
            if (what, tenth) != last:
                last = (what, tenth)
                click.echo(f"nsyswrap: {READING[what]}: {100 * tenth // _PARTS} %", err=True)

        yield line
        return
    with _display("bar") as display:
        tasks = {"": display.add_task("reading the export", total=None)}

        def update(what: str, done: int, every: int) -> None:
            if what not in tasks:
                display.update(tasks[""], visible=False)
                tasks[what] = display.add_task(f"{READING[what]} ({units.counted(every, 'row')})", total=every)
            display.update(tasks[what], total=every, completed=done)

        yield update


# What `loop.large_capture` does with the rows of an export, by its word for it.
READING = {
    "finding": "finding where the rows of the capture are",
    "adding up": "adding up all GPU operations",
    "reading": "reading a part in detail",
}


# A log gets a line on a program's steps so often, in seconds: a run of an hour has 360.
_LINE_S = 10.0


class _Lines:
    """Prints one line for each phase, and some for the steps of a program, for logs."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._phase: Phase | None = None
        self._steps: tuple[str, bool] | None = None
        self._printed_s = 0.0

    def __call__(self, phase: Phase, share: float | None) -> None:  # noqa: ARG002 - a line shows no share
        if phase is not self._phase and not self._quiet:
            click.echo(f"nsyswrap: {LABELS[phase]} ...", err=True)
        self._phase = phase

    def show_steps(self, state: StepState) -> None:
        steps, now_s = (state.phase, state.per_s is None), time.monotonic()
        if not self._quiet and (steps != self._steps or now_s - self._printed_s >= _LINE_S):
            click.echo(f"nsyswrap: {_step_text(state)}", err=True)
            self._steps, self._printed_s = steps, now_s


class _Bars:
    """Shows a bar for each phase after the program, and the elapsed time in the terminal's title while it runs."""

    def __init__(self) -> None:
        self._bars = _display("bar")
        self._tasks: dict[Phase, TaskID] = {}
        self._title = _Title()
        self._begun = ""

    def stop(self) -> None:
        self._title.stop()
        self._bars.stop()

    def show_steps(self, state: StepState) -> None:
        self._title.text = _step_text(state)
        if state.phase != self._begun:
            self._begun = state.phase
            click.echo(f"nsyswrap: {_step_text(state)}", err=True)

    def __call__(self, phase: Phase, share: float | None) -> None:
        if phase is Phase.RUNNING:
            self._title.start()
            return
        self._title.stop()
        if phase not in self._tasks:
            self._bars.start()
            self._tasks[phase] = self._bars.add_task(LABELS[phase], total=None)
        if share is not None:
            self._bars.update(self._tasks[phase], total=1.0, completed=share)


class _Title:
    """Shows what the program does, and for how long, in the terminal's title (escape sequence OSC 0 of xterm)."""

    def __init__(self) -> None:
        self.text = LABELS[Phase.RUNNING]
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

    def _run(self, started: float) -> None:
        while not self._stop.is_set():
            self._write(f"nsyswrap: {self.text}, {time.monotonic() - started:.0f} s")
            self._stop.wait(1.0)

    @staticmethod
    def _write(title: str) -> None:
        sys.stderr.write(f"\x1b]0;{title}\x07")
        sys.stderr.flush()
