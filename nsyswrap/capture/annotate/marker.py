"""Opens and closes the ranges of this process, and decides where one step ends and the next begins.

Each thread has a stack: at the bottom a step, above it phases. A step lasts from one optimizer step to the next, so the
steps of a training loop cover it without gaps::

    step 17 |data|copy|forward      |backward      |optimizer| step 18 |data| ...

Where batches are only evaluated, a range ``batch N`` lasts from one batch to the next. The report uses the ``step``
ranges of a process that trains, and the ``batch`` ranges of one that does not.
"""

import contextlib
import sys
import threading
import weakref
from _thread import get_ident
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol

from .nvtx_calls import Prepared
from .thread_state import Threads, ThreadState

DATA, COPY, FORWARD, BACKWARD, OPTIMIZER = "data", "copy", "forward", "backward", "optimizer"
WORKER = "loader worker"

COLORS = {DATA: 0xD62728, COPY: 0xFF7F0E, FORWARD: 0x2CA02C, BACKWARD: 0x1F77B4, OPTIMIZER: 0x9467BD, WORKER: 0x8C564B}
GRAY = 0x7F7F7F

# How many step ranges to prepare at once: 16 in a row cost little more than one between two phases.
AHEAD = 16


class Sink(Protocol):
    """Opens and closes ranges; the profiler or a test."""

    def opener(self, name: str, color: int) -> Prepared:
        """Return a prepared call that opens a range with this text on the calling thread; it can be used many times."""

    def closer(self) -> Prepared:
        """Return a prepared call that closes the last opened range of the calling thread."""


class Marker:
    """Opens and closes the ranges of this process. Its methods do not raise.

    A method that opens a phase returns the state of the thread, or None if it opened nothing. The caller passes the
    state to ``end``, so that it is looked up once.

    Between two marks the program evicts the marker from the CPU caches, so the number of objects that a mark touches
    decides its time. So the main thread, which trains in most programs, finds its state without a thread-local lookup.
    Each module that is called asks ``inside``: a context variable is read in a fifth of the time of a thread-local
    one. A thread may begin with the context of another one; its first outermost module puts that right.

    ``compiled_marker.c`` has the same methods, in compiled code.

    Args:
        sink: Opens and closes ranges.

    Attributes:
        threads: The state of each thread.
        inside: Returns something true while a module of this context is called, so that other modules are parts of it.
    """

    __slots__ = (
        "_ahead",
        "_backwards",
        "_closer",
        "_current",
        "_failed",
        "_main",
        "_main_thread",
        "_openers",
        "_sink",
        "inside",
        "threads",
    )

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._ahead: dict[str, dict[int, Prepared]] = {"step": {}, "batch": {}}
        self._closer = sink.closer()
        self._openers = {phase: sink.opener(phase, color) for phase, color in COLORS.items()}
        self._failed = False
        self._backwards = 0
        self.threads = Threads()
        # The modules that are called by the thread that last called an outermost one in this context.
        self._current: ContextVar[list[bool]] = ContextVar("current", default=[])  # noqa: B039 - never changed
        self.inside = self._current.get
        self._main, self._main_thread = ThreadState(), 0
        if threading.current_thread() is threading.main_thread():
            self._main, self._main_thread = self.threads.state, get_ident()

    def begin_data(self, *, grad: bool) -> "ThreadState | None":
        """Open "data" for the next batch, in the step that it belongs to; return None if one is open already.

        Args:
            grad: Whether gradients are on.
        """
        try:
            state = self._main if get_ident() == self._main_thread else self.threads.state
            if not state.open:
                evaluating = not grad or _left_training(state)
                if evaluating or state.had_forward or state.step != "step":  # else this is the step's first batch
                    self._ensure_step(state, evaluating=evaluating, new_batch=True)
            elif DATA in state.open:
                return None
            state.reads = True
            state.open.append(DATA)
            call, arguments = self._openers[DATA]
            call(*arguments)
        except Exception as error:  # noqa: BLE001 - no error here may end the program
            self._fail(error)
            return None
        return state

    def begin_forward(self, module: object, *, grad: bool) -> "ThreadState | None":
        """Open "forward" for a module that no other module calls; return None inside another, or inside backward.

        Args:
            module: The module.
            grad: Whether gradients are on.
        """
        try:
            state = self._main if get_ident() == self._main_thread else self.threads.state
            if self._backwards or state.inside:
                return None
            if not state.open and not (state.reads and state.step):
                same = state.trained is None or state.trained[0]() is module
                repeated = state.root is not None and state.root() is module
                self._ensure_step(state, evaluating=not grad and same, new_batch=repeated)
            reference = _reference(module)
            if state.root is None:
                state.root = reference
            if grad:
                state.last = reference, bool(getattr(module, "training", True))
            if self.inside() is not state.inside:
                self._current.set(state.inside)
            state.had_forward = True
            state.inside.append(True)
            state.open.append(FORWARD)
            call, arguments = self._openers[FORWARD]
            call(*arguments)
        except Exception as error:  # noqa: BLE001 - see begin_data
            self._fail(error)
            return None
        return state

    def begin_backward(self) -> "ThreadState | None":
        """Open "backward"; return None inside another of this thread."""
        try:
            state = self._main if get_ident() == self._main_thread else self.threads.state
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
        """Open a phase that does not affect steps; return None if it is open already."""
        try:
            state = self._main if get_ident() == self._main_thread else self.threads.state
            if phase in state.open:
                return None
            state.open.append(phase)
            call, arguments = self._openers[phase]
            call(*arguments)
        except Exception as error:  # noqa: BLE001 - see begin_data
            self._fail(error)
            return None
        return state

    def begin_copy(self) -> "ThreadState | None":
        """Open "copy"; return None if it is open already, or while a module is moved."""
        return None if self.threads.state.moving else self.begin(COPY)

    def begin_move(self) -> "ThreadState | None":
        """Record that a module is moved to a device; return None if one is being moved already."""
        state = self.threads.state
        if state.moving:
            return None
        state.moving = True
        return state

    def end_move(self, state: ThreadState) -> None:
        """Record that a module has been moved.

        Args:
            state: The state that ``begin_move`` returned.
        """
        state.moving = False

    def note_optimizer_step(self, state: ThreadState, optimizer: object) -> None:
        """Record that an optimizer steps; if it is the one that defines steps, the step ends after its phase.

        Of several optimizers the first one defines steps, as long as it continues to step.

        Args:
            state: The state that ``begin`` returned.
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
        """Close the last opened phase of this thread, and the step if it is over.

        Args:
            state: The state that the opening method returned.
        """
        try:
            if not state.open:
                return
            phase = state.open.pop()
            if phase == FORWARD:
                state.inside.clear()
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
        """Close all ranges of this thread, at the end of the program."""
        state = self.threads.state
        while state.open:
            self.end(state)
        self._close_step(state, done=False)

    def reset(self) -> None:
        """Reset the state in a forked process, where no range is open."""
        self._main, self._main_thread = self.threads.state, get_ident()
        self._main.clear()
        self._backwards = 0

    def _ensure_step(self, state: ThreadState, *, evaluating: bool, new_batch: bool) -> None:
        """Ensure that the right "step" or "batch" range is open before a phase begins.

        Args:
            state: The state of the thread.
            evaluating: Whether the phase belongs to evaluation.
            new_batch: Whether the phase starts a new batch if the previous one was only evaluated.
        """
        wanted = "batch" if evaluating else "step"
        untrained = wanted == "batch" or state.trained is None
        over = new_batch and state.had_forward and not state.had_backward and untrained
        if state.step and (state.step != wanted or over):
            self._close_step(state, done=state.step == wanted)
        if not state.step:
            self._open_step(state, wanted)

    def _open_step(self, state: ThreadState, kind: str) -> None:
        state.step = kind
        state.root = None
        state.had_forward = state.had_backward = False
        if state.others:
            state.others.clear()
        number = state.steps if kind == "step" else state.batches
        call, arguments = self._ahead[kind].get(number) or self._prepare_steps(kind, number)
        call(*arguments)

    def _prepare_steps(self, kind: str, number: int) -> Prepared:
        """Prepare the ranges of the next steps, and return the first one."""
        prepared = {each: self._sink.opener(f"{kind} {each}", GRAY) for each in range(number, number + AHEAD)}
        self._ahead[kind] = prepared
        return prepared[number]

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
        """Stop sending ranges, and print a warning once."""
        self._sink, self._closer = _NoSink(), _NOTHING
        self._ahead = {"step": {}, "batch": {}}
        self._openers = dict.fromkeys(COLORS, _NOTHING)
        if not self._failed:
            self._failed = True
            warn(f"no more phases are marked: {type(error).__name__}: {error}")


def warn(text: str) -> None:
    """Print a warning on stderr, unless stderr is closed."""
    with contextlib.suppress(Exception):  # the program may have closed stderr
        sys.stderr.write(f"nsyswrap: annotate: {text}\n")


def _left_training(state: ThreadState) -> bool:
    """Return whether the trained module has been switched to evaluation mode."""
    if state.trained is None:
        return False
    reference, training = state.trained
    module = reference()
    return training and module is not None and not getattr(module, "training", True)


def _reference(target: object) -> Callable[[], Any]:
    """Return a weak reference to an object, or a function that returns None if it does not support them."""
    try:
        return weakref.ref(target)
    except TypeError:
        return _nothing


def _nothing() -> None:
    return None


_NOTHING: Prepared = (_nothing, ())


class _NoSink:
    """Ignores ranges, after an error."""

    def opener(self, name: str, color: int) -> Prepared:  # noqa: ARG002 - the signature of Sink
        return _NOTHING

    def closer(self) -> Prepared:
        return _NOTHING
