# ruff: noqa: SLF001 - a call is known by its frame
"""Which ranges a process opens: its marked calls, the steps that an optimizer ends, and collections of garbage."""

import gc
import sys
import threading
from collections.abc import Iterator

import pytest
from annotate_fixtures import Broken, Recorder

from nsyswrap.capture.annotate import marks as module
from nsyswrap.capture.annotate.marks import AT, BACKWARD, DATA, OPTIMIZER, Marks, place_of


@pytest.fixture
def recorder() -> Recorder:
    """Return what takes the ranges."""
    return Recorder()


@pytest.fixture
def marks(recorder: Recorder) -> Marks:
    """Return marks whose ranges a recorder takes."""
    return Marks(recorder)


def marked(marks: Marks, kind: str, *inner: str, text: str = "", fails: bool = False) -> None:
    """Make a marked call, which makes others; it may end with an error."""
    frame = sys._getframe()
    marks.begin(kind, frame, text)
    if inner:
        marked(marks, *inner)
    if fails:
        raise ArithmeticError
    marks.end(kind, frame)


def test_a_call_has_a_range(marks: Marks, recorder: Recorder) -> None:
    marked(marks, DATA, BACKWARD)
    assert recorder.lines == ["+data", "+backward", "-backward", "-data"]


def test_a_call_inside_another_of_its_kind_has_none(marks: Marks, recorder: Recorder) -> None:
    """Tokenizers and optimizers call others of their kind."""
    marked(marks, OPTIMIZER, OPTIMIZER)
    assert recorder.lines == ["+optimizer", "-optimizer"]


def test_a_call_that_an_exception_ends_has_no_end(marks: Marks, recorder: Recorder) -> None:
    """The next call of its kind has a range of its own."""
    with pytest.raises(ArithmeticError):
        marked(marks, DATA, fails=True)
    marked(marks, DATA)
    assert recorder.lines == ["+data", "+data", "-data"]
    assert recorder.names == {1: "data"}


def test_a_range_has_the_line_of_the_caller_where_its_kind_wants_it(marks: Marks, recorder: Recorder) -> None:
    """After many different lines, new ones have only the text."""
    marked(marks, "checkpoint", text="torch.save")
    line = sys._getframe().f_lineno - 1
    assert recorder.lines[0] == f"+torch.save at test_marks.py:{line}"


def test_many_lines_are_not_kept(marks: Marks, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_TEXTS", 1)
    marked(marks, "checkpoint", text="torch.save")
    marked(marks, "checkpoint", text="torch.save")
    assert recorder.lines[2] == "+torch.save"


def test_the_line_is_that_of_the_program_s_own_code() -> None:
    """Code of installed packages and of the standard library is passed over; without other code, its line counts."""
    frame = sys._getframe()
    library = compile("def call(frame): return frame()", "/x/lib/python3.11/site-packages/torch/a.py", "exec")
    space: dict[str, object] = {}
    exec(library, space)  # noqa: S102 - a frame of a library
    call = space["call"]
    assert callable(call)
    assert call(lambda: place_of(sys._getframe(1))) == f"test_marks.py:{frame.f_lineno}"
    assert place_of(None) == "unknown"


def test_a_step_lasts_from_one_optimizer_step_to_the_next(marks: Marks, recorder: Recorder) -> None:
    """The first batch begins the first step."""
    optimizer = Recorder()
    marks.note_batch(grad=True)
    for _ in range(2):
        marks.note_batch(grad=True)
        marks.note_optimizer_step(optimizer)
    assert recorder.lines == ["+step 0", "-step 0", "+step 1", "-step 1", "+step 2"]


def test_without_batches_steps_begin_with_the_first_optimizer_step(marks: Marks, recorder: Recorder) -> None:
    optimizer = Recorder()
    marks.note_optimizer_step(optimizer)
    marks.note_optimizer_step(optimizer)
    assert recorder.lines == ["+step 1", "-step 1", "+step 2"]


def test_evaluation_is_part_of_no_step(marks: Marks, recorder: Recorder) -> None:
    """The step that was open is left without an end, and the next batch for training begins another one."""
    optimizer = Recorder()
    marks.note_batch(grad=True)
    marks.note_optimizer_step(optimizer)
    marks.note_batch(grad=False)
    marks.note_batch(grad=True)
    marks.note_optimizer_step(optimizer)
    assert recorder.lines == ["+step 0", "-step 0", "+step 1", "+step 1", "-step 1", "+step 2"]


def test_of_several_optimizers_the_first_defines_steps_while_it_steps(marks: Marks, recorder: Recorder) -> None:
    """Once another one steps twice without it, that one takes its place; so it does where the first is gone."""
    first, second = Recorder(), Recorder()
    for optimizer in (first, second, first, second):
        marks.note_optimizer_step(optimizer)
    assert recorder.lines == ["+step 1", "-step 1", "+step 2"]
    marks.note_optimizer_step(second)
    assert recorder.lines[3:] == ["-step 2", "+step 3"]
    del second, optimizer
    marks.note_optimizer_step(first)
    assert recorder.lines[5:] == ["-step 3", "+step 4"]


def test_an_optimizer_without_weak_references_defines_steps(marks: Marks, recorder: Recorder) -> None:
    for _ in range(2):
        marks.note_optimizer_step("an object without weak references")
    assert recorder.lines == ["+step 1", "-step 1", "+step 2"]


def test_threads_have_steps_and_calls_of_their_own(marks: Marks, recorder: Recorder) -> None:
    frame = sys._getframe()
    marks.begin(DATA, frame)
    other = threading.Thread(target=marked, args=(marks, DATA))
    other.start()
    other.join()
    marks.end(DATA, frame)
    assert recorder.lines == ["+data", "+data", "-data", "-data"]


def test_a_forked_process_begins_anew(marks: Marks, recorder: Recorder) -> None:
    frame = sys._getframe()
    marks.begin(DATA, frame)
    marks.note_optimizer_step(marks)
    marks.reset()
    marks.end(DATA, frame)
    marks.note_optimizer_step(marks)
    assert recorder.lines == ["+data", "+step 1", "+step 1"]


@pytest.fixture
def watched(marks: Marks) -> Iterator[None]:
    """Mark the collections of this process."""
    gc.collect()
    gc.callbacks.append(marks.note_collection)
    yield
    gc.callbacks.remove(marks.note_collection)


@pytest.mark.usefixtures("watched")
def test_a_collection_that_the_program_asks_for_has_its_line(recorder: Recorder) -> None:
    """One of the youngest objects is not marked."""
    gc.collect(0)
    gc.collect(generation=1)
    gc.collect()
    line = sys._getframe().f_lineno
    assert [each for each in recorder.lines if each[0] == "+"] == [
        f"+garbage collection{AT}test_marks.py:{line - 2}",
        f"+garbage collection{AT}test_marks.py:{line - 1}",
    ]


def test_a_collection_of_python_s_own_has_no_line(marks: Marks, recorder: Recorder) -> None:
    """It may begin in any call, also in a function that asks for collections elsewhere."""

    def begins(phase: str) -> None:
        if phase == "never":
            gc.collect()
        marks.note_collection(phase, {"generation": 2})

    begins("start")
    begins("stop")
    assert recorder.lines == ["+garbage collection", "-garbage collection"]


def test_an_error_is_said_once_and_nothing_more_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    """No error of ours may end the program."""
    marks = Marks(Broken())
    marked(marks, DATA)
    marked(marks, DATA)
    marks.note_batch(grad=True)
    marks.note_optimizer_step(marks)
    marks.note_collection("start", {"generation": 2})
    marks.note_collection("stop", {"generation": 2})
    assert capsys.readouterr().err == "nsyswrap: annotate: no more marks are made: OSError: no room for data\n"
