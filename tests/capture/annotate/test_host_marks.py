# ruff: noqa: ANN401 - torch's own signatures
"""Work of the host is marked: garbage collections, checkpoints and tokenizers. Marks are removed after each test."""

import gc
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from annotate_fixtures import Broken, Recorder

from nsyswrap.capture.annotate import host_marks
from nsyswrap.capture.annotate.host_marks import HostMarks, mark_host, place_of
from nsyswrap.capture.annotate.torch_calls import patches_of

HERE = "test_host_marks.py"


@pytest.fixture
def marked() -> Iterator[Recorder]:
    """Mark the work of this process."""
    recorder = Recorder()
    yield from installed(recorder)


def installed(sink: Any) -> Iterator[Any]:
    """Mark the work of this process with a sink, and undo that."""
    before, finders = list(gc.callbacks), list(sys.meta_path)
    patches = patches_of(torch)
    mark_host(torch, sink, patches)
    gc.disable()  # a collection of another cause would be marked, too
    try:
        yield sink
    finally:
        gc.enable()
        patches.undo()
        gc.callbacks[:], sys.meta_path[:] = before, finders


def line_of(text: str) -> int:
    """Return the number of the first line of this file that holds a text."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


def test_a_collection_is_marked_with_the_line_that_asks_for_it(marked: Recorder) -> None:
    gc.collect()  # the first one
    assert marked.lines == [f"garbage collection at {HERE}:{line_of('the first ' + 'one')}"]
    assert marked.depth == 0


def test_a_collection_that_python_starts_has_no_line(marked: Recorder) -> None:
    """The line that runs when Python starts a collection does not show its cause."""
    for callback in gc.callbacks[-1:]:
        callback("start", {"generation": 2})
        callback("stop", {"generation": 2})
    assert marked.lines == ["garbage collection"]


def test_collections_of_the_youngest_objects_are_not_marked(marked: Recorder) -> None:
    gc.collect(0)
    assert marked.lines == []


def test_a_checkpoint_is_marked_where_it_is_saved_and_loaded(marked: Recorder) -> None:
    """The saved data is the same as without marks."""
    file = io.BytesIO()
    torch.save({"a": torch.ones(3)}, file)  # saved here
    file.seek(0)
    assert torch.load(file)["a"].tolist() == [1, 1, 1]
    assert marked.lines[0] == f"torch.save at {HERE}:{line_of('saved ' + 'here')}"
    assert marked.lines[1].startswith("torch.load at ")
    assert marked.depth == 0


def test_a_mark_closes_after_an_error(marked: Recorder) -> None:
    with pytest.raises(FileNotFoundError):
        torch.load("/no/such/file")
    assert marked.depth == 0
    torch.save(1, io.BytesIO())
    assert len(marked.lines) == 2


def test_a_call_inside_another_of_its_kind_is_not_marked_again() -> None:
    recorder = Recorder()
    marks = HostMarks(recorder)

    inner = marks.wrap("tokenizer", "tokenizer", lambda: 1)
    assert marks.wrap("tokenizer", "tokenizer", lambda: inner() + 1)() == 2
    assert len(recorder.lines) == 1


def test_tokenizers_of_transformers_are_marked_after_their_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module is a stand-in with the same class name: the methods that turn text into tokens are marked."""

    class Tokens:
        def __call__(self, text: str) -> list[str]:
            return self.tokenize(text)

        def tokenize(self, text: str) -> list[str]:
            return text.split()

    module = ModuleType(host_marks.TOKENIZER_MODULE)
    vars(module)[host_marks.TOKENIZER_CLASS] = Tokens
    monkeypatch.setitem(sys.modules, host_marks.TOKENIZER_MODULE, module)
    for recorder in installed(Recorder()):
        assert Tokens()("a b") == ["a", "b"]
        assert [line.split(" at ")[0] for line in recorder.lines] == ["tokenizer"]


def test_a_librarys_checkpoint_is_one_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module is a stand-in: its trainer packs the weights with torch and writes the file itself."""

    class Trainer:
        def save_checkpoint(self) -> bytes:
            file = io.BytesIO()
            torch.save(1, file)
            return file.getvalue()

    module = ModuleType("lightning.pytorch.trainer.trainer")
    vars(module)["Trainer"] = Trainer
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for recorder in installed(Recorder()):
        assert Trainer().save_checkpoint()
        torch.save(1, io.BytesIO())
        assert [line.split(" at ")[0] for line in recorder.lines] == ["Trainer.save_checkpoint", "torch.save"]


def test_a_program_goes_on_when_the_profiler_fails(capsys: pytest.CaptureFixture[str]) -> None:
    """There is one warning, and the calls of the program return their own results."""
    for _ in installed(Broken()):
        torch.save(1, io.BytesIO())
        torch.save(2, io.BytesIO())
    assert capsys.readouterr().err.count("no more work of the host is marked") == 1


def test_many_lines_are_marked_without_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts with lines are kept in memory, so their number is limited."""
    monkeypatch.setattr(host_marks, "MOST_TEXTS", 2)
    recorder = Recorder()
    marks = HostMarks(recorder)
    save = marks.wrap("checkpoint", "torch.save", lambda: None)
    save()
    save()
    assert recorder.lines[0].startswith("torch.save at ")
    assert recorder.lines[1] == "torch.save"


def test_the_place_is_in_the_programs_own_code() -> None:
    """Frames of installed packages and of Python itself do not count; without others, the innermost one does."""
    library = SimpleNamespace(co_filename="/venv/lib/site-packages/trainer.py")
    own = SimpleNamespace(co_filename="/home/me/train.py")
    outer: Any = SimpleNamespace(f_code=own, f_lineno=88, f_back=None)
    inner: Any = SimpleNamespace(f_code=library, f_lineno=5, f_back=outer)
    assert place_of(inner) == "train.py:88"
    alone: Any = SimpleNamespace(f_code=library, f_lineno=5, f_back=None)
    assert place_of(alone) == "trainer.py:5"
    assert place_of(None) == "unknown"
