"""Which ranges of this process are open, and where one step ends and the next begins.

Each thread has a stack: at the bottom a step, above it phases. A step lasts from one optimizer step to the next, so
that the steps of a training loop tile it::

    step 17 |data|copy|forward      |backward      |optimizer| step 18 |data| ...

Where batches are only evaluated, a range ``batch N`` lasts from one batch to the next. It is no step of training: the
report counts ``step`` where a process trains, and ``batch`` where it does not.
"""

import contextlib
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from .nvtx_calls import Prepared

DATA, COPY, FORWARD, BACKWARD, OPTIMIZER = "data", "copy", "forward", "backward", "optimizer"
WORKER = "loader worker"

COLORS = {DATA: 0xD62728, COPY: 0xFF7F0E, FORWARD: 0x2CA02C, BACKWARD: 0x1F77B4, OPTIMIZER: 0x9467BD, WORKER: 0x8C564B}
GRAY = 0x7F7F7F

# Ranges of steps that are made ready at once: 16 in a row cost little more than one between two phases.
AHEAD = 16


class Sink(Protocol):
    """What takes the ranges."""

    def opener(self, name: str, color: int) -> Prepared:
        """Return what opens a range of this text on the thread that calls it, as often as it is called."""

    def closer(self) -> Prepared:
        """Return what closes the range that was opened last on the thread that calls it."""


class Here:
    """What one thread is doing.

    Attributes:
        inside: Whether "forward" is open: the modules that are called now are parts of another.
        open: Phases open, the innermost last.
        step: The range below them: "step", "batch" or nothing.
        steps: Optimizer steps done.
        batches: Batches evaluated.
        due: Whether the step is over, and ends when no phase is open.
        moving: Whether a whole module moves to a device, which is no copy of a batch.
        reads: Whether a loader was ever read on this thread.
        had_forward: Whether the step had a forward pass; likewise had_backward.
        root: The first module that was called in the step.
        last: The last module that was called with gradients on, and whether it was in training mode.
        trained: The same, of the last backward pass.
        owner: The optimizer whose steps end steps.
        others: Other optimizers that stepped since.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything: nothing is open."""
        self.inside = False
        self.open: list[str] = []
        self.step = ""
        self.steps = self.batches = 0
        self.due = self.moving = self.reads = False
        self.had_forward = self.had_backward = False
        self.root: Callable[[], Any] | None = None
        self.last: tuple[Callable[[], Any], bool] | None = None
        self.trained: tuple[Callable[[], Any], bool] | None = None
        self.owner: Callable[[], Any] | None = None
        self.others: set[int] = set()


class Threads(threading.local):
    """What each thread is doing.

    Attributes:
        here: What this one does.
    """

    def __init__(self) -> None:
        self.here = Here()


class Marker:
    """Opens and closes the ranges of this process. Nothing it does raises.

    What opens a phase returns what this thread is doing, and None where it opened nothing. What closes it is given that
    again, since to find out anew is the dearest part of it.

    Args:
        sink: What takes the ranges.

    Attributes:
        threads: What each thread is doing.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._ahead: dict[str, Prepared] = {}
        self._closer = sink.closer()
        self._openers = {phase: sink.opener(phase, color) for phase, color in COLORS.items()}
        self._failed = False
        self._backwards = 0
        self.threads = Threads()

    def begin_data(self, *, grad: bool) -> "Here | None":
        """Open "data" for the next batch, in the step that it belongs to; None where one is open already.

        Args:
            grad: Whether gradients are on.
        """
        try:
            here = self.threads.here
            if DATA in here.open:
                return None
            if not here.open:
                self._place(here, evaluating=not grad or _left_training(here), again=True)
            here.reads = True
            here.open.append(DATA)
            call, arguments = self._openers[DATA]
            call(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong here is no reason to end the program
            self._fail(error)
            return None
        return here

    def begin_forward(self, module: object, *, grad: bool) -> "Here | None":
        """Open "forward" for a module that no other module calls; None inside another, or inside backward.

        Args:
            module: The module.
            grad: Whether gradients are on.
        """
        try:
            here = self.threads.here
            if self._backwards or here.inside:
                return None
            if not here.open and not (here.reads and here.step):
                same = here.trained is None or here.trained[0]() is module
                self._place(here, evaluating=not grad and same, again=here.root is not None and here.root() is module)
            reference = _reference(module)
            if here.root is None:
                here.root = reference
            if grad:
                here.last = reference, bool(getattr(module, "training", True))
            here.had_forward = here.inside = True
            here.open.append(FORWARD)
            call, arguments = self._openers[FORWARD]
            call(*arguments)
        except Exception as error:  # noqa: BLE001 - see begin_data
            self._fail(error)
            return None
        return here

    def begin_backward(self) -> "Here | None":
        """Open "backward"; None inside another of this thread."""
        try:
            here = self.threads.here
            if BACKWARD in here.open:
                return None
            here.had_backward = True
            here.trained = here.last or here.trained
            self._backwards += 1
            here.open.append(BACKWARD)
            call, arguments = self._openers[BACKWARD]
            call(*arguments)
        except Exception as error:  # noqa: BLE001 - see begin_data
            self._fail(error)
            return None
        return here

    def begin(self, phase: str) -> "Here | None":
        """Open a phase that says nothing of the step; None where it is open already."""
        try:
            here = self.threads.here
            if phase in here.open:
                return None
            here.open.append(phase)
            call, arguments = self._openers[phase]
            call(*arguments)
        except Exception as error:  # noqa: BLE001 - see begin_data
            self._fail(error)
            return None
        return here

    def stepped(self, here: Here, optimizer: object) -> None:
        """Say that an optimizer takes its step: where it is the one that steps are counted by, the step is over.

        With several optimizers it is the first, as long as it goes on stepping.

        Args:
            here: What opened its phase returned.
            optimizer: The optimizer.
        """
        if self._backwards:
            return
        owner = here.owner() if here.owner else None
        if owner is not optimizer:
            if owner is not None and id(optimizer) not in here.others:
                here.others.add(id(optimizer))
                return
            here.owner = _reference(optimizer)
        here.due = True

    def end(self, here: Here) -> None:
        """Close the phase that was opened last on this thread, and the step where it is over.

        Args:
            here: What opened it returned.
        """
        try:
            if not here.open:
                return
            phase = here.open.pop()
            if phase == FORWARD:
                here.inside = False
            elif phase == BACKWARD:
                self._backwards -= 1
            call, arguments = self._closer
            call(*arguments)
            if here.due and not here.open:
                here.due = False
                self._close_step(here, done=True)
                self._open_step(here, "step")
        except Exception as error:  # noqa: BLE001 - see begin_data
            self._fail(error)

    def finish(self) -> None:
        """Close all that is open on this thread: the program ends."""
        here = self.threads.here
        while here.open:
            self.end(here)
        self._close_step(here, done=False)

    def forget(self) -> None:
        """Begin anew, in a process that was forked: nothing is open in it."""
        self.threads.here.clear()
        self._backwards = 0

    def _place(self, here: Here, *, evaluating: bool, again: bool) -> None:
        """Have the right range open below a phase that begins.

        Args:
            here: What this thread is doing.
            evaluating: Whether what begins is evaluation.
            again: Whether it begins a batch, where the batch before was only evaluated.
        """
        wanted = "batch" if evaluating else "step"
        untrained = wanted == "batch" or here.trained is None
        over = again and here.had_forward and not here.had_backward and untrained
        if here.step and (here.step != wanted or over):
            self._close_step(here, done=here.step == wanted)
        if not here.step:
            self._open_step(here, wanted)

    def _open_step(self, here: Here, kind: str) -> None:
        here.step = kind
        here.root = None
        here.had_forward = here.had_backward = False
        here.others.clear()
        number = here.steps if kind == "step" else here.batches
        found = self._ahead.get(f"{kind} {number}") or self._made_ready(kind, number)
        call, arguments = found
        call(*arguments)

    def _made_ready(self, kind: str, number: int) -> Prepared:
        """Return what opens the range of a step, and keep it for the next ones."""
        names = [f"{kind} {number + ahead}" for ahead in range(AHEAD)]
        self._ahead = ready = {name: self._sink.opener(name, GRAY) for name in names}
        return ready[names[0]]

    def _close_step(self, here: Here, *, done: bool) -> None:
        if not here.step:
            return
        call, arguments = self._closer
        call(*arguments)
        if done and here.step == "step":
            here.steps += 1
        elif here.step == "batch":
            here.batches += 1
        here.step = ""

    def _fail(self, error: Exception) -> None:
        """Send no more ranges, and say so once."""
        self._sink, self._closer, self._ahead = _Nobody(), _NOTHING, {}
        self._openers = dict.fromkeys(COLORS, _NOTHING)
        if not self._failed:
            self._failed = True
            warn(f"no more phases are marked: {type(error).__name__}: {error}")


def warn(text: str) -> None:
    """Say on stderr what does not work; where there is none, say nothing."""
    with contextlib.suppress(Exception):  # a closed or missing stderr is the program's own choice
        sys.stderr.write(f"nsyswrap: annotate: {text}\n")


def _left_training(here: Here) -> bool:
    """Return whether the module that is trained was switched to evaluation."""
    if here.trained is None:
        return False
    reference, training = here.trained
    module = reference()
    return training and module is not None and not getattr(module, "training", True)


def _reference(thing: object) -> Callable[[], Any]:
    """Return what gives a thing back as long as it lives, and does not keep it alive."""
    try:
        return weakref.ref(thing)
    except TypeError:
        return _nothing


def _nothing() -> None:
    return None


_NOTHING: Prepared = (_nothing, ())


class _Nobody:
    """Takes ranges that nobody wants any more."""

    def opener(self, name: str, color: int) -> Prepared:  # noqa: ARG002 - as any sink
        return _NOTHING

    def closer(self) -> Prepared:
        return _NOTHING
