"""What the marker remembers of each thread: its open ranges, and the history that decides where its steps end."""

import threading
from collections.abc import Callable  # noqa: TC003 - typing takes long to import
from typing import Any


class ThreadState:
    """The open ranges of one thread, and the history that decides where its steps end.

    Attributes:
        inside: Holds True while "forward" is open, so that modules which are called now are parts of another.
        open: Open phases, the innermost last.
        step: The range below them: "step", "batch" or empty.
        steps: Number of optimizer steps done.
        batches: Number of batches evaluated.
        due: Whether the step ends as soon as no phase is open.
        moving: Whether a module is being moved to a device, which is not a copy of a batch.
        reads: Whether a loader was ever read on this thread.
        had_forward: Whether the step had a forward pass; likewise had_backward.
        root: The first module that was called in the step.
        last: The last module that was called with gradients on, and whether it was in training mode.
        trained: The same for the last backward pass.
        owner: The optimizer whose steps end steps.
        others: Other optimizers that have stepped since.
    """

    __slots__ = (
        "batches",
        "due",
        "had_backward",
        "had_forward",
        "inside",
        "last",
        "moving",
        "open",
        "others",
        "owner",
        "reads",
        "root",
        "step",
        "steps",
        "trained",
    )

    def __init__(self) -> None:
        self.inside: list[bool] = []
        self.clear()

    def clear(self) -> None:
        """Reset everything: nothing is open."""
        self.inside.clear()
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
    """The state of each thread.

    Attributes:
        state: The state of the current thread.
    """

    def __init__(self) -> None:
        self.state = ThreadState()
