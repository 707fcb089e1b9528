# ruff: noqa: SLF001 - a call is known by its frame
"""The steps that a program marks itself with NVTX ranges: which ranges begin and end them."""

import sys
import threading
from types import SimpleNamespace

import pytest
from annotate_fixtures import Recorder

from nsyswrap.base.step_text import STEP_TEXT
from nsyswrap.capture.annotate.marks import Marks
from nsyswrap.capture.annotate.own_ranges import OwnRanges


class Loop:
    """A program that opens and closes ranges."""

    def __init__(self, pattern: str = STEP_TEXT.pattern) -> None:
        self.recorder = Recorder()
        self.marks = Marks(self.recorder)
        self.own = OwnRanges(self.marks, pattern)

    def push(self, *texts: object) -> None:
        """Open ranges."""
        for msg in texts:
            self.own.opened(sys._getframe(), "msg", [])
            assert msg is not None

    def pop(self, count: int = 1) -> None:
        """Close ranges."""
        for _ in range(count):
            self.own.closed()

    def take(self, *texts: object) -> None:
        """Open and close ranges one after another."""
        for text in texts:
            self.push(text)
            self.pop()

    @property
    def steps(self) -> list[str]:
        """Return the starts and ends of steps, and forget them."""
        lines, self.recorder.lines = self.recorder.lines, []
        return lines


ONE = ["+step 0", "-step 0"]


@pytest.mark.parametrize("text", ["batch 3", "Step: 12", "train iteration [7]", "iter_5"])
def test_a_range_whose_text_names_a_step_is_one(text: str) -> None:
    loop = Loop()
    loop.take("load", text, "forward")
    assert loop.steps == ONE


def test_the_user_says_which_texts_are_steps() -> None:
    loop = Loop("^round")
    loop.take("batch 3", "round of Ann")
    assert loop.steps == ONE


def test_ranges_inside_a_step_are_none() -> None:
    """The step ends with its own range, also where an inner one is spelled like a step."""
    loop = Loop()
    loop.push("step 0", "batch 0")
    loop.pop()
    loop.push("batch 1", "forward")
    loop.pop(2)
    assert loop.steps == ["+step 0"]
    loop.pop()
    assert loop.steps == ["-step 0"]


def test_a_check_before_the_training_loop_gives_way_to_it() -> None:
    """Ranges that are spelled in another way are steps once two came without one of the first."""
    loop = Loop()
    loop.take("val step 0", "val step 1")
    assert len(loop.steps) == 4
    loop.take("train step 0", "train step 1")
    assert loop.steps == ["+step 2", "-step 2"]
    loop.take("val step 0", "train step 2")
    assert loop.steps == ["+step 3", "-step 3"]


def test_neither_optimizers_nor_marked_loops_end_steps_beside_them() -> None:
    """Before the first range, they do."""
    loop = Loop()
    loop.marks.end_step()
    loop.push("batch 0")
    loop.marks.begin_step()
    loop.marks.leave_step()
    loop.marks.end_step()
    loop.pop()
    assert loop.steps == ["+step 1", "-step 1", "+step 2", "-step 2"]


def test_other_threads_have_no_steps() -> None:
    """A loader's thread numbers its batches, too."""
    loop = Loop()
    other = threading.Thread(target=loop.take, args=("batch 0",))
    other.start()
    other.join()
    loop.push("batch 0")
    other = threading.Thread(target=loop.pop)
    other.start()
    other.join()
    assert loop.steps == ["+step 0"]


def test_a_text_may_be_held_by_an_object_or_be_missing() -> None:
    loop = Loop()
    self = SimpleNamespace(attributes=SimpleNamespace(message=SimpleNamespace(string="batch 0")))
    loop.own.opened(sys._getframe(), "self", ["attributes", "message", "string"])
    assert self
    loop.pop()
    assert loop.steps == ONE
    for first, rest in (("self", ["gone", "string"]), ("gone", [])):
        loop.own.opened(sys._getframe(), first, rest)
    loop.take(7)
    assert loop.steps == []
