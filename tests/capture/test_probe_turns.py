"""The programs that time calls take turns, block by block, on one core after the other; none is left running."""

import json
import os
import socket
import threading
from pathlib import Path

import pytest
from capture_fixtures import living, marker

from nsyswrap.capture import probe_turns
from nsyswrap.capture.probe_turns import Probe, run_probes, some_cores

__all__ = ["marker"]

# Stands for the program: writes its requests into a file, and answers a block with its number and a pace.
PROGRAM = """
import json, socket, sys
label, log, address, number = sys.argv[1:]
connection = socket.socket(socket.AF_UNIX)
connection.connect(address)
lines = connection.makefile("rw")
def answer(found):
    lines.write(json.dumps(found) + "\\n")
    lines.flush()
answer(int(number))
answer({"range": ["tight"], **({"launch": ["tight", "python"]} if label != "without" else {})})
for line in lines:
    request = json.loads(line)
    with open(log, "a") as file:
        file.write(f"{label} {line}")
    if "count" in request:
        answer({"plain_step": [{"launch": 77}, 2.5]})
    elif "core" not in request:
        if label == "failing":
            sys.exit("no GPU left")
        answer([100.0 + int(number), 10.0])
"""


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Put a program in place of the real one, and return the file of its requests."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nshift 2\nexec python3 {program} ${{LABEL:-alone}} {tmp_path / "log"} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setattr("nsyswrap.capture.probe_turns.sys.executable", str(script))
    monkeypatch.setattr(probe_turns, "BLOCKS", 3)
    return tmp_path / "log"


def requests_in(log: Path) -> list[tuple[str, dict[str, object]]]:
    """Return who got which request, in order."""
    return [
        (who, json.loads(request)) for who, _, request in (line.partition(" ") for line in log.read_text().splitlines())
    ]


def test_two_programs_take_turns_and_each_round_uses_another_core(log: Path, tmp_path: Path) -> None:
    """The first of four rounds is not counted. In every second round the other program comes first."""
    alone, recorded = run_probes([(), ("env", "LABEL=recorded")], tmp_path)
    assert alone["launch"]["python"] == [(100.0, 10.0)] * 3
    assert recorded["launch"] == {"tight": [(101.0, 10.0)] * 3, "python": [(101.0, 10.0)] * 3}
    assert (alone["plain_step_launches"], "plain_step_launches" in recorded) == ({"launch": [(77, 0.0)]}, False)
    assert alone["plain_step_longest"] == {"tight": [(2.5, 0.0)]}
    requests = [(who, request) for who, request in requests_in(log) if request.get("call") == "range"]
    assert [who for who, _ in requests] == ["recorded", "alone", "alone", "recorded"] * 2
    cores = [request["core"] for _, request in requests_in(log) if "core" in request][:8]
    assert cores == [some_cores()[number // 2 % len(some_cores())] for number in range(8)]


def test_each_program_times_what_it_can(log: Path, tmp_path: Path) -> None:
    """The second has no CUDA calls."""
    alone, without = run_probes([(), ("env", "LABEL=without")], tmp_path)
    assert (set(alone), set(without)) == ({"range", "launch", "plain_step_launches", "plain_step_longest"}, {"range"})
    assert log.exists()


@pytest.mark.parametrize(
    ("command", "how"),
    [
        ("exit 3", "exit code 3"),
        ("sleep 0.1", "exit code 0"),
        ("echo one; echo two >&2; exit 1", r"two \(exit code 1\)"),
    ],
)
def test_a_program_that_ends_before_it_is_ready_is_an_error(command: str, how: str, tmp_path: Path) -> None:
    """The error has its last line and its exit code."""
    with pytest.raises(OSError, match=f"ended before it was ready: {how}$"):
        run_probes([(), ("sh", "-c", command)], tmp_path)


def test_a_program_that_never_gets_ready_takes_too_long(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(probe_turns, "TIMEOUT_S", 0.5)
    monkeypatch.setattr(probe_turns, "output_of", lambda *_, **__: threading.Event().wait(1.5))
    with pytest.raises(TimeoutError):
        run_probes([("sh",)], tmp_path)


def test_a_program_that_ends_between_two_blocks_is_an_error() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(b'0\n{"range": ["tight"]}\n')
        probe = Probe(ours)
    with pytest.raises(OSError, match=r"ended|Broken pipe"):
        probe.block("range", "tight")
    probe.close()


@pytest.mark.usefixtures("log")
def test_the_error_says_how_a_program_ended_between_two_blocks(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"a program that times calls ended: no GPU left \(exit code 1\)"):
        run_probes([("env", "LABEL=failing")], tmp_path)


def test_what_a_crashed_nsys_leaves_is_ended(marker: str, tmp_path: Path) -> None:
    """Its agent and the program run in sessions of their own."""
    left = 'setsid sh -c "sleep 60; true" "$0" & sleep 0.2; exit 1'
    with pytest.raises(OSError, match="ended"):
        run_probes([("sh", "-c", left, marker)], tmp_path)
    assert living(marker) == []


def test_the_cores_are_some_of_those_that_we_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, chosen in (({3}, [3]), ({0, 1, 5}, [0, 1, 5]), (set(range(32)), [0, 8, 16, 24])):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _pid, cores=cores: cores)
        assert some_cores() == chosen
