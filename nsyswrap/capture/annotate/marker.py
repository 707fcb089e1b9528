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


class ThreadState:
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
        state: What this one does.
    """

    def __init__(self) -> None:
        self.state = ThreadState()


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

    def begin_data(self, *, grad: bool) -> "ThreadState | None":
        """Open "data" for the next batch, in the step that it belongs to; None where one is open already.

        Args:
            grad: Whether gradients are on.
        """
        try:
            state = self.threads.state
            if DATA in state.open:
                return None
            if not state.open:
                self._place(state, evaluating=not grad or _left_training(state), again=True)
            state.reads = True
            state.open.append(DATA)
            call, arguments = self._openers[DATA]
            call(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong state is no reason to end the program
            self._fail(error)
            return None
        return state

    def begin_forward(self, module: object, *, grad: bool) -> "ThreadState | None":
        """Open "forward" for a module that no other module calls; None inside another, or inside backward.

        Args:
            module: The module.
            grad: Whether gradients are on.
        """
        try:
            state = self.threads.state
            if self._backwards or state.inside:
                return None
            if not state.open and not (state.reads and state.step):
                same = state.trained is None or state.trained[0]() is module
                self._place(
                    state, evaluating=not grad and same, again=state.root is not None and state.root() is module
                )
            reference = _reference(module)
            if state.root is None:
                state.root = reference
            if grad:
                state.last = reference, bool(getattr(module, "training", True))
            state.had_forward = state.inside = True
            state.open.append(FORWARD)
            call, arguments = self._openers[FORWARD]
            call(*arguments)
        except Exception as error:  # noqa: BLE001 - see begin_data
            self._fail(error)
            return None
        return state

    def begin_backward(self) -> "ThreadState | None":
        """Open "backward"; None inside another of this thread."""
        try:
            state = self.threads.state
            if BACKWARD in state.open:
                return None
            state.had_backward = True
            state.trained = state.last or state.trained
            self._backwards += 1
            state.open.append(BACKWARD)
            call, arguments = self._openers[BACKWARD]
            call(*arguments)
        except Exception as error:  # noqa: BLE001 - see begin_data
            self._fail(error)
            return None
        return state

    def begin(self, phase: str) -> "ThreadState | None":
        """Open a phase that says nothing of the step; None where it is open already."""
        try:
            state = self.threads.state
            if phase in state.open:
                return None
            state.open.append(phase)
            call, arguments = self._openers[phase]
            call(*arguments)
        except Exception as error:  # noqa: BLE001 - see begin_data
            self._fail(error)
            return None
        return state

    def stepped(self, state: ThreadState, optimizer: object) -> None:
        """Say that an optimizer takes its step: where it is the one that steps are counted by, the step is over.

        With several optimizers it is the first, as long as it goes on stepping.

        Args:
            state: What opened its phase returned.
            optimizer: The optimizer.
        """
        if self._backwards:
            return
        owner = state.owner() if state.owner else None
        if owner is not optimizer:
            if owner is not None and id(optimizer) not in state.others:
                state.others.add(id(optimizer))
                return
            state.owner = _reference(optimizer)
        state.due = True

    def end(self, state: ThreadState) -> None:
        """Close the phase that was opened last on this thread, and the step where it is over.

        Args:
            state: What opened it returned.
        """
        try:
            if not state.open:
                return
            phase = state.open.pop()
            if phase == FORWARD:
                state.inside = False
            elif phase == BACKWARD:
                self._backwards -= 1
            call, arguments = self._closer
            call(*arguments)
            if state.due and not state.open:
                state.due = False
                self._close_step(state, done=True)
                self._open_step(state, "step")
        except Exception as error:  # noqa: BLE001 - see begin_data
            self._fail(error)

    def finish(self) -> None:
        """Close all that is open on this thread: the program ends."""
        state = self.threads.state
        while state.open:
            self.end(state)
        self._close_step(state, done=False)

    def forget(self) -> None:
        """Begin anew, in a process that was forked: nothing is open in it."""
        self.threads.state.clear()
        self._backwards = 0

    def _place(self, state: ThreadState, *, evaluating: bool, again: bool) -> None:
        """Have the right range open below a phase that begins.

        Args:
            state: What this thread is doing.
            evaluating: Whether what begins is evaluation.
            again: Whether it begins a batch, where the batch before was only evaluated.
        """
        wanted = "batch" if evaluating else "step"
        untrained = wanted == "batch" or state.trained is None
        over = again and state.had_forward and not state.had_backward and untrained
        if state.step and (state.step != wanted or over):
            self._close_step(state, done=state.step == wanted)
        if not state.step:
            self._open_step(state, wanted)

    def _open_step(self, state: ThreadState, kind: str) -> None:
        state.step = kind
        state.root = None
        state.had_forward = state.had_backward = False
        state.others.clear()
        number = state.steps if kind == "step" else state.batches
        found = self._ahead.get(f"{kind} {number}") or self._made_ready(kind, number)
        call, arguments = found
        call(*arguments)

    def _made_ready(self, kind: str, number: int) -> Prepared:
        """Return what opens the range of a step, and keep it for the next ones."""
        names = [f"{kind} {number + ahead}" for ahead in range(AHEAD)]
        self._ahead = ready = {name: self._sink.opener(name, GRAY) for name in names}
        return ready[names[0]]

    def _close_step(self, state: ThreadState, *, done: bool) -> None:
        if not state.step:
            return
        call, arguments = self._closer
        call(*arguments)
        if done and state.step == "step":
            state.steps += 1
        elif state.step == "batch":
            state.batches += 1
        state.step = ""

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


def _left_training(state: ThreadState) -> bool:
    """Return whether the module that is trained was switched to evaluation."""
    if state.trained is None:
        return False
    reference, training = state.trained
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
