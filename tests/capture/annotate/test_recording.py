"""Which steps are timed, which are recorded, and what a process writes of them; with a sink and a clock of the test."""

import contextlib
import json
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest
from annotate_fixtures import Recorder

from nsyswrap.capture.annotate.marks import DATA, Marks
from nsyswrap.capture.annotate.recording import (
    ALONE_SUFFIX,
    BEGUN,
    ENDED,
    FROM_OUTSIDE,
    PROGRESS_SUFFIX,
    CudaEvents,
    Recording,
    Schedule,
)

MS = 1_000_000
MODULE = "nsyswrap.capture.annotate.recording"


@dataclass
class Clock:
    """A clock that a test sets, for host and GPU."""

    now: int = 1

    def __call__(self) -> int:
        """Return the time in ns."""
        return self.now


@dataclass
class Gpu(CudaEvents):
    """Marks on a GPU that is done with a step half of its time after the host."""

    clock: Clock
    read: int = 0
    waited: int = 0

    def mark(self) -> int:
        return self.clock.now * 3 // 2

    def between(self, pairs: list[tuple[int, int]]) -> list[int]:
        """Return the times between marks."""
        self.read += 1
        return [last - first for first, last in pairs]

    def wait(self) -> None:
        self.waited += 1


@dataclass
class XRay:
    """Notes when X-ray steps begin and end, among the ranges; ``more`` steps follow the first."""

    lines: list[str]
    can_begin: bool = True
    more: int = 0

    @property
    def goes_on(self) -> bool:
        """Return whether a step follows the last one."""
        return self.lines.count("xray ends") <= self.more

    def begin(self, step: int) -> bool:
        self.lines.append(f"xray {step}")
        return self.can_begin

    def end(self) -> None:
        self.lines.append("xray ends")

    def abandon(self) -> None:
        """Note that nothing is written."""
        self.lines.append("xray is abandoned")


@dataclass
class Program:
    """A process that takes steps, whose marks are recorded by a schedule."""

    folder: Path
    schedule: str = ""
    recorder: Recorder = field(default_factory=Recorder)
    clock: Clock = field(default_factory=Clock)
    xray: Any = None

    def __post_init__(self) -> None:
        """Mark the calls of ``load``."""
        self.gpu = Gpu(self.clock)
        self.marks = Marks(self.recorder, lambda: self.grad)
        self.marks.watch(self.load.__func__.__code__, DATA)  # type: ignore[attr-defined]
        self.grad = True
        self.recording = Recording(
            self.marks,
            self.recorder,
            Schedule(self.schedule),
            str(self.folder),
            self.gpu,
            sees_data=True,
            xray=self.xray,
            clock=self.clock,
        )

    def load(self, ms: int) -> None:
        """Wait for a batch."""
        code = Program.load.__code__
        self.marks.started(code)
        self.clock.now += ms * MS
        self.marks.returned(code)

    def take(self, count: int, ms: int = 10, data_ms: int = 0) -> None:
        """Take steps of a length. Part of it is loading."""
        for _ in range(count):
            self.load(data_ms)
            self.clock.now += (ms - data_ms) * MS
            self.marks.end_step()

    @property
    def recorded(self) -> list[int]:
        """Return the numbers of the steps that the profiler has seen to their end while it recorded."""
        lines = self.recorder.lines
        first = lines.index("+record") if "+record" in lines else 0
        return [int(each.split()[1]) for each in lines[first:] if each.startswith("-step")]

    def written(self, suffix: str) -> dict[str, Any]:
        """Return a file of this process."""
        found: dict[str, Any] = json.loads((self.folder / f"{os.getpid()}{suffix}").read_text())
        return found


@pytest.mark.parametrize(
    ("number", "alone", "alone_ms", "begins"),
    [
        (99, 9, 2_000, False),
        (99, 10, 1_000, True),
        (99, 99, 999, False),
        (99, 100, 999, True),
        (99, 3, 9_999, False),
        (99, 3, 10_000, True),
        (99, 2, 99_000, False),
    ],
)
def test_recording_begins_after_enough_steps_alone(number: int, alone: int, alone_ms: int, *, begins: bool) -> None:
    """That is ten steps and a second, a hundred steps, or three steps and ten seconds."""
    assert Schedule("").begins(number, alone, alone_ms * MS) is begins
    assert Schedule("30").begins(number, alone, alone_ms * MS) is begins


@pytest.mark.parametrize(
    ("recorded", "ms", "ends"), [(99, 9_999, False), (100, 100, True), (6, 10_000, True), (5, 60_000, False)]
)
def test_recording_ends_after_a_hundred_steps_or_ten_seconds(recorded: int, ms: int, *, ends: bool) -> None:
    """Six steps are recorded however long they take."""
    assert Schedule("").ends(recorded, ms * MS) is ends


def test_steps_by_number_begin_and_end_there() -> None:
    """The last number is not recorded."""
    found = Schedule("200:230")
    assert [found.begins(each, 0, 0) for each in (199, 200, 201)] == [False, True, True]
    assert [found.ends(each, 0) for each in (29, 30)] == [False, True]


@pytest.mark.parametrize(
    ("text", "phase", "taken", "taken_s", "left_s"),
    [
        ("", "alone", 4, 0.4, 0.6),
        ("", "alone", 2, 1.0, 4.0),
        ("", "alone", 2, 8.0, 2.0),
        ("200:230", "alone", 10, 1.0, 15.0),
        ("later", "alone", 10, 1.0, None),
        ("", "recording", 40, 2.0, 3.0),
        ("", "recording", 4, 4.0, 6.0),
        ("30", "recording", 10, 5.0, 10.0),
    ],
)
def test_the_time_left_is_that_at_the_pace_so_far(
    text: str, phase: str, taken: int, taken_s: float, left_s: float | None
) -> None:
    """The phase is at step 50."""
    found = Schedule(text).left_s(phase, 50, taken, taken_s)
    assert found == (None if left_s is None else pytest.approx(left_s))


def test_steps_alone_come_first_and_are_written_before_the_recording(tmp_path: Path) -> None:
    """Three steps of 100 ms are warm-up, ten are timed, and nothing is sent to the profiler until then."""
    program = Program(tmp_path)
    program.take(12, 100, 30)
    assert program.recorder.lines == []
    program.take(1, 100, 30)
    assert program.recorder.lines == ["+record", "+step 13"]
    expected = {"pid": os.getpid(), "rank": None, "first_step": 3, "host_ns": [100 * MS] * 10}
    assert program.written(ALONE_SUFFIX) == expected | {"gpu_ns": [150 * MS] * 10, "data_ns": [30 * MS] * 10}
    assert program.gpu.read == 1


def test_the_recording_ends_between_two_steps(tmp_path: Path) -> None:
    """The program runs on, and sends nothing more to the profiler."""
    program = Program(tmp_path, "20")
    program.take(50, 100)
    assert program.recorded == list(range(13, 33))
    assert program.recorder.lines[-2:] == ["-step 32", "-record"]
    assert json.loads((tmp_path / f"{ENDED}.1").read_text()) == {"first": 13, "last": 32}
    assert program.written(PROGRESS_SUFFIX) == {"phase": "ended"}


def observed(folder: Path, schedule: str, *, can_begin: bool = True, more: int = 0) -> Program:
    """Return a program with an X-ray step, and more of them."""
    recorder = Recorder()
    return Program(folder, schedule, recorder, xray=XRay(recorder.lines, can_begin, more))


def test_the_step_after_the_recorded_ones_is_the_x_ray_step(tmp_path: Path) -> None:
    """The recording ends after it. It is none of the recorded steps."""
    program = observed(tmp_path, "4:6")
    program.take(4)
    program.take(6)
    lines = [each for each in program.recorder.lines if "data" not in each]
    assert lines == [
        *("+record", "+step 4", "-step 4", "+step 5", "-step 5"),
        *("xray 6", "+step 6", "-step 6", "xray ends", "-record"),
    ]
    assert json.loads((tmp_path / f"{ENDED}.1").read_text()) == {"first": 4, "last": 5}


def test_steps_before_an_x_ray_step_run_the_same_lines_as_without_one(tmp_path: Path) -> None:
    """So they take the same time: steps in warm-up, those timed alone, and the recorded ones."""

    def ran(program: Program) -> list[tuple[str, int]]:
        lines: list[tuple[str, int]] = []

        def tracer(frame: FrameType, event: str, _value: object) -> Any:  # noqa: ANN401 - itself
            if "nsyswrap/capture/annotate" in frame.f_code.co_filename and event == "line":
                lines.append((frame.f_code.co_filename, frame.f_lineno))
            return tracer

        before = sys.gettrace()
        sys.settrace(tracer)
        try:
            program.take(8)
        finally:
            sys.settrace(before)
        assert program.recorder.lines[-2:] == ["-step 7", "+step 8"]
        return lines

    for folder in (tmp_path / "with", tmp_path / "without"):
        folder.mkdir()
    with_it, without = ran(observed(tmp_path / "with", "4:9")), ran(Program(tmp_path / "without", "4:9"))
    assert with_it == without
    assert len(with_it) > 100


def test_further_x_ray_steps_follow_one_another(tmp_path: Path) -> None:
    """They are no recorded steps either."""
    program = observed(tmp_path, "4:6", more=1)
    program.take(12)
    lines = [each for each in program.recorder.lines if "data" not in each]
    assert lines[5:] == [
        *("xray 6", "+step 6", "-step 6", "xray ends"),
        *("xray 7", "+step 7", "-step 7", "xray ends", "-record"),
    ]
    assert json.loads((tmp_path / f"{ENDED}.1").read_text()) == {"first": 4, "last": 5}


def test_without_an_x_ray_step_the_recording_ends_before_it(tmp_path: Path) -> None:
    """Its file says why there is none."""
    program = observed(tmp_path, "4:6", can_begin=False)
    program.take(9)
    assert program.recorder.lines[-3:] == ["-step 5", "xray 6", "-record"]
    assert json.loads((tmp_path / f"{ENDED}.1").read_text()) == {"first": 4, "last": 5}


def test_a_program_that_ends_in_its_x_ray_step_writes_what_it_knows(tmp_path: Path) -> None:
    program = observed(tmp_path, "4:6")
    program.take(6)
    program.recording.finish()
    assert program.recorder.lines[-2:] == ["+step 6", "xray ends"]
    assert json.loads((tmp_path / f"{ENDED}.1").read_text()) == {"first": 4, "last": 5}


def test_an_error_ends_the_x_ray_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = observed(tmp_path, "4:6")
    program.take(5)
    program.recording._start_recorded = lambda _domain, _described: 1 // 0  # noqa: SLF001 - the profiler fails
    program.take(1)
    assert "no steps are recorded: ZeroDivisionError" in capsys.readouterr().err
    assert program.recorder.lines[-2:] == ["xray 6", "xray ends"]


def test_a_forked_process_leaves_the_x_ray_step_to_its_parent(tmp_path: Path) -> None:
    program = observed(tmp_path, "4:6")
    program.take(6)
    program.recording.leave()
    program.recording.finish()
    assert program.recorder.lines[-1] == "xray is abandoned"
    assert not (tmp_path / f"{ENDED}.1").exists()


@pytest.fixture
def ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Program]]:
    """Return a function that makes two ranks, each with a thread of its own, which wait for each other in each step."""
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setattr(f"{MODULE}.SPREAD_S", 0.01)

    def take(program: Program, collective: threading.Barrier, steps: int) -> None:
        for _ in range(steps):
            with contextlib.suppress(threading.BrokenBarrierError):
                collective.wait()
            program.take(1, 100)
        collective.abort()

    def make(schedule: str, *xrays: tuple[bool, int]) -> list[Program]:
        made: list[Program] = []
        with monkeypatch.context() as patch:
            for process, (can_begin, more) in enumerate(xrays):
                patch.setattr("os.getpid", lambda process=process: 1000 + process)
                made.append(observed(tmp_path, schedule, can_begin=can_begin, more=more))
        collective = threading.Barrier(len(made))
        threads = [threading.Thread(target=take, args=(each, collective, 150)) for each in made]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        return made

    return make


@pytest.mark.parametrize("schedule", ["10:15", "5", ""])
@pytest.mark.parametrize("more", [(0, 0), (1, 1), (0, 1)])
def test_the_processes_of_a_node_take_the_x_ray_steps_of_the_same_numbers(
    ranks: Callable[..., list[Program]], tmp_path: Path, schedule: str, more: tuple[int, int]
) -> None:
    """One opens the range and waits, so the other one does, too. Where one wants another X-ray step, all take it."""
    made = ranks(schedule, (True, more[0]), (True, more[1]))
    ended = json.loads((tmp_path / f"{ENDED}.1").read_text())
    numbers = range(ended["last"] + 1, ended["last"] + 2 + max(more))
    expected = [text for number in numbers for text in (f"xray {number}", "xray ends")]
    for program in made:
        assert [each for each in program.recorder.lines if "xray" in each] == expected
    closed = [program.recorder.lines[-1] for program in made]
    assert sorted(closed) == ["-record", "xray ends"]


def test_a_process_without_an_x_ray_step_waits_for_the_others(ranks: Callable[..., list[Program]]) -> None:
    """Nothing is left to do on its GPU when the range is closed."""
    without, other = ranks("10:15", (False, 0), (True, 0))
    assert without.gpu.waited == 1
    without.recording.finish()
    assert [each for each in other.recorder.lines if "xray" in each] == ["xray 15", "xray ends"]


def test_a_process_that_takes_no_more_steps_is_not_waited_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setattr(f"{MODULE}.SPREAD_S", 0.0)
    monkeypatch.setattr(f"{MODULE}.MEET_S", 0.1)
    (tmp_path / f"999{PROGRESS_SUFFIX}").touch()
    program = observed(tmp_path, "10:15")
    program.take(20, 100)
    assert program.recorder.lines[-2:] == ["xray ends", "-record"]


def test_only_the_first_recording_of_a_program_that_waits_has_an_x_ray_step(tmp_path: Path) -> None:
    program = observed(tmp_path, "later")
    for number in (1, 2):
        (tmp_path / f"wanted.{number}").write_text("3")
        program.take(20)
    assert [each for each in program.recorder.lines if "xray" in each] == ["xray 6", "xray ends"]
    assert program.recorder.lines.count("-record") == 2


def test_steps_by_number_keep_the_last_hundred_before_as_steps_alone(tmp_path: Path) -> None:
    program = Program(tmp_path, "200:203")
    program.take(300)
    assert program.recorded == [200, 201, 202]
    alone = program.written(ALONE_SUFFIX)
    assert (alone["first_step"], len(alone["host_ns"])) == (100, 100)


def test_an_evaluation_is_part_of_no_step_alone(tmp_path: Path) -> None:
    """The step begins again with the next batch for training."""
    program = Program(tmp_path)
    program.take(5, 100)
    program.grad = False
    program.load(5_000)
    program.grad = True
    program.take(20, 100)
    alone = program.written(ALONE_SUFFIX)
    assert set(alone["host_ns"]) == {100 * MS}
    assert alone["first_step"] == 3


def test_the_time_between_steps_is_part_of_the_one_before(tmp_path: Path) -> None:
    """So is a wait for the loader there, as in the recorded steps."""
    program = Program(tmp_path)
    for _ in range(14):
        program.load(10)
        program.marks.begin_step((2, "batch #"))
        program.load(30)
        program.clock.now += 70 * MS
        program.marks.close_step()
    alone = program.written(ALONE_SUFFIX)
    assert (alone["host_ns"], alone["data_ns"]) == ([110 * MS] * 10, [40 * MS] * 10)
    assert alone["gpu_ns"] == [110 * 3 // 2 * MS] * 10


@pytest.mark.parametrize(("made", "has_loop"), [(0, False), (1, True)])
def test_a_first_batch_without_an_optimizer_is_no_loop_yet(tmp_path: Path, made: int, *, has_loop: bool) -> None:
    """The program may update its weights by hand; then nothing ends the step."""
    program = Program(tmp_path)
    program.marks.optimizers = made
    program.clock.now = 2_000 * MS
    program.load(10)
    assert (program.written(PROGRESS_SUFFIX)["step"], program.written(PROGRESS_SUFFIX)["has_loop"]) == (0, has_loop)


def test_steps_of_another_kind_begin_anew(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.take(8, 100)
    for _ in range(12):
        program.marks.begin_step()
        program.clock.now += 200 * MS
    assert set(program.written(ALONE_SUFFIX)["host_ns"]) == {200 * MS}


def test_a_process_follows_one_that_has_begun(tmp_path: Path) -> None:
    """It opens no range, and the step in which the other began is not one alone. It stops when the other does."""
    program = Program(tmp_path)
    program.take(7, 100)
    (tmp_path / f"{BEGUN}.1").touch()
    program.take(3, 100)
    assert program.recorder.lines[:3] == ["+step 8", "+data", "-data"]
    assert "+record" not in program.recorder.lines
    assert len(program.written(ALONE_SUFFIX)["host_ns"]) == 4
    (tmp_path / f"{ENDED}.1").write_text("{}")
    program.take(5, 100)
    assert program.recorder.lines[-1] == "-step 10"


def test_where_nsyswrap_has_begun_the_first_process_says_when_it_is_enough(tmp_path: Path) -> None:
    """The warm-up is recorded, too, and does not count."""
    (tmp_path / f"{BEGUN}.1").write_text(FROM_OUTSIDE)
    program = Program(tmp_path, "20")
    program.take(40, 100)
    assert program.recorded == list(range(23))
    assert json.loads((tmp_path / f"{ENDED}.1").read_text()) == {"first": 3, "last": 22}


def test_other_threads_take_no_steps(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.take(5, 100)
    other = threading.Thread(target=program.take, args=(50, 100))
    other.start()
    other.join()
    assert program.recorder.lines == []


def test_a_short_program_writes_its_steps_at_its_end(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.take(6, 100)
    program.recording.write_alone()
    assert program.written(ALONE_SUFFIX)["host_ns"] == [100 * MS] * 3
    assert program.written(ALONE_SUFFIX)["first_step"] == 3


def test_a_forked_process_leaves_the_recording_to_its_parent(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.take(6, 100)
    program.recording.leave()
    program.take(30, 100)
    program.recording.write_alone()
    assert not (tmp_path / f"{BEGUN}.1").exists()
    assert not (tmp_path / f"{os.getpid()}{ALONE_SUFFIX}").exists()


def test_an_error_ends_nothing_but_the_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = Program(tmp_path)
    program.take(5, 100)
    program.clock.now = None  # type: ignore[assignment]
    program.marks.end_step()
    assert "no steps are recorded: TypeError" in capsys.readouterr().err
    program.marks.end_step()


class Cuda:
    """The parts of ``torch.cuda`` that time steps."""

    def __init__(self, *, is_initialized: bool = True, captures: bool = False) -> None:
        self.is_initialized = lambda: is_initialized
        self.is_current_stream_capturing = lambda: captures
        self.times = iter(range(99))
        self.waited: list[object] = []

    def Event(self, *, enable_timing: bool) -> SimpleNamespace:  # noqa: N802 - torch's name
        """Return an event that is recorded 2 ms after the one before."""
        assert enable_timing
        event = SimpleNamespace(at=None)
        event.record = lambda: setattr(event, "at", 2.0 * next(self.times))
        event.synchronize = lambda: self.waited.append(event)
        event.elapsed_time = lambda other: other.at - event.at
        return event


def test_cuda_events_time_steps_on_the_gpu() -> None:
    """Only the last one is waited for."""
    cuda = Cuda()
    clock = CudaEvents(SimpleNamespace(cuda=cuda))
    marks = [clock.mark() for _ in range(3)]
    assert clock.between([(marks[0], marks[1]), (marks[1], marks[2])]) == [2 * MS, 2 * MS]
    assert cuda.waited == [marks[2]]


@pytest.mark.parametrize("cuda", [Cuda(is_initialized=False), Cuda(captures=True)])
def test_no_event_is_recorded_without_cuda_or_into_a_graph(cuda: Cuda) -> None:
    clock = CudaEvents(SimpleNamespace(cuda=cuda))
    assert clock.mark() is None
    assert clock.between([(None, None)]) is None
    assert clock.between([]) is None


def test_a_program_that_waits_records_each_time_it_is_wanted(tmp_path: Path) -> None:
    """Only the first recording has steps alone: a program stays slower after one."""
    program = Program(tmp_path, "later")
    program.take(20, 100)
    assert program.recorder.lines == []
    (tmp_path / "wanted.1").write_text("3")
    program.take(20, 100)
    assert program.recorded == [21, 22, 23]
    alone = program.written(ALONE_SUFFIX)
    assert (alone["first_step"], len(alone["host_ns"])) == (3, 18)
    (tmp_path / "wanted.2").write_text("2")
    program.take(10, 100)
    assert program.recorded == [21, 22, 23, 41, 42]
    assert json.loads((tmp_path / "ended.2").read_text()) == {"first": 41, "last": 42}
    assert program.written(ALONE_SUFFIX) == alone
