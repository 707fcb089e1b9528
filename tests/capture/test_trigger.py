"""How another terminal makes a program record: by files that its processes look at."""

import threading
from pathlib import Path

import pytest
from capture_fixtures import until

from nsyswrap.base.errors import UsageError
from nsyswrap.capture.annotate.injection import Injection
from nsyswrap.capture.trigger import trigger


def waiting(folder: Path, steps: str = "later") -> Path:
    """Return the folder of the files of a run that waits."""
    injection = Injection(folder / ".run" / "temporary" / "annotate", steps=steps)
    injection.folder.mkdir(parents=True)
    injection.prepare()
    return injection.folder / "status"


def answer(status: Path, number: int, steps: str) -> None:
    """Record when it is wanted, as a process of the program does."""
    until((status / f"wanted.{number}").exists, "a recording is wanted")
    assert (status / f"wanted.{number}").read_text() == steps
    (status / f"begun.{number}").touch()
    (status / f"ended.{number}").write_text('{"first": 40, "last": 49}')


def test_each_recording_has_a_number(tmp_path: Path) -> None:
    """The command waits until the steps are recorded."""
    status = waiting(tmp_path)
    for number, steps in ((1, "10"), (2, "")):
        program = threading.Thread(target=answer, args=(status, number, steps))
        program.start()
        assert trigger(tmp_path, steps) == [{"first": 40, "last": 49}]
        program.join()


def test_each_rank_of_a_job_that_waits_records(tmp_path: Path) -> None:
    programs = [threading.Thread(target=answer, args=(waiting(tmp_path / f"rank-{rank}"), 1, "")) for rank in range(2)]
    for program in programs:
        program.start()
    assert len(trigger(tmp_path, "")) == 2
    for program in programs:
        program.join()


@pytest.mark.parametrize("steps", [None, "30"])
def test_a_program_that_does_not_wait_is_an_error(tmp_path: Path, steps: str | None) -> None:
    """There is none, or it records by its own schedule."""
    if steps is not None:
        waiting(tmp_path, steps)
    with pytest.raises(UsageError, match="waits for a trigger"):
        trigger(tmp_path, "")


def test_a_second_trigger_before_the_end_of_the_first_is_an_error(tmp_path: Path) -> None:
    (waiting(tmp_path) / "wanted.1").touch()
    with pytest.raises(UsageError, match="being recorded already"):
        trigger(tmp_path, "")
