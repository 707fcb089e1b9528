"""Troubles of the host in a real training loop under the real nsys: each is named first, with its line or call.

There is no GPU here, so the findings count the time of the loop. Other work of this machine holds the loop up as well.
So waits for a core and uneven steps count only where the program plants them.
"""

import sys
from pathlib import Path

import pytest
from capture_fixtures import options

import nsyswrap
from nsyswrap.capture.locate import Nsys
from nsyswrap.capture.nsys import profile
from nsyswrap.model import Finding, Report

PROGRAM = Path(__file__).parents[1] / "support" / "host_program.py"
# What a busy machine does to any program.
OF_THE_MACHINE = {"idle/off_cpu", "host/cpu_quota", "steps/uneven"}
GROUPS = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))
# So little that the quota holds the program up more than other work of the machine does.
QUOTA_US, PERIOD_US = 10_000, 100_000


def report_of(nsys: Nsys, folder: Path, *command: str) -> Report:
    """Return the report of a program, with what was sampled beside it."""
    wanted = options(folder, *command, traces=("nvtx", "osrt"), host_marks=True)
    return nsyswrap.open(profile(wanted, nsys).export).report


def own(report: Report) -> list[Finding]:
    """Return the findings that are about the program alone."""
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
    found = own(report_of(nsys, tmp_path / "result", sys.executable, str(PROGRAM), trouble))
    assert found[0].rule == rule
    assert any(f" in {named}" in line for line in found[0].evidence)


def test_a_loop_without_trouble_has_no_finding(nsys: Nsys, tmp_path: Path) -> None:
    assert own(report_of(nsys, tmp_path / "result", sys.executable, str(PROGRAM), "none")) == []


def test_a_shared_core_is_named_first(nsys: Nsys, tmp_path: Path) -> None:
    """Two processes are ready all the time, so each waits for about half of it."""
    report = report_of(nsys, tmp_path / "result", sys.executable, str(PROGRAM), "shares")
    assert report.verdict_rule == "idle/off_cpu"
    first = report.findings[0]
    assert first.lost_ns > 0.25 * report.window.length_ns
    assert "Other programs use the cores" in first.advice


def test_a_cpu_quota_is_named_first(nsys: Nsys, tmp_path: Path) -> None:
    """The program joins a control group with a tenth of a core, where this machine allows to make one."""
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
        report = report_of(nsys, tmp_path / "result", *loop)
    finally:
        group.rmdir()
    assert report.verdict_rule == "host/cpu_quota"
    assert "CPU limit of the container" in report.findings[0].advice
