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

DATA, COPY, FORWARD, BACKWARD, OPTIMIZER = "data", "copy", "forward", "backward", "optimizer"
WORKER = "loader worker"

COLORS = {DATA: 0xD62728, COPY: 0xFF7F0E, FORWARD: 0x2CA02C, BACKWARD: 0x1F77B4, OPTIMIZER: 0x9467BD, WORKER: 0x8C564B}
GRAY = 0x7F7F7F


class Sink(Protocol):
    """What takes the ranges."""

    def push(self, name: str, color: int, *, keep: bool = True) -> None:
        """Open a range on this thread."""

    def pop(self) -> None:
        """Close the last one."""


class Here(threading.local):
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


class Marker:
    """Opens and closes the ranges of this process. Nothing it does raises.

    Args:
        sink: What takes the ranges.

    Attributes:
        here: What this thread is doing.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._failed = False
        self._backwards = 0
        self.here = Here()

    def begin_data(self, *, grad: bool) -> bool:
        """Open "data" for the next batch, in the step that it belongs to; False where one is open already.

        Args:
            grad: Whether gradients are on.
        """
        try:
            here = self.here
            if DATA in here.open:
                return False
            if not here.open:
                self._place(evaluating=not grad or _left_training(here), again=True)
            here.reads = True
            return self._push(DATA)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong here is no reason to end the program
            return self._fail(error)

    def begin_forward(self, module: object, *, grad: bool) -> bool:
        """Open "forward" for a module that no other module calls; False inside another, or inside backward.

        Args:
            module: The module.
            grad: Whether gradients are on.
        """
        try:
            here = self.here
            if self._backwards or here.inside:
                return False
            if not here.open and not (here.reads and here.step):
                same = here.trained is None or here.trained[0]() is module
                self._place(evaluating=not grad and same, again=here.root is not None and here.root() is module)
            if here.root is None:
                here.root = _reference(module)
            if grad:
                here.last = _reference(module), bool(getattr(module, "training", True))
            here.had_forward = here.inside = True
            return self._push(FORWARD)
        except Exception as error:  # noqa: BLE001 - see begin_data
            return self._fail(error)

    def begin_backward(self) -> bool:
        """Open "backward"; False inside another of this thread."""
        try:
            here = self.here
            if BACKWARD in here.open:
                return False
            here.had_backward = True
            here.trained = here.last or here.trained
            self._backwards += 1
            return self._push(BACKWARD)
        except Exception as error:  # noqa: BLE001 - see begin_data
            return self._fail(error)

    def begin(self, phase: str) -> bool:
        """Open a phase that says nothing of the step; False where it is open already."""
        try:
            return phase not in self.here.open and self._push(phase)
        except Exception as error:  # noqa: BLE001 - see begin_data
            return self._fail(error)

    def stepped(self, optimizer: object) -> None:
        """Say that an optimizer takes its step: where it is the one that steps are counted by, the step is over.

        With several optimizers it is the first, as long as it goes on stepping.
        """
        here = self.here
        if self._backwards:
            return
        owner = here.owner() if here.owner else None
        if owner is not None and owner is not optimizer and id(optimizer) not in here.others:
            here.others.add(id(optimizer))
            return
        here.owner = _reference(optimizer)
        here.due = True

    def end(self) -> None:
        """Close the phase that was opened last on this thread, and the step where it is over."""
        try:
            here = self.here
            if not here.open:
                return
            phase = here.open.pop()
            if phase == FORWARD:
                here.inside = False
            elif phase == BACKWARD:
                self._backwards -= 1
            self._pop()
            if here.due and not here.open:
                here.due = False
                self._close_step(done=True)
                self._open_step("step")
        except Exception as error:  # noqa: BLE001 - see begin_data
            self._fail(error)

    def finish(self) -> None:
        """Close all that is open on this thread: the program ends."""
        while self.here.open:
            self.end()
        self._close_step(done=False)

    def forget(self) -> None:
        """Begin anew, in a process that was forked: nothing is open in it."""
        self.here.clear()
        self._backwards = 0

    def _place(self, *, evaluating: bool, again: bool) -> None:
        """Have the right range open below a phase that begins.

        Args:
            evaluating: Whether what begins is evaluation.
            again: Whether it begins a batch, where the batch before was only evaluated.
        """
        here = self.here
        wanted = "batch" if evaluating else "step"
        untrained = wanted == "batch" or here.trained is None
        over = again and here.had_forward and not here.had_backward and untrained
        if here.step and (here.step != wanted or over):
            self._close_step(done=here.step == wanted)
        if not here.step:
            self._open_step(wanted)

    def _open_step(self, kind: str) -> None:
        here = self.here
        here.step = kind
        here.root = None
        here.had_forward = here.had_backward = False
        here.others.clear()
        if not self._failed:
            number = here.steps if kind == "step" else here.batches
            self._sink.push(f"{kind} {number}", GRAY, keep=False)

    def _close_step(self, *, done: bool) -> None:
        here = self.here
        if not here.step:
            return
        self._pop()
        if done and here.step == "step":
            here.steps += 1
        elif here.step == "batch":
            here.batches += 1
        here.step = ""

    def _push(self, phase: str) -> bool:
        self.here.open.append(phase)
        if not self._failed:
            self._sink.push(phase, COLORS.get(phase, GRAY))
        return True

    def _pop(self) -> None:
        if not self._failed:
            self._sink.pop()

    def _fail(self, error: Exception) -> bool:
        """Stop sending ranges, and say so once."""
        if not self._failed:
            self._failed = True
            warn(f"no more phases are marked: {type(error).__name__}: {error}")
        return False


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
