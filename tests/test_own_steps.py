"""The steps that a program marks itself: a loop without an optimizer."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

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


def test_the_module_imports_nothing_else_of_nsyswrap(tmp_path: Path) -> None:
    """A program may use it in an environment without the packages that nsyswrap needs."""
    path = Path(nsyswrap.__file__).with_name("own_steps.py")
    text = (
        f"import runpy, sys; runpy.run_path({str(path)!r}); assert not any('nsyswrap' in name for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-I", "-c", text], check=True, cwd=tmp_path)
