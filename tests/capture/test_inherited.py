"""The program inherits what its user gave it, though nsys changes some of it."""

import json
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from capture_fixtures import executable, fake_nsys, options, python

from nsyswrap.capture.inherited import (
    KEPT_FROM_NSYS,
    Inherited,
    ignored_signals,
    inherited,
    inherited_descriptors,
    present_umask,
)
from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.nsys import profile

__all__ = ["fake_nsys"]

PROBE = """
import json, os, sys
lines = open("/proc/self/status").read().splitlines()
status = dict(line.split(":", 1) for line in lines if ":" in line)
open(sys.argv[1], "w").write(json.dumps({
    "umask": status["Umask"].strip(), "ignored": int(status["SigIgn"], 16), "environment": dict(os.environ),
    "blocked": int(status["SigBlk"], 16), "nsys_blocks": int(open(f"/proc/{os.getppid()}/status").read().split(
        "SigBlk:")[1].split()[0], 16),
    "descriptors": [int(name) for name in os.listdir("/proc/self/fd")],
}))
"""


@pytest.fixture
def ignored() -> Iterator[tuple[int, ...]]:
    """Ignore the signals that nohup and a shell's & ignore."""
    numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    yield tuple(map(int, numbers))
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def descriptor() -> Iterator[int]:
    """Open a file for the program, as a shell does for 5<file."""
    with tempfile.TemporaryFile() as file:
        os.set_inheritable(file.fileno(), True)  # noqa: FBT003 - its only form
        yield file.fileno()


def seen(nsys: Nsys, folder: Path, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - any field of the options
    """Return what a program under nsys finds."""
    profile(options(folder / "result", *python(PROBE, str(folder / "seen")), **fields), nsys)
    found: dict[str, Any] = json.loads((folder / "seen").read_text())
    return found


def test_files_of_the_program_have_the_modes_that_its_user_wants(fake_nsys: Nsys, tmp_path: Path) -> None:
    """Nsys starts it with umask 0, so that anybody could write its checkpoints."""
    found = seen(fake_nsys, tmp_path, umask=0o027)
    assert found["umask"] == "0027"
    assert (tmp_path / "seen").stat().st_mode & 0o777 == 0o640


def test_a_program_under_nohup_ignores_what_its_user_wants(
    fake_nsys: Nsys, tmp_path: Path, ignored: tuple[int, ...]
) -> None:
    assert set(ignored) <= set(ignored_signals())
    found = seen(fake_nsys, tmp_path)["ignored"]
    assert all(found >> (number - 1) & 1 for number in ignored)


def test_a_schedulers_signals_reach_the_program_but_not_nsys(fake_nsys: Nsys, tmp_path: Path) -> None:
    found, before = seen(fake_nsys, tmp_path), signal.pthread_sigmask(signal.SIG_BLOCK, ())
    bits = sum(1 << (number - 1) for number in KEPT_FROM_NSYS)
    assert (found["blocked"] & bits, found["nsys_blocks"] & bits) == (0, bits)
    assert not before & set(KEPT_FROM_NSYS)


@pytest.mark.parametrize("env", [None, "#!/bin/sh\nexit 125\n"])
def test_without_an_env_that_unblocks_signals_nothing_is_kept_from_nsys(
    fake_nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env: str | None
) -> None:
    """An older ``env`` does not know the option."""
    (tmp_path / "bin").mkdir()
    if env is not None:
        executable(tmp_path / "bin" / "env", env)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert inherited(os.environ).unblocker == ()
    found = seen(fake_nsys, tmp_path)
    assert (found["blocked"], found["nsys_blocks"]) == (0, 0)


def test_signals_that_our_caller_blocks_stay_blocked_for_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}{os.pathsep}")  # what is known for a PATH is kept
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        assert inherited(os.environ).unblocker == ()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_the_program_has_the_descriptors_of_its_caller(fake_nsys: Nsys, tmp_path: Path, descriptor: int) -> None:
    """`--config <(command)` of a shell is such a file."""
    assert descriptor in inherited_descriptors()
    assert descriptor in seen(fake_nsys, tmp_path)["descriptors"]


def test_variables_without_a_shell_name_reach_the_program(
    fake_nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exported functions of bash are such variables; dash drops them."""
    monkeypatch.setenv("BASH_FUNC_module%%", "() { :; }")
    monkeypatch.setenv("with-dash", "1")
    found = seen(fake_nsys, tmp_path)["environment"]
    assert (found["BASH_FUNC_module%%"], found["with-dash"]) == ("() { :; }", "1")


@pytest.mark.parametrize(("own", "expected"), [(None, "/usr/local/cuda/lib"), ("/x", "/x:/usr/local/cuda/lib")])
def test_the_working_folder_is_not_searched_for_libraries(
    fake_nsys: Nsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str | None, expected: str
) -> None:
    """Nsys appends to a variable that may not be set, and an empty entry is the working folder."""
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    if own is not None:
        monkeypatch.setenv("LD_LIBRARY_PATH", own)
    assert seen(fake_nsys, tmp_path)["environment"]["LD_LIBRARY_PATH"] == expected


@pytest.mark.parametrize(
    ("taken", "expected"),
    [((), (8, 9)), ((9, 12), (7, 8)), (tuple(range(4, 10)), (9, 3)), (tuple(range(3, 10)), (8, 9))],
)
def test_the_streams_use_descriptors_that_the_program_does_not_inherit(
    taken: tuple[int, ...], expected: tuple[int, int]
) -> None:
    assert Inherited(descriptors=taken).free_descriptors() == expected


def test_a_plain_environment_needs_no_bash() -> None:
    assert inherited({"A": "1", "_b2": ""}).shell == ("/bin/sh",)


def test_a_kernel_that_shows_no_umask_is_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """GVisor leaves it out of /proc/self/status. It stays the same."""
    before = present_umask()
    monkeypatch.setattr("nsyswrap.capture.inherited.status_fields", lambda _path: {"Pid": "1"})
    assert (present_umask(), present_umask()) == (before, before)
