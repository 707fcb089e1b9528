"""What a blocked thread reads from or writes to, with real processes and the files of this kernel."""

import subprocess
import sys
import time

import pytest

from nsyswrap.capture.host_monitor import HostMonitor, what_blocks

LONGEST_S = 20
PROGRAMS = {
    "pipe": "import os\nour, their = os.pipe()\nos.read(our, 1)\n",
    "socket": "import os, socket\nour, their = socket.socketpair()\nos.read(our.fileno(), 1)\n",
    "terminal": "import os, pty\nour, their = pty.openpty()\nos.read(their, 1)\n",
}
FULL_PIPE = "import os\nour, their = os.pipe()\nwhile True: os.write(their, bytes(1 << 16))\n"


def awaited(process: int) -> str | None:
    """Return what the main thread of a process waits for, as soon as it waits for something."""
    end = time.monotonic() + LONGEST_S
    found = None
    while found is None and time.monotonic() < end:
        time.sleep(0.05)
        found = what_blocks(process, process)
        # Python reads its own files when it starts.
        found = None if found == "file" else found
    return found


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_read_is_on_what_its_descriptor_is(kind: str) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAMS[kind]]) as process:
        found = awaited(process.pid)
        process.kill()
    assert found == kind


def test_a_write_to_a_full_pipe_waits_for_it() -> None:
    with subprocess.Popen([sys.executable, "-c", FULL_PIPE]) as process:
        found = awaited(process.pid)
        process.kill()
    assert found == "pipe"


def test_other_calls_and_processes_that_are_gone_are_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time\nprint(flush=True)\ntime.sleep(60)"]) as process:
        time.sleep(0.5)
        assert what_blocks(process.pid, process.pid) is None
        process.kill()
    assert what_blocks(process.pid, process.pid) is None


def test_waits_are_in_the_record_with_their_times() -> None:
    """The program wakes up each 10 ms, so that it has run since the sample before."""
    code = "import os, threading, time\nour, their = os.pipe()\ndef wake():\n while True:\n"
    code += "  time.sleep(0.01); os.write(their, b'1')\nthreading.Thread(target=wake, daemon=True).start()\n"
    with subprocess.Popen([sys.executable, "-c", f"{code}while True: os.read(our, 1)\n"]) as process:
        monitor = HostMonitor()
        began = time.time_ns()
        monitor.start(process.pid)
        time.sleep(2)
        monitor.stop()
        process.kill()
    found = monitor.record()
    assert found is not None
    waits = found["waits"]
    assert isinstance(waits, list)
    mine = next(each for each in waits if each["thread"] == process.pid)
    assert mine["on"].count("pipe") > len(mine["on"]) / 2
    assert len(mine["at_ns"]) == len(mine["on"])
    assert mine["at_ns"] == sorted(mine["at_ns"])
    # The clock of the wall may be set a little meanwhile; that of the record runs on.
    assert began - 1e9 < mine["at_ns"][0] < mine["at_ns"][-1] < time.time_ns() + 1e9
