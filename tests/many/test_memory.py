"""The memory that is free is that of the machine or of the tightest control group; captures need more the larger."""

from pathlib import Path

import pytest

from nsyswrap.many.memory import BASE_BYTES, LEFT_SHARE, free_bytes, needed_bytes

GB = 10**9


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Return a folder with a proc of 8 GB and a control group of version 2 with a limit of 3 GB."""
    own = tmp_path / "proc"
    (own / "self").mkdir(parents=True)
    (own / "meminfo").write_text(f"MemTotal: 9999999999 kB\nMemAvailable: {8 * GB // 1024} kB\n")
    group = tmp_path / "groups" / "job"
    group.mkdir(parents=True)
    (group.parent / "cgroup.controllers").touch()
    (group / "memory.max").write_text(f"{3 * GB}\n")
    (group / "memory.current").write_text(f"{2 * GB}\n")
    (group / "memory.stat").write_text(f"anon 1\ninactive_file {GB // 2}\n")
    return tmp_path


def free(machine: Path, pid: int, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("os.getpid", lambda: pid)
    return free_bytes(machine / "proc", machine / "groups")


def test_a_control_group_limits_what_is_free(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file cache of the group can be given up, so it is free."""
    (machine / "proc" / "77").mkdir()
    (machine / "proc" / "77" / "cgroup").write_text("0::/job\n")
    assert free(machine, 77, monkeypatch) == int(1.5 * GB * (1 - LEFT_SHARE))


def test_without_a_limit_the_machine_counts(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert free(machine, 78, monkeypatch) == pytest.approx(8 * GB * (1 - LEFT_SHARE), rel=1e-6)


def test_captures_need_memory_by_their_size(tmp_path: Path) -> None:
    """A missing file needs the least; a capture of nsys is exported first, so it needs more than its export."""
    sizes = []
    for name in ("a.json", "a.sqlite", "a.nsys-rep"):
        (tmp_path / name).write_bytes(b"x" * 1000)
        sizes.append(needed_bytes(tmp_path / name))
    assert needed_bytes(tmp_path / "gone.sqlite") == BASE_BYTES < sizes[1] < sizes[0] < sizes[2]
