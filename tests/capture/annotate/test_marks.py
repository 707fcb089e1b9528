# ruff: noqa: SLF001 - a call is known by its frame
"""Which ranges a process opens: its marked calls, the steps that an optimizer ends, and collections of garbage."""

import gc
import sys
import threading
from collections.abc import Callable, Iterator

import pytest
from annotate_fixtures import Broken, Recorder

from nsyswrap.capture.annotate.marks import (
    AT,
    CHECKPOINT,
    DATA,
    TOKENIZER,
    Marks,
    place_of,
)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def marks(recorder: Recorder) -> Marks:
    """Return marks whose ranges a recorder takes; calls of the functions below are marked."""
    return watching(recorder)


def data(marks: Marks, *inner: Callable[..., None], fails: bool = False) -> None:
    """Load a batch, which makes other calls; it may end with an error."""
    marks.started(data.__code__)
    for each in inner:
        each(marks)
    if fails:
        raise ArithmeticError
    marks.returned(data.__code__)


def tokenize(marks: Marks, *inner: Callable[..., None]) -> None:
    marks.started(tokenize.__code__)
    for each in inner:
        each(marks, *inner[1:])
    marks.returned(tokenize.__code__)


def save(marks: Marks) -> None:
    """Write a checkpoint."""
    marks.started(save.__code__)
    marks.returned(save.__code__)


def steps_of(recorder: Recorder) -> list[str]:
    """Return the starts and ends of steps of the loop."""
    return [line for line in recorder.lines if "step" in line]


def watching(sink: Recorder, *, grad: list[bool] | None = None) -> Marks:
    """Return marks that watch the functions above."""
    found = Marks(sink, lambda: all(grad or ()))
    for function, kind, text in ((data, DATA, ""), (tokenize, TOKENIZER, "")):
        found.watch(function.__code__, kind, text)
    found.watch(save.__code__, CHECKPOINT, "torch.save")
    return found


def test_a_call_has_a_range(marks: Marks, recorder: Recorder) -> None:
    data(marks, tokenize)
    assert recorder.lines == ["+step 0", "+data", "+tokenizer", "-tokenizer", "-data"]


def test_a_call_inside_another_of_its_kind_has_none(marks: Marks, recorder: Recorder) -> None:
    """Tokenizers call others."""
    tokenize(marks, tokenize)
    tokenize(marks, data, tokenize)
    assert recorder.lines == ["+tokenizer", "-tokenizer", "+tokenizer", "+step 0", "+data", "-data", "-tokenizer"]


def test_a_call_that_an_exception_ends_has_no_end(marks: Marks, recorder: Recorder) -> None:
    """The next call of its kind has a range of its own."""
    with pytest.raises(ArithmeticError):
        data(marks, fails=True)
    data(marks)
    assert recorder.lines == ["+step 0", "+data", "+data", "-data"]
    assert recorder.names == {1: "step 0", 2: "data"}


def nested_and_failing(marks: Marks) -> None:
    """Load a batch inside a batch, and fail in both."""
    with pytest.raises(ArithmeticError):
        data(marks, failing)


def failing(marks: Marks) -> None:
    """Fail to load a batch."""
    data(marks, fails=True)


def test_a_call_inside_another_that_an_exception_ends_hides_no_later_one(marks: Marks, recorder: Recorder) -> None:
    nested_and_failing(marks)
    data(marks)
    assert recorder.lines == ["+step 0", "+data", "+data", "-data"]


def test_a_range_has_the_line_of_the_caller_where_its_kind_wants_it(marks: Marks, recorder: Recorder) -> None:
    save(marks)
    line = sys._getframe().f_lineno - 1
    assert recorder.lines[0] == f"+torch.save at test_marks.py:{line}"


def test_a_call_whose_line_takes_long_to_find_has_no_range_where_none_is_wanted(
    marks: Marks, recorder: Recorder
) -> None:
    marks.send_to(recorder.start, recorder.end, without_lines=True)
    save(marks)
    tokenize(marks)
    assert recorder.lines == ["+tokenizer", "-tokenizer"]


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
    for _ in range(2):
        data(marks)
        marks.end_step()
    assert steps_of(recorder) == ["+step 0", "-step 0", "+step 1", "-step 1", "+step 2"]


def test_without_batches_steps_begin_with_the_first_optimizer_step(marks: Marks, recorder: Recorder) -> None:
    marks.end_step()
    marks.end_step()
    assert steps_of(recorder) == ["+step 1", "-step 1", "+step 2"]


def test_evaluation_is_part_of_no_step(recorder: Recorder) -> None:
    """The step that was open is left without an end, and the next batch for training begins another one."""
    grad = [True]
    marks = watching(recorder, grad=grad)
    data(marks)
    marks.end_step()
    grad[0] = False
    data(marks)
    grad[0] = True
    data(marks)
    marks.end_step()
    assert steps_of(recorder) == ["+step 0", "-step 0", "+step 1", "+step 1", "-step 1", "+step 2"]


def test_of_several_optimizers_the_first_defines_steps_while_it_steps(marks: Marks, recorder: Recorder) -> None:
    """Once another one steps twice without it, that one takes its place; so it does where the first is gone."""
    first, second = Recorder(), Recorder()
    for optimizer in (first, second, first, second):
        marks.end_step(optimizer)
    assert steps_of(recorder) == ["+step 1", "-step 1", "+step 2"]
    marks.end_step(second)
    assert steps_of(recorder)[3:] == ["-step 2", "+step 3"]
    del second, optimizer
    marks.end_step(first)
    assert steps_of(recorder)[5:] == ["-step 3", "+step 4"]


def test_threads_have_steps_and_calls_of_their_own(marks: Marks, recorder: Recorder) -> None:
    def beside(_marks: Marks) -> None:
        other = threading.Thread(target=tokenize, args=(marks,))
        other.start()
        other.join()

    tokenize(marks, beside)
    assert recorder.lines == ["+tokenizer", "+tokenizer", "-tokenizer", "-tokenizer"]


def test_a_forked_process_begins_anew(marks: Marks, recorder: Recorder) -> None:
    marks.end_step()
    tokenize(marks, Marks.reset)
    marks.end_step()
    assert [*steps_of(recorder), recorder.lines.count("-tokenizer")] == ["+step 1", "+step 1", 0]


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
    marks = watching(Broken())
    tokenize(marks)
    data(marks)
    marks.end_step()
    marks.note_collection("start", {"generation": 2})
    marks.note_collection("stop", {"generation": 2})
    assert capsys.readouterr().err == "nsyswrap: annotate: no more marks are made: OSError: no room for tokenizer\n"
