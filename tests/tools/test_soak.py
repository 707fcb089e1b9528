"""What the soak counts and says; the soak itself runs for an hour by hand."""

import importlib
import os
import random
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from capture_fixtures import until

soak = importlib.import_module("soak")

if TYPE_CHECKING:
    from soak import Soak

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def state(tmp_path: Path) -> "Soak":
    """Return a soak that has not begun."""
    (tmp_path / "tmp").mkdir()
    made: Soak = soak.Soak(tmp_path, random.Random(0))  # noqa: S311 - no secret
    return made


def test_an_exit_code_that_was_not_expected_fails(state: "Soak") -> None:
    """The message has the code and the output."""
    with pytest.raises(soak.CheckFailedError, match=r"reading: exit code 1: nsyswrap: .*gone.sqlite"):
        state.run("reading", "analyze", "gone.sqlite")
    assert state.run("version", "--version").startswith("nsyswrap")
    assert [len(state.peaks[task]) for task in ("reading", "version")] == [1, 1]


def test_processes_of_the_soak_are_found(state: "Soak") -> None:
    """Those that live through it are left out."""
    with subprocess.Popen(["sleep", "60"], env={**os.environ, soak.MARK: str(state.folder)}) as process:
        until(state.strangers, "the start of sleep")
        assert state.strangers() == [process.pid]
        state.lasting = (process.pid,)
        assert state.strangers() == []
        process.kill()


def test_a_temporary_file_that_is_left_fails(state: "Soak") -> None:
    """It is removed, so that it counts once."""
    (state.folder / "tmp" / "nsyswrap-1").mkdir()
    with pytest.raises(soak.CheckFailedError, match="nsyswrap-1"):
        state.clear(1)
    state.clear(2)


@pytest.mark.parametrize(("name", "content", "expected"), [
    ("iyhiapo0", b"blat", True),
    ("iyhiapo0", b"", True),
    ("iyhiapo0", b"data", False),
    ("nsyswrap-iyhiapo0", b"", False),
])  # fmt: skip
def test_a_file_of_python_itself_is_known(tmp_path: Path, name: str, content: bytes, *, expected: bool) -> None:
    (tmp_path / name).write_bytes(content)
    assert soak.is_probe(tmp_path / name) == expected


def test_the_summary_compares_the_first_and_the_last_quarter(state: "Soak") -> None:
    """Eight values have quarters of two; the median of two is their mean."""
    state.peaks["report"] = [2**20 * each for each in (10, 12, 20, 20, 20, 20, 30, 34)]
    state.resident = [2**20]
    state.failed["something: wrong"] = 2
    lines = soak.summary(state, 1.25).splitlines()
    assert "memory of report: 11.0 MiB in the first quarter, 32.0 MiB in the last" in lines
    assert lines[-2:] == ["failed 2 times: something: wrong", "2 checks failed"]
