"""A program is sampled from outside, with real processes and real files of the kernel."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from nsyswrap.capture.host_monitor import HostMonitor, Series

SECONDS = 0.8
# Threads of a process that compute for a while on one core.
BUSY = """
import os, subprocess, sys, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
other = subprocess.Popen([sys.executable, "-c", "import time\\nend = time.time() + 3\\nwhile time.time() < end: pass"])
end = time.time() + 2.5
while time.time() < end: pass
other.kill()
"""


def sampled(code: str, seconds: float) -> tuple[int, dict[str, Any]]:
    """Run Python code, sample it for some seconds, and return its process id and the record."""
    process = subprocess.Popen([sys.executable, "-c", code])
    monitor = HostMonitor()
    try:
        monitor.start(process.pid)
        time.sleep(seconds)
        monitor.stop()
    finally:
        process.kill()
        process.wait()
    found = monitor.record()
    assert found is not None
    return process.pid, found


def test_the_time_that_two_programs_wait_for_one_core_is_sampled() -> None:
    """Both programs are always ready to run. Each has the core for half of the time, or less on a busy machine."""
    pid, found = sampled(BUSY, 2.2)
    mine = next(each for each in found["threads"] if each["thread"] == pid)
    times = found["times_ns"]
    # The processes start in the first second, and the second process is known after the second look for processes.
    first = next(row for row, sample in enumerate(mine["at"]) if times[sample] > times[0] + 1_200_000_000)
    length = times[mine["at"][-1]] - times[mine["at"][first]]
    ran, waited = (mine[name][-1] - mine[name][first] for name in ("on_cpu_ns", "delay_ns"))
    assert waited > 0.3 * length
    # The thread runs or waits all the time. The kernel counts both at the next switch, some milliseconds later.
    assert ran + waited == pytest.approx(length, rel=0.25)
    assert found["cores"]["allowed"] == 1
    assert len({each["process"] for each in found["threads"]}) == 2


def test_sampling_takes_about_one_hundredth_of_a_core() -> None:
    """The pause after a sample depends on the time of the sample, so the share is the same on a busy machine."""
    _, found = sampled("import time\ntime.sleep(5)", SECONDS)
    times = found["times_ns"]
    assert found["spent_ns"] < 0.05 * (times[-1] - times[0])


def test_bytes_from_the_disk_are_sampled(tmp_path: Path) -> None:
    """The file is written by the program and flushed, so the kernel counts its bytes."""
    code = f"import os, time\nf = open({str(tmp_path / 'f')!r}, 'wb')\nf.write(bytes(1 << 22))\nf.flush()\n"
    _, found = sampled(f"{code}os.fsync(f.fileno())\ntime.sleep(5)", SECONDS)
    written = found["processes"][0]["written_bytes"]
    if not Path("/proc/self/io").exists():
        pytest.skip("this kernel counts no bytes of a process")
    assert written[-1] >= 1 << 22


def test_a_clock_that_is_set_while_sampling_changes_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the wall goes back to 1970 before the first sample; the times go on from where it was."""
    began = time.time_ns()
    monitor = HostMonitor()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    monitor.start(os.getpid())
    monitor.stop()
    found = monitor.record()
    assert found is not None
    times = found["times_ns"]
    assert isinstance(times, list)
    assert began <= times[0]
    assert times == sorted(times)


def test_a_monitor_that_never_started_has_no_record() -> None:
    monitor = HostMonitor()
    monitor.stop()
    assert monitor.record() is None


def test_sampling_ends_with_the_program() -> None:
    """No more samples are taken from one second after the end of the program."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    monitor = HostMonitor()
    monitor.start(process.pid)
    time.sleep(0.3)
    found = monitor.record()
    assert found is not None
    assert found["throttled"] is None
    assert found["threads"] == []


def test_a_series_keeps_rows_that_differ_and_the_row_before_each() -> None:
    """Nothing changed from sample 1 to 3: the change from 3 to 4 lies between these two samples."""
    series = Series()
    for sample, value in enumerate([5, 6, 6, 6, 9, 9, 9]):
        series.add(sample, (value,))
    assert series.columns(("value",)) == {"at": [0, 1, 3, 4, 6], "value": [5, 6, 6, 9, 9]}


def test_a_sample_that_hangs_leaves_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver in trouble may not answer. The thread would change the record while it is written."""
    began, answers = threading.Event(), threading.Event()

    def hang(*_: object) -> None:
        began.set()
        answers.wait(60)

    monkeypatch.setattr("nsyswrap.capture.host_monitor._STOP_TIMEOUT_S", 0.1)
    monkeypatch.setattr(HostMonitor, "_sample_process", hang)
    monitor = HostMonitor()
    monitor.start(os.getpid())
    assert began.wait(60)
    monitor.stop()
    assert monitor.record() is None
    answers.set()
