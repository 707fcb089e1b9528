"""Steps begin and end at the right calls in loops of every kind, with direct calls of both markers."""

import gc
import threading
import weakref
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from annotate_fixtures import Broken, Recorder, compiled_recording

from nsyswrap.capture.annotate.marker import BACKWARD, COPY, DATA, OPTIMIZER, Marker
from nsyswrap.capture.annotate.thread_state import ThreadState

if TYPE_CHECKING:
    from collections.abc import Callable


class Component:
    """A module or an optimizer: an object that supports weak references."""

    def __init__(self, *, training: bool = True) -> None:
        self.training = training


class Loop:
    """A training loop of one model and one optimizer.

    Args:
        module: The compiled module of the marker; None for the one in Python.
    """

    def __init__(self, module: ModuleType | None = None) -> None:
        self.recorder = Recorder()
        self.marker = Marker(self.recorder) if module is None else compiled_recording(module, self.recorder)
        self.model = Component()
        self.optimizer = Component()

    def data(self, *, grad: bool = True) -> None:
        """Wait for a batch."""
        self.end(self.marker.begin_data(grad=grad))

    def forward(self, model: Component | None = None, *, grad: bool = True) -> None:
        """Run a forward pass."""
        self.end(self.marker.begin_forward(model or self.model, grad=grad))

    def backward(self) -> None:
        """Run a backward pass."""
        self.end(self.marker.begin_backward())

    def update(self, optimizer: Component | None = None) -> None:
        """Run an optimizer step."""
        state = self.marker.begin(OPTIMIZER)
        assert state
        self.marker.note_optimizer_step(state, optimizer or self.optimizer)
        self.marker.end(state)

    def end(self, state: ThreadState | None) -> None:
        """Close the last opened phase; the compiled marker returns True instead of a state."""
        assert state
        self.marker.end(state)

    def train(self) -> None:
        """Run a complete step."""
        self.data()
        self.forward()
        self.backward()
        self.update()

    @property
    def lines(self) -> list[str]:
        """Return the recorded ranges."""
        return self.recorder.lines

    @property
    def steps(self) -> list[str]:
        """Return the outermost ranges."""
        return [line for line in self.lines if not line.startswith(" ")]


@pytest.fixture(params=["python", "compiled"])
def loop(request: pytest.FixtureRequest) -> Loop:
    """Return a loop that the marker in Python marks, and one that the compiled marker marks."""
    return Loop(request.getfixturevalue("compiled_module") if request.param == "compiled" else None)


def test_steps_cover_a_training_loop_without_gaps(loop: Loop) -> None:
    """Each step ends with its optimizer step, and the next begins at once."""
    loop.train()
    loop.train()
    phases = [" data", " forward", " backward", " optimizer"]
    assert loop.lines == ["step 0", *phases, "step 1", *phases, "step 2"]


def test_gradient_accumulation_is_one_step(loop: Loop) -> None:
    """It has three batches and one optimizer step."""
    for _ in range(2):
        for _ in range(3):
            loop.data()
            loop.forward()
            loop.backward()
        loop.update()
    assert loop.steps == ["step 0", "step 1", "step 2"]
    assert loop.lines.count(" data") == 6


def test_inference_has_one_range_a_batch(loop: Loop) -> None:
    """Gradients are off, so the ranges are named batch; one may hold several forward passes."""
    for _ in range(3):
        loop.data(grad=False)
        loop.forward(grad=False)
        loop.forward(grad=False)
    assert loop.steps == ["batch 0", "batch 1", "batch 2"]


def test_inference_with_gradients_has_steps_too(loop: Loop) -> None:
    """A program without no_grad still gets steps."""
    for _ in range(3):
        loop.data()
        loop.forward()
    assert loop.steps == ["step 0", "step 1", "step 2"]


def test_without_a_loader_an_inference_batch_starts_with_the_same_module(loop: Loop) -> None:
    """An encoder and a decoder together are one batch."""
    encoder, decoder = Component(), Component()
    for _ in range(3):
        loop.forward(encoder, grad=False)
        loop.forward(decoder, grad=False)
    assert loop.steps == ["batch 0", "batch 1", "batch 2"]


def test_evaluation_is_not_a_training_step(loop: Loop) -> None:
    """The step that had begun is closed, and its number is reused."""
    loop.train()
    for _ in range(2):
        loop.data(grad=False)
        loop.forward(grad=False)
    loop.train()
    assert loop.steps == ["step 0", "step 1", "batch 0", "batch 1", "step 1", "step 2"]


def test_evaluation_is_recognized_by_the_mode_of_the_model(loop: Loop) -> None:
    """Some loops turn gradients off only around the forward pass, but switch the model's mode earlier."""
    loop.train()
    loop.model.training = False
    loop.data()
    loop.forward(grad=False)
    loop.model.training = True
    loop.train()
    assert loop.steps == ["step 0", "step 1", "batch 0", "step 1", "step 2"]


def test_training_a_model_in_evaluation_mode_is_not_evaluation(loop: Loop) -> None:
    """Fine-tuning with frozen statistics does this."""
    loop.model.training = False
    for _ in range(3):
        loop.train()
    assert loop.steps == ["step 0", "step 1", "step 2", "step 3"]


def test_a_teacher_without_gradients_does_not_end_a_step(loop: Loop) -> None:
    teacher = Component(training=False)
    for _ in range(2):
        loop.data()
        loop.forward(teacher, grad=False)
        loop.forward()
        loop.backward()
        loop.update()
    assert loop.steps == ["step 0", "step 1", "step 2"]


def test_loading_a_batch_ahead_does_not_end_a_step(loop: Loop) -> None:
    """The next batch is loaded between forward and backward."""
    loop.train()
    for _ in range(2):
        loop.forward()
        loop.data()
        loop.backward()
        loop.update()
    assert loop.steps == ["step 0", "step 1", "step 2", "step 3"]


def test_of_two_optimizers_the_first_defines_steps(loop: Loop) -> None:
    """A generator and a discriminator in one iteration are one step."""
    other = Component()
    for _ in range(3):
        loop.data()
        for optimizer in (loop.optimizer, other):
            loop.forward()
            loop.backward()
            loop.update(optimizer)
    assert loop.steps == ["step 0", "step 1", "step 2", "step 3"]


def test_if_the_first_optimizer_stops_another_defines_steps(loop: Loop) -> None:
    """This happens in a second stage of training; the first optimizer may still exist or not."""
    loop.train()
    second = Component()
    for _ in range(3):
        loop.forward()
        loop.backward()
        loop.update(second)
    assert loop.steps == ["step 0", "step 1", "step 2", "step 3"]
    del second
    gc.collect()
    third = Component()
    loop.update(third)
    assert loop.steps[-1] == "step 4"


def test_an_optimizer_may_call_a_closure(loop: Loop) -> None:
    """Forward and backward run inside the optimizer's step."""
    loop.data()
    state = loop.marker.begin(OPTIMIZER)
    assert state
    loop.forward()
    loop.backward()
    loop.marker.note_optimizer_step(state, loop.optimizer)
    loop.marker.end(state)
    assert loop.lines == ["step 0", " data", " optimizer", "  forward", "  backward", "step 1"]


def test_a_step_inside_a_module_ends_when_the_module_returns(loop: Loop) -> None:
    """A wrapper may run the whole training step in its forward pass."""
    loop.data()
    state = loop.marker.begin_forward(loop.model, grad=True)
    loop.backward()
    loop.update()
    assert loop.steps == ["step 0"]
    loop.end(state)
    assert loop.steps == ["step 0", "step 1"]


def test_only_the_outermost_range_of_a_phase_is_opened(loop: Loop) -> None:
    """Modules call modules, scalers call optimizers, loaders wrap loaders."""
    marker = loop.marker
    assert marker.begin_forward(Component(), grad=True)
    assert not marker.begin_forward(Component(), grad=True)
    assert marker.begin(OPTIMIZER)
    assert not marker.begin(OPTIMIZER)
    assert marker.begin_data(grad=True)
    assert not marker.begin_data(grad=True)
    assert marker.begin_backward()
    assert not marker.begin_backward()


def test_forward_inside_backward_is_part_of_backward(loop: Loop) -> None:
    """Checkpointing repeats forward on a thread of autograd; optimizer steps there do not end a step."""
    loop.data()
    loop.forward()
    state = loop.marker.begin_backward()
    answers: list[object] = []

    def autograd() -> None:
        answers.append(loop.marker.begin_forward(loop.model, grad=True))
        mine = loop.marker.begin(OPTIMIZER)
        assert mine
        loop.marker.note_optimizer_step(mine, Component())
        loop.marker.end(mine)

    thread = threading.Thread(target=autograd)
    thread.start()
    thread.join()
    loop.end(state)
    assert answers == [None]
    assert loop.steps == ["step 0"]
    loop.forward()


def test_each_thread_has_its_own_stack(loop: Loop) -> None:
    assert loop.marker.begin_data(grad=True)
    thread = threading.Thread(target=lambda: loop.marker.begin_data(grad=True))
    thread.start()
    thread.join()
    assert [line.strip() for line in loop.lines] == ["step 0", "data", "step 0", "data"]


def test_finish_closes_all_open_ranges(loop: Loop) -> None:
    loop.data()
    loop.marker.begin(COPY)
    loop.marker.begin_backward()
    loop.marker.finish()
    assert loop.recorder.depth == 0
    loop.marker.finish()


def test_a_forked_child_starts_without_open_ranges(loop: Loop) -> None:
    """Ranges of its parent are not open in it, and are not closed when its calls return."""
    loop.marker.begin_data(grad=True)
    state = loop.marker.begin_backward()
    loop.marker.reset()
    depth = loop.recorder.depth
    loop.end(state)
    assert loop.recorder.depth == depth
    assert loop.marker.begin_forward(loop.model, grad=True)


def test_an_extra_end_is_ignored(loop: Loop) -> None:
    state = loop.marker.begin(COPY)
    loop.end(state)
    loop.end(state)
    assert loop.recorder.depth == 0
    assert loop.lines == ["copy"]


def test_a_copy_while_a_module_moves_is_not_marked(loop: Loop) -> None:
    """A module that moves another one is one move."""
    state = loop.marker.begin_move()
    assert state
    assert not loop.marker.begin_move()
    assert not loop.marker.begin_copy()
    loop.marker.end_move(state)
    assert loop.lines == []
    loop.end(loop.marker.begin_copy())
    assert loop.lines == ["copy"]


def test_each_thread_knows_whether_it_is_inside_a_module(loop: Loop) -> None:
    assert not loop.marker.inside()
    state = loop.marker.begin_forward(loop.model, grad=True)
    assert loop.marker.inside()
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.append(bool(loop.marker.inside())))
    thread.start()
    thread.join()
    assert answers == [False]
    loop.end(state)
    assert not loop.marker.inside()


def test_a_thread_that_ends_leaves_nothing_for_the_next_one(loop: Loop) -> None:
    """The system reuses the numbers of threads that have ended."""
    for _ in range(20):
        thread = threading.Thread(target=lambda: loop.marker.begin_data(grad=True))
        thread.start()
        thread.join()
    assert [line.strip() for line in loop.lines] == ["step 0", "data"] * 20


def test_numbers_of_steps_have_any_length(loop: Loop) -> None:
    for _ in range(1001):
        loop.train()
    assert loop.steps[9:12] == ["step 9", "step 10", "step 11"]
    assert loop.steps[-1] == "step 1001"


def test_marks_keep_no_module_and_no_optimizer_alive(loop: Loop) -> None:
    loop.train()
    model, optimizer = weakref.ref(loop.model), weakref.ref(loop.optimizer)
    loop.model, loop.optimizer = Component(), Component()
    gc.collect()
    assert (model(), optimizer()) == (None, None)
    loop.train()
    assert loop.steps == ["step 0", "step 1", "step 2"]


@pytest.mark.parametrize("first", [DATA, BACKWARD, "forward", COPY])
def test_a_failing_profiler_gives_one_warning_and_the_program_continues(
    first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Later calls do not raise, either."""
    loop = Loop()
    marker = Marker(Broken())
    calls: dict[str, Callable[[], object]] = {
        DATA: lambda: marker.begin_data(grad=True),
        BACKWARD: marker.begin_backward,
        "forward": lambda: marker.begin_forward(loop.model, grad=True),
        COPY: lambda: marker.begin(COPY),
    }
    assert not calls[first]()
    for call in calls.values():
        call()
        marker.end(marker.threads.state)
    marker.finish()
    stderr = capsys.readouterr().err
    assert stderr.count("nsyswrap: annotate: no more phases are marked: OSError: no room for") == 1
    assert stderr.count("\n") == 1


def test_a_program_without_stderr_is_not_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    assert not Marker(Broken()).begin(COPY)


def test_an_object_without_weak_references_is_marked_too(loop: Loop) -> None:
    """This is a module with slots."""
    model = SimpleNamespace()
    loop.data()
    loop.end(loop.marker.begin_forward((1, model), grad=True))
    loop.backward()
    loop.update()
    loop.train()
    assert loop.steps == ["step 0", "step 1", "step 2"]
