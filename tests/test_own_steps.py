"""The steps that a program marks itself: a loop without an optimizer."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from annotate_fixtures import Recorder

import nsyswrap
from nsyswrap.capture.annotate.marks import Marks


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch) -> tuple[Recorder, Marks]:
    """Return what takes the ranges of this process, and its marks."""
    recorder, package = Recorder(), ModuleType("_nsyswrap_annotate")
    package.loop_marks = marks = Marks(recorder)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, package.__name__, package)
    return recorder, marks


def test_nothing_happens_where_nothing_is_marked() -> None:
    assert list(nsyswrap.steps(range(3))) == [0, 1, 2]


def test_each_item_is_a_step_with_the_wait_for_it(marked: tuple[Recorder, Marks]) -> None:
    """The step that waits for the item after the last has no end. The next loop goes on counting."""
    recorder, _marks = marked
    for _ in range(2):
        assert list(nsyswrap.steps("ab")) == ["a", "b"]
    ended = [line for line in recorder.lines if line.startswith("-")]
    assert ended == ["-step 0", "-step 1", "-step 2", "-step 3"]


def test_an_optimizer_inside_ends_no_step(marked: tuple[Recorder, Marks]) -> None:
    """After the loop it does."""
    recorder, marks = marked
    for _ in nsyswrap.steps("ab"):
        marks.end_step()
    assert [line for line in recorder.lines if line.startswith("-")] == ["-step 0", "-step 1"]
    for _ in range(2):
        marks.end_step()
    assert recorder.lines[-1] == "+step 4"


@pytest.mark.parametrize("library", ["lightning", "pytorch_lightning"])
def test_the_callback_of_lightning_marks_steps_of_two_batches(
    library: str, marked: tuple[Recorder, Marks], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step that a validation interrupts has no end."""
    name = "lightning.pytorch" if library == "lightning" else library
    _stand_in(monkeypatch, name, "Callback")
    made, trainer = nsyswrap.step_callback(library), SimpleNamespace(accumulate_grad_batches=2)
    for batch in range(6):
        made.on_train_batch_start(trainer, None, {}, batch)
    made.on_validation_start(trainer, None)
    made.on_predict_batch_start(trainer, None, {}, 0, 0)
    assert marked[0].lines == ["+step 0", "-step 0", "+step 1", "-step 1", "+step 2", "+step 2"]


def test_the_callback_of_transformers_marks_its_steps(
    marked: tuple[Recorder, Marks], monkeypatch: pytest.MonkeyPatch
) -> None:
    _stand_in(monkeypatch, "transformers", "TrainerCallback")
    made = nsyswrap.step_callback("transformers")
    for _ in range(3):
        made.on_step_begin("arguments", "state", "control", model=None)
    made.on_train_end("arguments", "state", "control", model=None)
    assert [line for line in marked[0].lines if line.startswith("-")] == ["-step 0", "-step 1"]


def test_a_callback_does_nothing_where_nothing_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    _stand_in(monkeypatch, "transformers", "TrainerCallback")
    made = nsyswrap.step_callback("transformers")
    made.on_step_begin("arguments", "state", "control")
    made.on_train_end("arguments", "state", "control")
    assert type(made).__mro__[1].__name__ == "TrainerCallback"


def _stand_in(monkeypatch: pytest.MonkeyPatch, name: str, base: str) -> None:
    """Put a module with the base class of a callback in place of a library."""
    module = ModuleType(name)
    setattr(module, base, type(base, (), {}))
    monkeypatch.setitem(sys.modules, name.partition(".")[0], ModuleType(name.partition(".")[0]))
    monkeypatch.setitem(sys.modules, name, module)


def test_the_module_imports_nothing_else_of_nsyswrap(tmp_path: Path) -> None:
    """A program may use it in an environment without the packages that nsyswrap needs."""
    path = Path(nsyswrap.__file__).with_name("own_steps.py")
    text = (
        f"import runpy, sys; runpy.run_path({str(path)!r}); assert not any('nsyswrap' in name for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-I", "-c", text], check=True, cwd=tmp_path)
