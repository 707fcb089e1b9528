"""Problems of the host in a real training loop under the real nsys: each is the first finding, with its line or call.

There is no GPU here, so the findings count the time of the loop. Other work on this machine delays the loop, too.
So waits for a core and uneven steps count only if the program plants them, and one run of three must show it.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from capture_fixtures import options

import nsyswrap
from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.nsys import profile
from nsyswrap.model import Finding, Report

PROGRAM = Path(__file__).parents[1] / "support" / "host_program.py"
RUNS = 6
# Another program, which is busy only during the loop.
BUSY = """
import os, sys, time
from pathlib import Path
wanted, busy = map(Path, sys.argv[1:])
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
while True:
    time.sleep(0.02)
    while wanted.exists():
        busy.touch()
        for _ in range(100_000): pass
"""
# Findings that a busy machine causes in any program.
OF_THE_MACHINE = {"idle/off_cpu", "host/cpu_quota", "steps/uneven"}
GROUPS = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))
# The quota is small, so that it delays the program more than other work on the machine.
QUOTA_US, PERIOD_US = 10_000, 100_000


def report_of(nsys: Nsys, folder: Path, *command: str) -> Report:
    """Return the report of a program, with the samples of the host."""
    wanted = options(folder, *command, traces=("nvtx", "osrt"), host_marks=True)
    return nsyswrap.open(profile(wanted, nsys).export).report


def shown(nsys: Nsys, folder: Path, wanted: Callable[[Report], bool], *command: str) -> Report:
    """Return the report of the first run that meets the condition, else the report of the last run."""
    for run in range(RUNS):
        report = report_of(nsys, folder / f"run {run}", *command)
        if wanted(report):
            break
    return report


def own(report: Report) -> list[Finding]:
    """Return the findings on the program, without those that a busy machine causes."""
    return [each for each in report.findings if each.rule not in OF_THE_MACHINE]


PLANTED = {
    "collects": ("idle/garbage_collection", "garbage collection at host_program.py:"),
    "saves": ("host/checkpoint", "torch.save at host_program.py:"),
    "writes": ("idle/file_io", "fsync"),
    "reads": ("host/file_reads", "read"),
}


@pytest.mark.parametrize("trouble", PLANTED)
def test_a_trouble_of_the_host_is_named_first(trouble: str, nsys: Nsys, tmp_path: Path) -> None:
    rule, named = PLANTED[trouble]

    def is_first(report: Report) -> bool:
        return [each.rule for each in own(report)][:1] == [rule]

    found = own(shown(nsys, tmp_path, is_first, sys.executable, str(PROGRAM), trouble))
    assert [each.rule for each in found][:1] == [rule]
    assert any(f" in {named}" in line for line in found[0].evidence)


def test_a_loop_without_trouble_has_no_finding(nsys: Nsys, tmp_path: Path) -> None:
    report = shown(nsys, tmp_path, lambda report: not own(report), sys.executable, str(PROGRAM), "none")
    assert own(report) == []


def test_a_shared_core_is_named_first(nsys: Nsys, tmp_path: Path) -> None:
    """Two processes on one core are always ready to run, so each waits about half of the time."""
    files = (str(tmp_path / "wanted"), str(tmp_path / "busy"))
    loop = (sys.executable, str(PROGRAM), "shares", *files)

    def is_named(report: Report) -> bool:
        return report.verdict_rule == "idle/off_cpu" and "Other programs use the cores" in report.findings[0].advice

    with subprocess.Popen([sys.executable, "-c", BUSY, *files]) as other:
        try:
            report = shown(nsys, tmp_path, is_named, *loop)
        finally:
            other.kill()
    assert is_named(report)
    assert report.findings[0].lost_ns > 0.25 * report.window.length_ns


def test_a_cpu_quota_is_named_first(nsys: Nsys, tmp_path: Path) -> None:
    """The program joins a control group with a tenth of a core; the test needs permission to make one."""
    group = next((each / "nsyswrap-test" for each in GROUPS if (each / "cpu.cfs_quota_us").exists()), None)
    if group is None:
        pytest.skip("no control group of version 1 for CPU time")
    try:
        group.mkdir()
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(QUOTA_US))
    except OSError:
        pytest.skip("control groups cannot be made here")
    loop = (sys.executable, str(PROGRAM), "quota", str(group / "cgroup.procs"))
    try:
        report = shown(nsys, tmp_path, lambda report: report.verdict_rule == "host/cpu_quota", *loop)
    finally:
        group.rmdir()
    assert report.verdict_rule == "host/cpu_quota"
    assert "CPU limit of the container" in report.findings[0].advice
