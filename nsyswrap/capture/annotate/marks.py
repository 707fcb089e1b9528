"""Decides which ranges this process opens: what its marked calls cover, and where one step ends and the next begins.

A step lasts from the end of one optimizer step to the end of the next, so the steps of a training loop cover it without
gaps::

    step 17 |data|        |backward| |optimizer| step 18 |data| ...

A marked call is known by its frame: the same call that began a range ends it. A call that an exception ended is never
seen to end. Its range is left without an end, and the next call of its kind begins another one.
"""

import dis
import os
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from types import CodeType, FrameType
from typing import Any

from .nvtx_calls import Sink
from .process_start import warn

DATA, BACKWARD, OPTIMIZER = "data", "backward", "optimizer"
COLLECTION, TOKENIZER, CHECKPOINT = "garbage collection", "tokenizer", "checkpoint"
COLORS = {DATA: 0xD62728, BACKWARD: 0x1F77B4, OPTIMIZER: 0x9467BD}
OLIVE = 0xBCBD22
AT = " at "

# Ranges with the calling line are described once for each text. A program has few such lines; after this many, new
# texts have no line.
MOST_TEXTS = 1000
# How far up the stack an enclosing call of the same kind, or a line of the program, is looked for.
MOST_FRAMES = 100
# Parts of the paths of code that is not the program's own; the last is the standard library.
LIBRARIES = ("site-packages", "dist-packages", "/lib/python3")
# The youngest generation of CPython's collector: its collections are short, and there are many.
YOUNGEST = 0


class _Thread(threading.local):
    """What is open on a thread, and where its steps are.

    Attributes:
        open: For each kind of call that is open: the id of its frame, and the number of its range.
        step: The number of the open range of a step; 0 for none.
        steps: How many steps have ended.
        owner: Weak reference to the optimizer whose steps end steps.
        others: Other optimizers that have stepped since.
        collection: The number of the range of the collection that is running.
    """

    def __init__(self) -> None:
        self.open: dict[str, tuple[int, int]] = {}
        self.step = self.steps = self.collection = 0
        self.owner: Callable[[], Any] | None = None
        self.others: set[int] = set()


class Marks:
    """Opens and closes the ranges of this process. Its methods do not raise.

    Args:
        sink: Takes the ranges.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink: Sink | None = sink
        self._described: dict[str, Any] = {kind: sink.described(kind, color) for kind, color in COLORS.items()}
        self._thread = _Thread()
        self._collecting: dict[int, tuple[CodeType, frozenset[int]]] = {}

    def begin(self, kind: str, frame: FrameType, text: str = "") -> None:
        """Begin a range for a call, unless the call is part of another one of its kind on this thread.

        Args:
            kind: What the call does.
            frame: Its frame, or that of the function that makes it.
            text: Text of the range, to which the calling line of the program is added; empty for the kind alone.
        """
        try:
            found = self._thread.open.get(kind)
            if found is not None and _is_open(found[0], frame):
                return
            name = self._with_line(text, frame.f_back) if text else kind
            self._thread.open[kind] = id(frame), self._start(name)
        except Exception as error:  # noqa: BLE001 - no error here may end the program
            self._fail(error)

    def end(self, kind: str, frame: FrameType) -> None:
        """End the range of a call, if this call began one."""
        try:
            found = self._thread.open.get(kind)
            if found is not None and found[0] == id(frame):
                del self._thread.open[kind]
                self._end(found[1])
        except Exception as error:  # noqa: BLE001 - see begin
            self._fail(error)

    def note_batch(self, *, grad: bool) -> None:
        """Note that a batch is about to be loaded: the first step begins with it, and evaluation is part of no step.

        Args:
            grad: Whether gradients are on.
        """
        try:
            thread = self._thread
            if not grad:
                thread.step = 0
            elif not thread.step:
                thread.step = self._start_step(thread.steps)
        except Exception as error:  # noqa: BLE001 - see begin
            self._fail(error)

    def note_optimizer_step(self, optimizer: object) -> None:
        """Note that an optimizer has stepped; if it is the one that defines steps, one step ends and another begins.

        Of several optimizers the first one defines steps, as long as it continues to step.

        Args:
            optimizer: The optimizer.
        """
        try:
            thread = self._thread
            owner = thread.owner() if thread.owner else None
            if owner is not optimizer:
                if owner is not None and id(optimizer) not in thread.others:
                    thread.others.add(id(optimizer))
                    return
                thread.owner = _reference(optimizer)
            if thread.step:
                self._end(thread.step)
            thread.steps += 1
            thread.others.clear()
            thread.step = self._start_step(thread.steps)
        except Exception as error:  # noqa: BLE001 - see begin
            self._fail(error)

    def note_collection(self, phase: str, info: Mapping[str, int]) -> None:
        """Mark a collection of garbage: a callback of ``gc.callbacks``.

        The mark has the line of the program where the program itself asks for the collection.
        """
        try:
            if info.get("generation", YOUNGEST) == YOUNGEST:
                return
            if phase == "start":
                frame = sys._getframe().f_back  # noqa: SLF001 - where the collection runs; None at the very end
                is_explicit = frame is not None and self._asks_for_collection(frame)
                name = self._with_line(COLLECTION, frame) if is_explicit else COLLECTION
                self._thread.collection = self._start(name)
            else:
                self._end(self._thread.collection)
        except Exception as error:  # noqa: BLE001 - see begin
            self._fail(error)

    def reset(self) -> None:
        """Forget what is open in a forked process, whose ranges are its own."""
        self._thread = _Thread()

    def _start(self, name: str) -> int:
        if self._sink is None:
            return 0
        described = self._described.get(name)
        if described is None:
            described = self._described[name] = self._sink.described(name, OLIVE)
        return self._sink.start(described)

    def _start_step(self, number: int) -> int:
        return 0 if self._sink is None else self._sink.start_step(number)

    def _end(self, number: int) -> None:
        if self._sink is not None and number:
            self._sink.end(number)

    def _with_line(self, text: str, frame: "FrameType | None") -> str:
        name = f"{text}{AT}{place_of(frame)}"
        return text if name not in self._described and len(self._described) >= MOST_TEXTS else name

    def _asks_for_collection(self, frame: FrameType) -> bool:
        """Return whether a frame is calling ``gc.collect``, under its own name."""
        code = frame.f_code
        if "collect" not in code.co_names:
            return False
        known = self._collecting.get(id(code))
        if known is None or known[0] is not code:
            known = self._collecting[id(code)] = code, frozenset(_calls_of("collect", code))
        return frame.f_lasti in known[1]

    def _fail(self, error: Exception) -> None:
        """Send no more ranges, and print a warning once."""
        if self._sink is not None:
            self._sink = None
            warn(f"no more marks are made: {type(error).__name__}: {error}")


def place_of(frame: "FrameType | None") -> str:
    """Return file and line of the innermost frame of the program's own code; without any, of the innermost frame."""
    own = frame
    for _ in range(MOST_FRAMES):
        if own is None:
            break
        name = own.f_code.co_filename
        if not name.startswith("<") and not any(each in name for each in LIBRARIES):
            break
        own = own.f_back
    found = own or frame
    return f"{os.path.basename(found.f_code.co_filename)}:{found.f_lineno}" if found else "unknown"  # noqa: PTH119


def _is_open(number: int, frame: FrameType) -> bool:
    """Return whether the frame with an id is among those that called a frame."""
    caller = frame.f_back
    for _ in range(MOST_FRAMES):
        if caller is None:
            return False
        if id(caller) == number:
            return True
        caller = caller.f_back
    return False


def _calls_of(name: str, code: CodeType) -> "list[int]":
    """Return the offsets of the calls of a function, or a method, with a name."""
    found, loaded = [], False
    for each in dis.get_instructions(code):
        if each.opname.startswith("CALL") and loaded:
            found.append(each.offset)
        if each.opname.startswith("LOAD") and each.argval == name:
            loaded = True
        elif not each.opname.startswith(("LOAD_CONST", "LOAD_FAST", "PUSH_NULL", "PRECALL", "KW_NAMES")):
            loaded = False
    return found


def _reference(target: object) -> "Callable[[], Any]":
    """Return a weak reference to an object, or a function that returns None if it does not support them."""
    try:
        return weakref.ref(target)
    except TypeError:
        return lambda: None
