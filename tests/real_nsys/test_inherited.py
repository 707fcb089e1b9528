"""What the real nsys changes for a program is restored: /proc/self/status alone and under it."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from capture_fixtures import options, python

from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.nsys import profile

PROBE = """
import json, os, resource, sys
lines = open("/proc/self/status").read().splitlines()
status = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
same = ("Umask", "Uid", "Gid", "Groups", "CapEff", "NoNewPrivs", "Seccomp", "Cpus_allowed_list", "Mems_allowed_list")
# Below 32: nsys's threads use the first two real-time signals.
ignored = [number for number in range(1, 32) if int(status["SigIgn"], 16) >> (number - 1) & 1]
blocked = [number for number in range(1, 32) if int(status["SigBlk"], 16) >> (number - 1) & 1]
limits = {name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")}
kept = ("HOME", "PATH", "TMPDIR", "with-dash", "BASH_FUNC_module%%")
open(sys.argv[1], "w").write(json.dumps({
    "status": {name: status[name] for name in same if name in status}, "ignored": ignored, "blocked": blocked,
    "limits": limits, "nice": os.nice(0), "cwd": os.getcwd(), "oom": open("/proc/self/oom_score_adj").read(),
    "environment": {name: os.environ.get(name) for name in kept},
    "libraries": not os.environ.get("LD_LIBRARY_PATH", "").startswith(":"),
    "read": os.read(int(sys.argv[2]), 100).decode(),
}))
"""


@pytest.fixture
def unusual(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Start programs with an unusual umask, ignored and blocked signals, and odd variables."""
    monkeypatch.setenv("BASH_FUNC_module%%", "() { :; }")
    monkeypatch.setenv("with-dash", "1")
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR2)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    umask = os.umask(0o027)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.umask(umask)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("unusual")
def test_the_program_inherits_the_same_as_alone(nsys: Nsys, tmp_path: Path) -> None:
    """Nsys alone starts it with umask 0, catches SIGINT, and searches the working folder for libraries."""
    seen: list[dict[str, Any]] = []
    for name in ("alone", "recorded"):
        (tmp_path / "text").write_text("inherited")
        with (tmp_path / "text").open() as file:
            os.set_inheritable(file.fileno(), True)  # noqa: FBT003 - its only form
            program = python(PROBE, str(tmp_path / name), str(file.fileno()))
            if name == "alone":
                subprocess.run(program, check=True, close_fds=False)
            else:
                profile(options(tmp_path / "result", *program), nsys)
        seen.append(json.loads((tmp_path / name).read_text()))
    assert seen[1] == seen[0]
    assert (tmp_path / "recorded").stat().st_mode == (tmp_path / "alone").stat().st_mode
