"""The clock of a run without a profiler times ranges that may be steps, and writes them to a file."""

import json
import os
import threading
import types
from pathlib import Path
from typing import Any

import pytest

from nsyswrap.capture.annotate import step_clock
from nsyswrap.capture.annotate.nvtx_calls import DOMAIN
from nsyswrap.capture.annotate.step_clock import SUFFIX, StepClock, watch_nvtx, watch_torch


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> StepClock:
    """Return a clock for steps, whose time moves by 10 ns with each range that opens or closes."""
    now = iter(range(0, 100_000, 10))
    monkeypatch.setattr("nsyswrap.capture.annotate.step_clock.time.perf_counter_ns", lambda: next(now))
    return StepClock(r"step \d+$")


def texts(clock: StepClock) -> list[tuple[str, str, int, int]]:
    """Return the ranges without their thread."""
    return [each[1:] for each in clock.ranges]


def test_nested_ranges_close_from_the_inside(clock: StepClock) -> None:
    """Only ranges whose text may be a step are kept. Nested ranges still close in order."""
    for text in ("step 1", "forward", "step 2"):
        clock.push(text)
    for _ in range(3):
        clock.pop()
    assert texts(clock) == [("", "step 2", 20, 30), ("", "step 1", 0, 50)]


def test_domains_and_threads_have_stacks_of_their_own(clock: StepClock) -> None:
    clock.push("step 1")
    clock.push("step 2", "library")
    other = threading.Thread(target=clock.pop)
    other.start()
    other.join()
    clock.pop()
    clock.pop("library")
    assert [each[1:3] for each in clock.ranges] == [("", "step 1"), ("library", "step 2")]
    assert {each[0] for each in clock.ranges} == {threading.get_native_id()}


def test_all_marks_of_nsyswrap_are_kept(clock: StepClock) -> None:
    """The clock takes the place of a profiler. A range ends once, in any order."""
    backward = clock.start(DOMAIN, clock.described("backward", 0x2CA02C))
    data = clock.start(DOMAIN, clock.described("data", 0))
    for number in (backward, data, data):
        clock.end(DOMAIN, number)
    assert texts(clock) == [(DOMAIN, "backward", 0, 20), (DOMAIN, "data", 10, 30)]


def test_a_program_of_many_ranges_keeps_the_first(clock: StepClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_clock, "MOST_RANGES", 2)
    for number in range(5):
        clock.push(f"step {number}")
        clock.pop()
    assert [each[2] for each in clock.ranges] == ["step 0", "step 1"]


def test_a_process_writes_its_ranges_to_a_file_of_its_own(clock: StepClock, tmp_path: Path) -> None:
    """A process without ranges writes no file, and a forked process begins without ranges."""
    clock.write(str(tmp_path))
    assert not list(tmp_path.iterdir())
    clock.push("step 0")
    clock.pop()
    clock.write(str(tmp_path))
    (file,) = tmp_path.iterdir()
    assert file.name == f"{os.getpid()}{SUFFIX}"
    found = json.loads(file.read_text())
    assert (found["pid"], found["ranges"]) == (os.getpid(), [[threading.get_native_id(), "", "step 0", 0, 10]])
    clock.push("step 1")
    clock.reset()
    clock.pop()
    assert clock.ranges == []


def torch_module(calls: list[Any]) -> Any:  # noqa: ANN401 - stands for a module
    """Return a module like ``torch.cuda.nvtx``."""

    def push(msg: str) -> int:
        calls.append(msg)
        return 1

    def pop() -> int:
        calls.append("pop")
        return 0

    return types.SimpleNamespace(range_push=push, range_pop=pop)


def test_ranges_of_torch_are_timed_and_still_opened(clock: StepClock) -> None:
    calls: list[Any] = []
    nvtx = torch_module(calls)
    watch_torch(nvtx, clock)
    assert (nvtx.range_push("step 4"), nvtx.range_pop()) == (1, 0)
    assert calls == ["step 4", "pop"]
    assert texts(clock) == [("", "step 4", 0, 10)]


def test_a_torch_without_cuda_raises_as_without_nsyswrap(clock: StepClock) -> None:
    """The error is the same as without nsyswrap, and no range stays open."""
    nvtx = torch_module([])

    def fails(_msg: str) -> None:
        raise RuntimeError("NVTX functions not installed")

    nvtx.range_push = fails
    watch_torch(nvtx, clock)
    with pytest.raises(RuntimeError, match="not installed"):
        nvtx.range_push("step 1")
    clock.pop()
    assert clock.ranges == []


def test_ranges_of_the_package_nvtx_are_timed_in_each_form(clock: StepClock) -> None:
    """The package's ranges are timed as a context, as a decorator, with a domain, and by push and pop."""
    package = pytest.importorskip("nvtx")
    nvtx = types.SimpleNamespace(push_range=package.push_range, pop_range=package.pop_range, annotate=package.annotate)
    watch_nvtx(nvtx, clock)
    with nvtx.annotate("step 1", color="blue"):
        pass
    with nvtx.annotate("step 2", "blue", "own"):
        pass

    @nvtx.annotate("step 3")  # type: ignore[untyped-decorator]  # the package has no types
    def work(value: int) -> int:
        return value + 1

    assert work(1) == 2
    assert work.__name__ == "work"
    nvtx.push_range("step 4", domain="own")
    nvtx.pop_range(domain="own")
    assert [each[1:3] for each in clock.ranges] == [
        ("", "step 1"),
        ("own", "step 2"),
        ("", "step 3"),
        ("own", "step 4"),
    ]


def test_a_process_that_ends_after_the_run_gets_a_warning(
    clock: StepClock, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A daemon of the program may do so; the folder is gone by then."""
    clock.push("step 1")
    clock.pop()
    clock.write(str(tmp_path / "gone"))
    assert capsys.readouterr().err.startswith("nsyswrap: annotate: cannot write to ")
