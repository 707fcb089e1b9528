# ruff: noqa: ANN401 - what watched calls return may be anything
"""Decides which ranges this process opens: what its marked calls cover, and where one step ends and the next begins.

A step lasts from the end of one optimizer step to the end of the next, so the steps of a training loop cover it without
gaps::

    step 17 |data|  ...  optimizer| step 18 |data|  ...

A call that an exception ends is never seen to end. Its range is left without an end, and the next call of its kind
begins another one.

Between two marks the program evicts the code and the data of marks from the caches of the CPU, so a mark costs what it
touches. A call is known by its code alone, and nothing is looked up for the code of the call before; frames are looked
at only where the line of a call is wanted, or where calls of one kind may be inside one another.
"""

import dis
import os
import sys
import threading
import weakref
from _thread import get_ident
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FrameType
from typing import Any, NamedTuple

from .nvtx_calls import Sink
from .stderr import warn

DATA = "data"
# The step of an optimizer ends a step of the loop. It has no range of its own.
OPTIMIZER = "optimizer"
COLLECTION, TOKENIZER, CHECKPOINT = "garbage collection", "tokenizer", "checkpoint"
# Kinds whose calls have ranges: a call keeps the place of its kind here.
KINDS = (DATA, TOKENIZER, CHECKPOINT)
DATA_PLACE = KINDS.index(DATA)
RED, OLIVE = 0xD62728, 0xBCBD22
AT = " at "

# What steps are, each before those to the left of it: those of optimizers, of ``nsyswrap.steps``, and of the program's
# own ranges, which add their text without its number.
OPTIMIZERS, OWN_LOOP = (0, ""), (1, "")
OWN_RANGES = 2

# Ranges with the calling line are described once for each text. A program has few such lines; after this many, new
# texts have no line.
MOST_TEXTS = 1000
# How far up the stack an enclosing call of the same kind, or a line of the program, is looked for.
MOST_FRAMES = 100
# Parts of the paths of code that is not the program's own; the last is the standard library.
LIBRARIES = ("site-packages", "dist-packages", "/lib/python3")
# The youngest generation of CPython's collector: its collections are short, and there are many.
YOUNGEST = 0


class Call(NamedTuple):
    """Calls that are marked.

    Attributes:
        place: The place of their kind; None where they have no range.
        described: What describes their ranges; where they have none, what is called with their frame.
        text: Text of the ranges, to which the calling line is added; empty for what describes them alone.
    """

    code: CodeType
    place: "int | None"
    described: Any
    text: str


class ThreadState:
    """What is open on a thread, and where its steps are.

    Attributes:
        open: For each kind of call, the number of the range that is open; 0 for none.
        nested: Kinds with a call that began inside another one of the kind.
        step: The number of the range of the open step; 0 for none.
        text: What describes the open step, or the next one.
        texts: What describes the steps after it.
        owner: Weak reference to the optimizer whose steps end steps.
        others: Other optimizers that have stepped since.
        collection: The number of the range of the collection that is running.
    """

    __slots__ = ("collection", "nested", "open", "others", "owner", "step", "steps", "text", "texts")

    def __init__(self, texts: Iterator[Any]) -> None:
        self.open = [0] * len(KINDS)
        self.nested: set[int] = set()
        self.step = self.steps = self.collection = 0
        self.texts, self.text = texts, next(texts)
        self.owner: Callable[[], Any] | None = None
        self.others: set[int] = set()


_NO_CODE = (lambda: None).__code__


class _Threads(threading.local):
    def __init__(self, sink: Sink) -> None:
        self.state = ThreadState(sink.steps())


class Marks:
    """Opens and closes the ranges of this process. Its methods do not raise.

    ``note_other`` is called when other code than that of marked calls returns, with the code and the value.

    Attributes:
        optimizers: How many optimizers were made; where there is one, it need not be looked at.
        codes: The code whose calls are marked.
    """

    def __init__(
        self,
        sink: Sink,
        is_grad_enabled: Callable[[], bool] = lambda: True,
        note_other: Callable[[CodeType, Any], object] = lambda _code, _value: None,
    ) -> None:
        self._sink = sink
        self._domain = sink.domain
        self.send_to(sink.start, sink.end)
        self._is_grad_enabled, self._note_other = is_grad_enabled, note_other
        # By id: Python would read all of a code object for its hash, at each call.
        self._calls: dict[int, Call] = {}
        # The call that was looked up last. It is one object, since threads may take turns at any time.
        self._last = Call(_NO_CODE, None, None, "")
        self._step_code = _NO_CODE
        self.codes: list[CodeType] = []
        self._described: dict[str, Any] = {}
        self._collecting: dict[int, tuple[CodeType, frozenset[int]]] = {}
        self._failed = False
        self.loop, self.optimizers = OPTIMIZERS, 0
        self.reset()

    def send_to(
        self,
        start: Callable[[Any, Any], int],
        end: Callable[[Any, int], object],
        start_step: "Callable[[Any, Any], int] | None" = None,
        *,
        without_lines: bool = False,
    ) -> None:
        """Send the ranges elsewhere from now on.

        Args:
            start: Starts a range in a domain, and returns its number.
            end: Ends the range with a number in a domain.
            start_step: Starts the range of a step; None for ``start``.
            without_lines: Whether calls whose ranges have the calling line have none: to find it takes long.
        """
        self._start, self._end, self._start_step = start, end, start_step or start
        self._is_without_lines = without_lines

    @property
    def state(self) -> ThreadState:
        """Return the state of this thread."""
        return self._main if get_ident() == self._main_thread else self._threads.state

    def is_data(self, described: Any) -> bool:
        """Return whether something describes the ranges of data loading."""
        return any(call.place == DATA_PLACE and call.described is described for call in self._calls.values())

    def watch(self, code: CodeType, kind: str, text: str = "") -> None:
        """Mark the calls of some code.

        The calling line of the program is added to the text; an empty one is the kind alone.
        """
        self.codes.append(code)
        if kind is OPTIMIZER:
            self._step_code = code
            return
        described = self._sink.described(text or kind, RED if kind is DATA else OLIVE)
        self._calls[id(code)] = Call(code, KINDS.index(kind), described, text)

    def look_at(self, code: CodeType, then: Callable[[FrameType], object]) -> None:
        """Call a function with the frame of each call of some code; it may raise nothing but what ends the marks."""
        self.codes.append(code)
        self._calls[id(code)] = Call(code, None, then, "")

    def note_made(self, _frame: object = None) -> None:
        """Note that an optimizer is made."""
        self.optimizers += 1

    def started(self, code: CodeType, _offset: int = 0) -> None:  # noqa: C901 - one function, since it is called often
        """Begin a range for a call, unless the call is part of another one of its kind on this thread."""
        try:
            call = self._last
            if call[0] is not code:
                self._last = call = self._calls[id(code)]
            _, place, described, text = call
            if place is None:
                described(sys._getframe(1))  # noqa: SLF001 - the frame of the call
                return
            if text and self._is_without_lines:
                return
            thread = self._main if get_ident() == self._main_thread else self._threads.state
            if thread.open[place] and self._is_nested(place):
                thread.nested.add(place)
                return
            if text:
                described = self._with_line(text, sys._getframe(1).f_back)  # noqa: SLF001 - who calls
            elif place == DATA_PLACE:
                # Evaluation is part of no step; the first step begins with its first batch.
                if self.loop is not OPTIMIZERS:
                    pass
                elif not self._is_grad_enabled():
                    thread.step = 0
                elif not thread.step:
                    thread.step = self._start_step(self._domain, thread.text)
            thread.open[place] = self._start(self._domain, described)
        except Exception as error:  # noqa: BLE001 - no error here may end the program
            self._fail(error)

    def returned(self, code: CodeType, _offset: int = 0, value: Any = None) -> None:
        """End the range of a call. The end of an optimizer's step is the end of a step of the loop."""
        try:
            if code is self._step_code:
                # Of several optimizers it matters which one has stepped.
                self.end_step(sys._getframe(1).f_locals["args"][0] if self.optimizers > 1 else None)  # noqa: SLF001
                return
            call = self._last
            if call[0] is not code:
                found = self._calls.get(id(code))
                if found is None:
                    self._note_other(code, value)
                    return
                self._last = call = found
            place = call[1]
            if place is None:
                call[2](sys._getframe(1))  # noqa: SLF001 - the frame of the call
                return
            thread = self._main if get_ident() == self._main_thread else self._threads.state
            if thread.nested and place in thread.nested:
                if self._is_nested(place):
                    return
                thread.nested.discard(place)
            number = thread.open[place]
            if number:
                thread.open[place] = 0
                self._end(self._domain, number)
        except Exception as error:  # noqa: BLE001 - see started
            self._fail(error)

    def end_step(self, optimizer: object = None) -> None:
        """End a step and begin another, if an optimizer that has stepped is the one that defines steps.

        Of several optimizers the first one does, as long as it continues to step.
        """
        if self.loop is not OPTIMIZERS:
            return
        try:
            thread = self._main if get_ident() == self._main_thread else self._threads.state
            if optimizer is not None:
                owner = thread.owner() if thread.owner else None
                if owner is not optimizer:
                    if owner is not None and id(optimizer) not in thread.others:
                        thread.others.add(id(optimizer))
                        return
                    thread.owner = _reference(optimizer)
                thread.others.clear()
            if not thread.step:
                self._count_step(thread)
            self._next_step(thread)
        except Exception as error:  # noqa: BLE001 - see started
            self._fail(error)

    def begin_step(self, loop: "tuple[int, str]" = OWN_LOOP) -> None:
        """Begin a step of a loop that marks its own; until ``leave_step`` no optimizer ends steps.

        Nothing happens where other steps than those of ``loop`` come before them.
        """
        try:
            if loop[0] >= self.loop[0]:
                self.loop = loop
                self._next_step(self.state)
        except Exception as error:  # noqa: BLE001 - see started
            self._fail(error)

    def leave_step(self) -> None:
        """Leave the open step without an end: the loop that marks its own steps is over."""
        if self.loop is OWN_LOOP:
            self.loop = OPTIMIZERS
            self.state.step = 0

    def close_step(self) -> None:
        """End the open step of this thread; none follows it at once."""
        thread = self.state
        self._end(self._domain, thread.step)
        self._count_step(thread)
        thread.step = 0

    @property
    def has_loop(self) -> bool:
        """Return whether something ends steps: an optimizer was made, or the program marks its own."""
        return self.optimizers > 0 or self.loop is not OPTIMIZERS

    @property
    def is_main(self) -> bool:
        """Return whether this is the thread in which torch was imported."""
        return get_ident() == self._main_thread

    def _next_step(self, thread: ThreadState) -> None:
        """End the open step of a thread, if there is one, and begin the next."""
        if thread.step:
            self._end(self._domain, thread.step)
            self._count_step(thread)
        thread.step = self._start_step(self._domain, thread.text)

    @staticmethod
    def _count_step(thread: ThreadState) -> None:
        thread.steps += 1
        thread.text = next(thread.texts)

    def note_collection(self, phase: str, info: Mapping[str, int]) -> None:
        """Mark a collection of garbage: a callback of ``gc.callbacks``.

        The mark has the line of the program where the program itself asks for the collection.
        """
        try:
            if info.get("generation", YOUNGEST) == YOUNGEST:
                return
            thread = self._threads.state
            if phase != "start":
                if thread.collection:
                    self._end(self._domain, thread.collection)
                return
            frame = sys._getframe().f_back  # noqa: SLF001 - where the collection runs; None at the very end
            is_explicit = frame is not None and self._asks_for_collection(frame)
            described = self._with_line(COLLECTION, frame) if is_explicit else self._with_text(COLLECTION)
            thread.collection = self._start(self._domain, described)
        except Exception as error:  # noqa: BLE001 - see started
            self._fail(error)

    def reset(self) -> None:
        """Forget what is open: at the start, and in a forked process, whose ranges are its own."""
        self._threads = _Threads(self._sink)
        self._main, self._main_thread = self._threads.state, get_ident()

    def _is_nested(self, place: int) -> bool:
        """Return whether a call of this kind is among those that called the present one."""
        frame = sys._getframe(2).f_back  # noqa: SLF001 - who called the marked call
        for _ in range(MOST_FRAMES):
            if frame is None:
                return False
            found = self._calls.get(id(frame.f_code))
            if found is not None and found.place == place:
                return True
            frame = frame.f_back
        return False

    def _with_text(self, text: str) -> Any:
        """Return what describes ranges with a text."""
        described = self._described.get(text)
        if described is None:
            described = self._described[text] = self._sink.described(text, OLIVE)
        return described

    def _with_line(self, text: str, frame: "FrameType | None") -> Any:
        """Return what describes ranges with a text and a line of the program."""
        name = f"{text}{AT}{place_of(frame)}"
        return self._with_text(name if name in self._described or len(self._described) < MOST_TEXTS else text)

    def _asks_for_collection(self, frame: FrameType) -> bool:
        """Return whether a frame is calling ``gc.collect``, under its own name."""
        code = frame.f_code
        if "collect" not in code.co_names:
            return False
        known = self._collecting.get(id(code))
        if known is None or known[0] is not code:
            found, loaded = [], False
            for each in dis.get_instructions(code):
                if each.opname.startswith("CALL") and loaded:
                    found.append(each.offset)
                if each.opname.startswith("LOAD") and each.argval == "collect":
                    loaded = True
                elif not each.opname.startswith(("LOAD_CONST", "LOAD_FAST", "PUSH_NULL", "PRECALL", "KW_NAMES")):
                    loaded = False
            known = self._collecting[id(code)] = code, frozenset(found)
        return frame.f_lasti in known[1]

    def _fail(self, error: Exception) -> None:
        """Send no more ranges, and print a warning once."""
        if not self._failed:
            self._failed = True
            self.send_to(*[lambda _domain, _what: 0] * 2)
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
    shown = own or frame
    return f"{os.path.basename(shown.f_code.co_filename)}:{shown.f_lineno}" if shown else "unknown"  # noqa: PTH119


def _reference(target: object) -> "Callable[[], Any]":
    """Return a weak reference to an object, or a function that returns None if it does not support them."""
    try:
        return weakref.ref(target)
    except TypeError:
        return lambda: None
