"""The file with the times of steps that were not recorded."""

import json
import stat
from pathlib import Path

from nsyswrap.capture.xray_file import ranks_in, write_steps_alone


def process(pid: int, rank: int | None) -> dict[str, object]:
    return {"pid": pid, "rank": rank, "first_step": 3, "host_ns": [10, 11], "gpu_ns": None, "data_ns": [1, 2]}


def test_the_file_has_the_processes_by_rank(tmp_path: Path) -> None:
    """It is readable by its owner only."""
    assert write_steps_alone(tmp_path, [process(7, 1), process(8, 0), process(9, None)])
    path = tmp_path / "steps_alone.json"
    expected = [process(9, None), process(8, 0), process(7, 1)]
    assert json.loads(path.read_text()) == {"version": 1, "processes": expected}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_ranks_are_counted_once(tmp_path: Path) -> None:
    """A process without a rank does not count, nor does a folder without the file."""
    assert ranks_in(tmp_path) == 0
    write_steps_alone(tmp_path, [process(7, 1), process(8, 0), process(9, None), process(10, 1)])
    assert ranks_in(tmp_path) == 2
