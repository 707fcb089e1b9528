"""Where steps begin and end: loops of every kind, told to the marker call by call."""

import gc
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from annotate_fixtures import Broken, Recorder

from nsyswrap.capture.annotate.marker import BACKWARD, COPY, DATA, OPTIMIZER, Marker, ThreadState

if TYPE_CHECKING:
    from collections.abc import Callable


class Thing:
    """A module or an optimizer: something that can be referred to weakly."""

    def __init__(self, *, training: bool = True) -> None:
        self.training = training


class Loop:
    """A training loop of one model and one optimizer."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.marker = Marker(self.recorder)
        self.model = Thing()
        self.optimizer = Thing()

    def data(self, *, grad: bool = True) -> None:
        """Wait for a batch."""
        self.end(self.marker.begin_data(grad=grad))

    def forward(self, model: Thing | None = None, *, grad: bool = True) -> None:
        """Call a module."""
        self.end(self.marker.begin_forward(model or self.model, grad=grad))

    def backward(self) -> None:
        """Take the gradients."""
        self.end(self.marker.begin_backward())

    def update(self, optimizer: Thing | None = None) -> None:
        """Let the optimizer step."""
        state = self.marker.begin(OPTIMIZER)
        assert state
        self.marker.note_optimizer_step(state, optimizer or self.optimizer)
        self.marker.end(state)

    def end(self, state: ThreadState | None) -> None:
        """Close what was opened."""
        assert state
        self.marker.end(state)

    def train(self) -> None:
        """Do a whole step."""
        self.data()
        self.forward()
        self.backward()
        self.update()

    @property
    def lines(self) -> list[str]:
        """What was recorded."""
        return self.recorder.lines

    @property
    def steps(self) -> list[str]:
        """The ranges at the bottom."""
        return [line for line in self.lines if not line.startswith(" ")]


def test_steps_tile_a_training_loop() -> None:
    """Each ends with its optimizer step, and the next begins at once."""
    loop = Loop()
    loop.train()
    loop.train()
    phases = [" data", " forward", " backward", " optimizer"]
    assert loop.lines == ["step 0", *phases, "step 1", *phases, "step 2"]


def test_gradient_accumulation_is_one_step() -> None:
    """Three batches, one optimizer step."""
    loop = Loop()
    for _ in range(2):
        for _ in range(3):
            loop.data()
            loop.forward()
            loop.backward()
        loop.update()
    assert loop.steps == ["step 0", "step 1", "step 2"]
    assert loop.lines.count(" data") == 6


def test_inference_steps_from_batch_to_batch() -> None:
    """Gradients are off, so the ranges are batches; several forward passes may share one."""
    loop = Loop()
    for _ in range(3):
        loop.data(grad=False)
        loop.forward(grad=False)
        loop.forward(grad=False)
    assert loop.steps == ["batch 0", "batch 1", "batch 2"]


def test_inference_with_gradients_left_on_steps_too() -> None:
    """Whoever forgets no_grad gets steps all the same."""
    loop = Loop()
    for _ in range(3):
        loop.data()
        loop.forward()
    assert loop.steps == ["step 0", "step 1", "step 2"]


def test_without_a_loader_inference_steps_from_one_call_of_the_same_module_to_the_next() -> None:
    """An encoder and a decoder in turn are one batch."""
    loop = Loop()
    encoder, decoder = Thing(), Thing()
    for _ in range(3):
        loop.forward(encoder, grad=False)
        loop.forward(decoder, grad=False)
    assert loop.steps == ["batch 0", "batch 1", "batch 2"]


def test_evaluation_is_no_step_of_training() -> None:
    """The step that had begun is left, and its number is used again."""
    loop = Loop()
    loop.train()
    for _ in range(2):
        loop.data(grad=False)
        loop.forward(grad=False)
    loop.train()
    assert loop.steps == ["step 0", "step 1", "batch 0", "batch 1", "step 1", "step 2"]


def test_evaluation_is_seen_by_the_model_s_mode() -> None:
    """Some loops turn gradients off only around the forward pass, but switch the model before."""
    loop = Loop()
    loop.train()
    loop.model.training = False
    loop.data()
    loop.forward(grad=False)
    loop.model.training = True
    loop.train()
    assert loop.steps == ["step 0", "step 1", "batch 0", "step 1", "step 2"]


def test_a_model_that_is_trained_in_evaluation_mode_is_not_evaluated() -> None:
    """Fine-tuning with frozen statistics."""
    loop = Loop()
    loop.model.training = False
    for _ in range(3):
        loop.train()
    assert loop.steps == ["step 0", "step 1", "step 2", "step 3"]


def test_a_teacher_without_gradients_does_not_end_a_step() -> None:
    loop = Loop()
    teacher = Thing(training=False)
    for _ in range(2):
        loop.data()
        loop.forward(teacher, grad=False)
        loop.forward()
        loop.backward()
        loop.update()
    assert loop.steps == ["step 0", "step 1", "step 2"]


def test_a_batch_that_is_fetched_ahead_does_not_end_a_step() -> None:
    """The next batch is asked for between forward and backward."""
    loop = Loop()
    loop.train()
    for _ in range(2):
        loop.forward()
        loop.data()
        loop.backward()
        loop.update()
    assert loop.steps == ["step 0", "step 1", "step 2", "step 3"]


def test_of_two_optimizers_the_first_counts() -> None:
    """A generator and a discriminator step in turn: one iteration, one step."""
    loop = Loop()
    other = Thing()
    for _ in range(3):
        loop.data()
        for optimizer in (loop.optimizer, other):
            loop.forward()
            loop.backward()
            loop.update(optimizer)
    assert loop.steps == ["step 0", "step 1", "step 2", "step 3"]


def test_where_the_first_optimizer_rests_another_counts() -> None:
    """A second stage of training, with the first stage's optimizer still there, or gone."""
    loop = Loop()
    loop.train()
    second = Thing()
    for _ in range(3):
        loop.forward()
        loop.backward()
        loop.update(second)
    assert loop.steps == ["step 0", "step 1", "step 2", "step 3"]
    del second
    gc.collect()
    third = Thing()
    loop.update(third)
    assert loop.steps[-1] == "step 4"


def test_an_optimizer_may_call_the_loop_itself() -> None:
    """A closure: forward and backward run inside the optimizer's step."""
    loop = Loop()
    loop.data()
    state = loop.marker.begin(OPTIMIZER)
    assert state
    loop.forward()
    loop.backward()
    loop.marker.note_optimizer_step(state, loop.optimizer)
    loop.marker.end(state)
    assert loop.lines == ["step 0", " data", " optimizer", "  forward", "  backward", "step 1"]


def test_a_step_inside_a_module_ends_when_the_module_returns() -> None:
    """A training step that a wrapper calls as its forward pass."""
    loop = Loop()
    loop.data()
    state = loop.marker.begin_forward(loop.model, grad=True)
    loop.backward()
    loop.update()
    assert loop.steps == ["step 0"]
    loop.end(state)
    assert loop.steps == ["step 0", "step 1"]


def test_only_the_outermost_of_a_phase_is_a_range() -> None:
    """Modules call modules, scalers call optimizers, loaders wrap loaders."""
    marker = Marker(Recorder())
    assert marker.begin_forward(Thing(), grad=True)
    assert not marker.begin_forward(Thing(), grad=True)
    assert marker.begin(OPTIMIZER)
    assert not marker.begin(OPTIMIZER)
    assert marker.begin_data(grad=True)
    assert not marker.begin_data(grad=True)
    assert marker.begin_backward()
    assert not marker.begin_backward()


def test_forward_again_inside_backward_is_backward() -> None:
    """Checkpointing computes forward again, on a thread of autograd; its optimizers do not end a step."""
    loop = Loop()
    loop.data()
    loop.forward()
    state = loop.marker.begin_backward()
    answers: list[object] = []

    def autograd() -> None:
        answers.append(loop.marker.begin_forward(loop.model, grad=True))
        mine = loop.marker.begin(OPTIMIZER)
        assert mine
        loop.marker.note_optimizer_step(mine, Thing())
        loop.marker.end(mine)

    thread = threading.Thread(target=autograd)
    thread.start()
    thread.join()
    loop.end(state)
    assert answers == [None]
    assert loop.steps == ["step 0"]
    loop.forward()


def test_threads_have_stacks_of_their_own() -> None:
    loop = Loop()
    assert loop.marker.begin_data(grad=True)
    thread = threading.Thread(target=lambda: loop.marker.begin_data(grad=True))
    thread.start()
    thread.join()
    assert [line.strip() for line in loop.lines] == ["step 0", "data", "step 0", "data"]


def test_the_end_closes_what_is_open() -> None:
    loop = Loop()
    loop.data()
    loop.marker.begin(COPY)
    loop.marker.begin_backward()
    loop.marker.finish()
    assert loop.recorder.depth == 0
    loop.marker.finish()


def test_a_child_that_was_forked_begins_anew() -> None:
    """What its parent has open is not open in it, nor closed by the calls that it returns from."""
    loop = Loop()
    loop.marker.begin_data(grad=True)
    state = loop.marker.begin_backward()
    loop.marker.reset()
    assert loop.marker.threads.state.open == []
    depth = loop.recorder.depth
    loop.end(state)
    assert loop.recorder.depth == depth
    assert loop.marker.begin_forward(loop.model, grad=True)


def test_an_end_too_many_is_let_pass() -> None:
    loop = Loop()
    loop.marker.end(loop.marker.threads.state)
    assert loop.lines == []


@pytest.mark.parametrize("first", [DATA, BACKWARD, "forward", COPY])
def test_a_profiler_that_fails_is_told_of_once_and_the_program_goes_on(
    first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is raised, whatever is called after."""
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
    said = capsys.readouterr().err
    assert said.count("nsyswrap: annotate: no more phases are marked: OSError: no room for") == 1
    assert said.count("\n") == 1


def test_a_program_without_stderr_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    assert not Marker(Broken()).begin(COPY)


def test_what_cannot_be_referred_to_weakly_is_marked_too() -> None:
    """A module of slots."""
    loop = Loop()
    model = SimpleNamespace()
    loop.data()
    loop.end(loop.marker.begin_forward((1, model), grad=True))
    loop.backward()
    loop.update()
    loop.train()
    assert loop.steps == ["step 0", "step 1", "step 2"]
