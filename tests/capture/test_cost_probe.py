"""The cost probe times a block of its own calls for each request: kinds of calls, settings, and answers."""

import io
import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nsyswrap.capture import cost_probe, cost_probe_cuda
from nsyswrap.capture.cost_probe import Work, block, blocks_of_calls, serve


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make few calls and no CUDA calls."""
    for name, value in {"CALLS": 3, "PACES": 3}.items():
        monkeypatch.setattr(cost_probe, name, value)
    monkeypatch.setattr(cost_probe_cuda, "DRIVER", "libcuda-that-does-not-exist.so.1")


def test_a_call_is_timed_without_the_work_before_and_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls advance a fake clock: 7 for the call, 100 for the work before it, 30 for the work that shows the pace."""
    now = [0]
    monkeypatch.setattr("nsyswrap.capture.cost_probe.time.perf_counter_ns", lambda: now[0])

    def takes(length: int) -> cost_probe.Call:
        return lambda: now.__setitem__(0, now[0] + length)

    assert block(takes(7), takes(100), takes(1_000), takes(30), 4) == (7, 30)
    assert now == [4 * 107 + 1_000 + cost_probe.PACES * 30]


@pytest.mark.usefixtures("short")
def test_the_gpu_is_idle_at_each_launch_of_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait for the GPU comes before each launch, and the work of the setting between the two."""
    made: list[str] = []

    class FakeCuda:
        settle = staticmethod(lambda: made.append("wait"))

        @staticmethod
        def kinds() -> Iterator[tuple[str, cost_probe.Call]]:
            yield "launch", lambda: made.append("queued launch")

        @staticmethod
        def graphs() -> Iterator[tuple[str, cost_probe.Call]]:
            yield "graph_1", lambda: made.append("launch")

        @staticmethod
        def queues() -> Iterator[tuple[str, Callable[[], float]]]:
            yield "queued_short_kernel", lambda: 1_600.0
            yield "queued_short_node", lambda: 800.0

    monkeypatch.setattr(cost_probe, "Cuda", FakeCuda)
    work = Work()
    monkeypatch.setattr(work, "evicted", lambda: made.append("work"))
    found = blocks_of_calls(work)
    found["graph_1"]["evicted"]()
    assert made == [*["wait", "work", "launch"] * 3, "wait"]
    made.clear()
    found["launch"]["tight"]()
    assert made == [*["queued launch"] * 3, "wait"]
    assert found["queued_short_kernel"]["device"]() == (1_600.0, 0)
    assert found["queued_short_node"]["device"]() == (800.0, 0)


@pytest.mark.usefixtures("short")
def test_without_a_gpu_ranges_and_calls_of_the_system_are_timed(capsys: pytest.CaptureFixture[str]) -> None:
    found = blocks_of_calls(Work())
    assert set(found) == {"nothing", "range", "mark", "os_call", "short_os_call"}
    assert all(set(each) == {"tight", "python", "evicted"} for each in found.values())
    for each in found.values():
        time_ns, pace_ns = each["tight"]()
        assert time_ns >= 0 < pace_ns
    assert "without CUDA calls" in capsys.readouterr().err


def test_each_request_has_an_answer_in_one_line_but_a_move() -> None:
    """The first answer is what can be timed. Without training steps no launches are counted."""
    core = min(os.sched_getaffinity(0))
    before = os.sched_getaffinity(0)
    requests = [{"core": core}, {"call": "range", "setting": "tight"}, {"count": True}]
    answers = io.StringIO()
    try:
        lines = io.StringIO("".join(json.dumps(each) + "\n" for each in requests))
        serve(lines, answers, {"range": {"tight": lambda: (7.0, 30.0)}}, None)
        assert os.sched_getaffinity(0) == {core}
    finally:
        os.sched_setaffinity(0, before)
    assert [json.loads(line) for line in answers.getvalue().splitlines()] == [{"range": ["tight"]}, [7.0, 30.0], {}]


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
def test_the_program_serves_the_socket_of_the_command_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It says its number first. It ends with the requests."""
    monkeypatch.setattr(sys, "argv", ["cost_probe", str(tmp_path / "probe"), "1"])
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "probe"))
        server.listen()
        monkeypatch.setattr(
            cost_probe, "serve", lambda _requests, answers, blocks, _steps: answers.write(str(len(blocks)))
        )
        assert cost_probe.main() == 0
        connection, _ = server.accept()
        with connection:
            assert connection.recv(100) == b"1\n5"
