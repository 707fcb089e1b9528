"""CPU quotas are read from control groups of both versions, in synthetic folders."""

from pathlib import Path

import pytest

from nsyswrap.capture.cpu_quota import find_quota

PROCESS = 42


def group(folder: Path, files: dict[str, str]) -> None:
    """Write the files of a control group."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Return a folder of process files, with one process that is not in a control group yet."""
    group(tmp_path / "proc" / str(PROCESS), {})
    return tmp_path / "proc"


def test_the_tightest_quota_of_the_groups_above_counts(proc: Path, tmp_path: Path) -> None:
    """The container has two cores, the job in it has four, and the process has no limit."""
    (proc / str(PROCESS) / "cgroup").write_text("0::/pod/job/own\n")
    mounts = tmp_path / "cgroup"
    group(mounts, {"cgroup.controllers": "cpu"})
    stat = "nr_periods 9\nnr_throttled 3\nthrottled_usec 1500\n"
    group(mounts / "pod", {"cpu.max": "200000 100000\n", "cpu.stat": stat})
    group(mounts / "pod" / "job", {"cpu.max": "400000 100000\n", "cpu.stat": stat})
    group(mounts / "pod" / "job" / "own", {"cpu.max": "max 100000\n", "cpu.stat": stat})
    quota = find_quota(PROCESS, proc, mounts)
    assert quota is not None
    assert quota.cores == 2.0
    assert quota.throttled() == (3, 1_500_000)


def test_version_1_has_its_own_files(proc: Path, tmp_path: Path) -> None:
    (proc / str(PROCESS) / "cgroup").write_text("4:memory:/other\n2:cpu,cpuacct:/job\n1:name=systemd:/\n")
    mounts = tmp_path / "cgroup"
    files = {"cpu.cfs_quota_us": "30000\n", "cpu.cfs_period_us": "100000\n"}
    group(mounts / "cpu,cpuacct" / "job", files | {"cpu.stat": "nr_periods 9\nnr_throttled 2\nthrottled_time 77\n"})
    quota = find_quota(PROCESS, proc, mounts)
    assert quota is not None
    assert quota.cores == pytest.approx(0.3)
    assert quota.throttled() == (2, 77)


def test_a_container_sees_its_own_group_as_the_root(proc: Path, tmp_path: Path) -> None:
    (proc / str(PROCESS) / "cgroup").write_text("0::/\n")
    mounts = tmp_path / "cgroup"
    group(mounts, {"cgroup.controllers": "cpu", "cpu.max": "150000 100000\n", "cpu.stat": "usage_usec 1\n"})
    quota = find_quota(PROCESS, proc, mounts)
    assert quota is not None
    assert quota.cores == 1.5
    assert quota.throttled() is None


@pytest.mark.parametrize("text", ["", "0::/pod\n", "2:cpu:/job\n", "nonsense"])
def test_without_a_limit_there_is_no_quota(text: str, proc: Path, tmp_path: Path) -> None:
    (proc / str(PROCESS) / "cgroup").write_text(text)
    mounts = tmp_path / "cgroup"
    group(mounts, {"cgroup.controllers": "cpu"})
    group(mounts / "pod", {"cpu.max": "max 100000\n"})
    group(mounts / "cpu" / "job", {"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"})
    assert find_quota(PROCESS, proc, mounts) is None


def test_a_process_that_has_ended_has_no_quota(tmp_path: Path) -> None:
    assert find_quota(PROCESS, tmp_path, tmp_path) is None
