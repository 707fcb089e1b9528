"""The cost probe times its own calls: the kinds of calls, the settings, and the file that it writes."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from nsyswrap.capture import cost_probe, cost_probe_cuda
from nsyswrap.capture.annotate.nvtx_calls import package_calls
from nsyswrap.capture.cost_probe import Work, graph_times, measure, range_kinds, times, times_at_pace

if TYPE_CHECKING:
    from nsyswrap.capture.cost_probe_cuda import Cuda


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make few calls and no CUDA calls."""
    for name, value in {"BLOCKS": 2, "CALLS": 3, "PACES": 3}.items():
        monkeypatch.setattr(cost_probe, name, value)
    monkeypatch.setattr(cost_probe_cuda, "DRIVER", "libcuda-that-does-not-exist.so.1")


def test_a_call_is_timed_without_the_work_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls advance a fake clock: 7 for the call, 100 for the work before it, 30 for the work that shows the pace."""
    now = [0]
    monkeypatch.setattr("nsyswrap.capture.cost_probe.time.perf_counter_ns", lambda: now[0])

    def takes(length: int) -> cost_probe.Call:
        return lambda: now.__setitem__(0, now[0] + length)

    found = times(takes(7), takes(100), takes(1_000), takes(30))
    assert found == [(7, 30)] * cost_probe.BLOCKS


@pytest.mark.parametrize(("slow_blocks", "blocks"), [(0, 12), (9, 13), (50, 54), (1000, 120)])
def test_steps_are_timed_until_some_blocks_are_at_the_fastest_pace(
    slow_blocks: int, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine is slow for some blocks, and then as fast as it was before: four fast blocks are enough."""
    now, done = [0], [0]
    monkeypatch.setattr("nsyswrap.capture.cost_probe.time.perf_counter_ns", lambda: now[0])

    def takes(length: int) -> cost_probe.Call:
        def call() -> None:
            done[0] += length == 700
            is_slow = done[0] < cost_probe.STEPS * (slow_blocks + 1)  # the first block is for the caches
            now[0] += length * (2 if is_slow else 1)

        return call

    found = times_at_pace(takes(700), takes(30), 30.0)
    assert len(found) == blocks
    assert sum(pace == 30 for _, pace in found) == (0 if slow_blocks == 1000 else blocks - slow_blocks)


@pytest.mark.usefixtures("short")
def test_the_gpu_is_idle_at_each_launch_of_a_graph() -> None:
    """A wait for the GPU comes before each launch, and the work of the setting between the two."""
    made: list[str] = []

    class FakeCuda:
        settle = staticmethod(lambda: made.append("wait"))

        @staticmethod
        def graphs() -> Iterator[tuple[str, cost_probe.Call]]:
            yield "graph_1", lambda: made.append("launch")

    found = graph_times(cast("Cuda", FakeCuda()), {"python": lambda: made.append("work")}, Work())
    assert made == ["wait", "work", "launch"] * 9
    assert [len(blocks) for blocks in found["graph_1"].values()] == [2]


@pytest.mark.usefixtures("short")
def test_without_a_gpu_ranges_and_calls_of_the_system_are_timed(capsys: pytest.CaptureFixture[str]) -> None:
    found = measure()
    assert set(found) == {"nothing", "range", "mark", "os_call", "short_os_call"}
    assert all(set(each) == {"tight", "python", "evicted"} for each in found.values())
    assert all(len(blocks) == 2 for each in found.values() for blocks in each.values())
    assert all(time >= 0 < pace for each in found.values() for blocks in each.values() for time, pace in blocks)
    assert "without CUDA calls" in capsys.readouterr().err


def test_without_a_profiler_a_mark_is_nothing_and_a_range_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both do nothing, with the package nvtx or without it."""
    monkeypatch.delenv("NVTX_INJECTION64_PATH", raising=False)
    for found in (package_calls, lambda: None):
        monkeypatch.setattr(cost_probe, "package_calls", found)
        kinds = dict(range_kinds())
        assert [kinds[name]() for name in ("range", "mark")] == [None, None]


def test_the_work_before_a_call_differs_by_setting() -> None:
    """Only the last setting writes memory."""
    work = Work()
    work.tight()
    work.python()
    assert not any(work._target)  # noqa: SLF001 - what the setting is about
    work._source = b"\1" * len(work._source)  # noqa: SLF001
    work.evicted()
    assert all(work._target)  # noqa: SLF001


@pytest.mark.usefixtures("short")
def test_the_times_go_to_the_file_of_the_command_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["cost_probe", str(tmp_path / "times.json")])
    assert cost_probe.main() == 0
    assert set(json.loads((tmp_path / "times.json").read_text())) >= {"nothing", "range"}
