"""Tasks are answered by processes of this machine; one whose process ends is tried again, and then given up."""

from pathlib import Path

import worker_tasks

from nsyswrap.many.processes import ATTEMPTS, LOST, Lost, Processes, ProcessLimits, default_processes, process_limits


def test_tasks_outlive_their_processes(tmp_path: Path) -> None:
    """One task ends its process once, one each time; all others have their answer, whatever the memory allows."""
    once = f"die once {tmp_path / 'mark'}"
    tasks = ["a", once, "b", "die", "c"]
    found = dict(Processes(worker_tasks.maker, ProcessLimits(2, 100, 300)).answers(tasks, [10, 20, 1000, 30, 40]))
    assert found.pop(3) == Lost(LOST)
    assert found == {number: f"answer to {tasks[number]}" for number in (0, 1, 2, 4)}
    assert ATTEMPTS > 1


def test_a_task_that_never_ends_is_given_up() -> None:
    found = dict(Processes(worker_tasks.maker, ProcessLimits(1, 100, 0.1)).answers(["hang"], [1]))
    assert isinstance(found[0], Lost)
    assert "longer than 0.1 s" in found[0].reason


def test_processes_are_as_many_as_cores_or_as_given() -> None:
    assert process_limits(None, 1).processes == default_processes() >= 1
    assert process_limits(7, 1).processes == 7
