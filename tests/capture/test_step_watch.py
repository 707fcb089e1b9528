"""What is seen from outside of a program that records its own steps."""

import json
from pathlib import Path

import pytest

from nsyswrap.capture import step_watch
from nsyswrap.capture.annotate.injection import Injection
from nsyswrap.capture.step_watch import StepState, StepWatch


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StepWatch:
    """Return what follows a program; its states and the start of nsys go to files in the folder of the test."""
    monkeypatch.setattr(step_watch, "_LOOK_S", 0.0)
    injection = Injection(tmp_path, steps="")
    injection.prepare()
    return StepWatch(
        injection, tmp_path, lambda pid: ("touch", str(tmp_path / f"started-{pid}")), {"PATH": "/usr/bin:/bin"}
    )


def says(folder: Path, name: str, **values: object) -> None:
    """Write a file as a process of the program does."""
    (folder / "status" / name).write_text(json.dumps(values))


def test_the_states_are_those_of_the_process_that_has_got_furthest(watch: StepWatch, tmp_path: Path) -> None:
    """The rate is that since the phase began. A state is shown once.

    The steps alone and the X-ray step are written when the recording ends, in case the run is killed later.
    """
    states: list[StepState] = []
    watch.on_state = states.append
    says(tmp_path, "1.progress", phase="warm-up", step=2, first=0, at_ns=1_000_000_000)
    says(tmp_path, "2.progress", phase="alone", step=3, first=0, at_ns=1_000_000_000)
    watch.look(1, 1.0)
    watch.look(1, 1.0)
    says(tmp_path, "2.progress", phase="alone", step=23, first=0, at_ns=3_000_000_000)
    watch.look(1, 3.0)
    says(tmp_path, "ended.1", first=30, last=39)
    (tmp_path / "status" / "begun.1").touch()
    says(tmp_path, "2.alone", pid=2, rank=None, first_step=3, host_ns=[10], gpu_ns=None, data_ns=None)
    says(tmp_path, "2.xray", pid=2, rank=None, step=40, reason="other tools monitor the calls of this process")
    watch.look(1, 5.0)
    assert states == [StepState("alone", 3), StepState("alone", 23, 10.0, 0.0), StepState("ended")]
    assert json.loads((tmp_path / "steps_alone.json").read_text())["processes"][0]["host_ns"] == [10]
    assert json.loads((tmp_path / "xray.json").read_text())["processes"][0]["step"] == 40


@pytest.mark.parametrize(("ran_s", "starts"), [(120.0, False), (120.1, True)])
def test_a_program_without_steps_is_recorded_after_two_minutes(
    watch: StepWatch, tmp_path: Path, ran_s: float, *, starts: bool
) -> None:
    watch.look(7, ran_s)
    assert (tmp_path / "started-7").exists() is starts
    assert watch.is_outside is starts
    assert not watch.stops_recording


@pytest.mark.parametrize("has_loop", [True, False])
def test_one_that_takes_steps_is_left_alone(watch: StepWatch, tmp_path: Path, *, has_loop: bool) -> None:
    """A step that a loader has begun, and that nothing will end, does not count."""
    says(tmp_path, "1.progress", phase="warm-up", step=0, first=0, at_ns=1, has_loop=has_loop)
    watch.look(7, 1000.0)
    assert watch.is_outside is not has_loop


def test_a_recording_from_outside_ends_with_the_steps_that_come_later(watch: StepWatch, tmp_path: Path) -> None:
    """The program ends then only if its user wants that."""
    watch.look(7, 1000.0)
    says(tmp_path, "ended.1", first=3, last=102)
    watch.look(7, 1001.0)
    assert watch.stops_recording
    assert not watch.ends_program
    watch.stop_after = True
    assert watch.ends_program
