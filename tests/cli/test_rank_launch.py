"""One rank of a job: whether it is recorded, what it samples, and which rank makes the joint report."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from made_ranks import job

from nsyswrap.base.errors import UsageError
from nsyswrap.capture.launcher import LaunchedRank
from nsyswrap.capture.options import CaptureOptions
from nsyswrap.capture.result_folder import folder_lock
from nsyswrap.cli.inputs import ReadOptions
from nsyswrap.cli.rank_launch import LAUNCH, Launch, finish_rank, for_launch, is_joint, remove_joint_report, this_launch
from nsyswrap.model import Report

LAUNCHED = {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "none"}


def launch_of(rank: int, size: int = 2, chosen: tuple[int, ...] = (0, 1)) -> Launch:
    """Return a rank of a job on one node."""
    return Launch(LaunchedRank(rank, size, rank, size), chosen, "job")


def test_without_a_launcher_there_is_no_job() -> None:
    assert this_launch(None, {}) is None
    assert this_launch("all", {}) is None


def test_ranks_without_a_launcher_are_refused() -> None:
    """They would record nothing, or everything, without a word."""
    with pytest.raises(UsageError, match="--ranks is for a job with one nsyswrap a rank"):
        this_launch("0", {})


def test_a_rank_knows_the_ranks_that_are_recorded() -> None:
    found = this_launch("1,3", LAUNCHED)
    assert found is not None
    assert (found.place.rank, found.chosen) == (1, (1, 3))
    assert found.record() == {"job": found.job, "rank": 1, "size": 4, "recorded": [1, 3]}
    assert "none" not in found.job
    assert is_joint(found)
    assert not is_joint(found._replace(chosen=(1,)))


def test_an_srun_inside_is_refused() -> None:
    """Nsys would see srun only."""
    with pytest.raises(UsageError, match="srun starts its tasks on other process trees") as caught:
        for_launch(CaptureOptions(command=("/usr/bin/srun", "python"), folder=Path("out")), None)
    assert "srun nsyswrap profile" in caught.value.hint


@pytest.mark.parametrize(("rank", "sampled"), [(0, ""), (1, "all"), (3, "")])
def test_one_rank_a_node_samples_counters(capsys: pytest.CaptureFixture[str], rank: int, sampled: str) -> None:
    """The first recorded one says which are recorded."""
    chosen = (1, 3) if rank else (0, 1)
    wanted = CaptureOptions(command=("true",), folder=Path("out"), gpu_metrics="all" if rank else "")
    found = for_launch(wanted, launch_of(rank, 4, chosen))
    assert found.gpu_metrics == sampled
    assert ("the others run without nsys" in capsys.readouterr().err) is (rank == chosen[0])


NOT_RECORDED = """
import os, sys
sys.argv = ["nsyswrap", "profile", "--ranks", "0", "--env", "ADDED=1", "-o", "out", "--", *sys.argv[1:]]
from nsyswrap.cli import cli
cli()
"""


@pytest.mark.parametrize(("program", "code"), [("exit 7", 7), ("kill -USR1 $$", -10), ("kill -9 $$", -9)])
def test_a_rank_that_is_not_recorded_becomes_its_program(tmp_path: Path, program: str, code: int) -> None:
    """Same process id, exit code and signals, and nothing is written."""
    script = f"echo $$ $ADDED $(umask); {program}"
    with subprocess.Popen(
        [sys.executable, "-c", NOT_RECORDED, "sh", "-c", script],
        env={**os.environ, **LAUNCHED},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        umask=0o027,
    ) as process:
        shown, _ = process.communicate()
    assert (process.returncode, shown) == (code, f"{process.pid} 1 0027\n")
    assert not list(tmp_path.iterdir())


@pytest.fixture
def ended(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes the result of a rank of a job of two."""
    export = job(2, 12, {}).session().write(tmp_path / "made.sqlite")

    def write(rank: int, name: str = "job") -> Path:
        folder = tmp_path / "out" / f"rank-{rank}"
        folder.mkdir(parents=True)
        shutil.copyfile(export, folder / "capture.sqlite")
        (folder / "run.json").write_text(json.dumps({LAUNCH: {"job": name}}))
        (folder / "report.html").write_text("page")
        return folder

    return write


def finished_by(folder: Path, rank: int) -> list[Path]:
    """End a rank, and return where it writes joint reports."""
    written: list[Path] = []

    def write(_report: Report, place: Path) -> None:
        (place / "report.html").write_text("joint")
        written.append(place)

    finish_rank(folder, launch_of(rank), ReadOptions(), write)
    return written


@pytest.fixture
def joins(monkeypatch: pytest.MonkeyPatch) -> list[list[Path]]:
    """Replace the analysis of the ranks, which has its own tests; return the captures that it gets."""
    joined: list[list[Path]] = []
    monkeypatch.setattr(
        "nsyswrap.cli.rank_reports.report_of_ranks", lambda captures, *_, **__: joined.append(list(captures))
    )
    return joined


def test_the_last_rank_to_end_makes_the_joint_report(
    tmp_path: Path, ended: Callable[..., Path], joins: list[list[Path]], capsys: pytest.CaptureFixture[str]
) -> None:
    """In any order, and without waiting: the first one only says how many have ended."""
    last = ended(1)
    assert finished_by(last, 1) == []
    assert f"rank 1 wrote {last}; 1 of 2 recorded ranks have ended" in capsys.readouterr().err
    assert finished_by(ended(0), 0) == [tmp_path / "out"]
    assert joins == [[tmp_path / "out" / f"rank-{rank}" / "capture.sqlite" for rank in (0, 1)]]


def test_one_of_two_ranks_that_end_at_once_makes_it(
    tmp_path: Path, ended: Callable[..., Path], joins: list[list[Path]]
) -> None:
    """The other one finds it being made, or made."""
    folders = [ended(rank) for rank in (0, 1)]
    with folder_lock(tmp_path / "out"):
        assert finished_by(folders[0], 0) == []
    assert finished_by(folders[1], 1) == [tmp_path / "out"]
    assert finished_by(folders[0], 0) == []
    assert len(joins) == 1


def test_results_of_an_earlier_job_do_not_count(ended: Callable[..., Path], joins: list[list[Path]]) -> None:
    """With --force they are there until their rank has ended again."""
    ended(0, "earlier")
    assert finished_by(ended(1), 1) == []
    assert joins == []


def test_ranks_that_cannot_be_joined_are_no_failure(
    ended: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code stays that of the program."""
    ended(0)
    folder = ended(1)
    (folder / "capture.sqlite").write_text("broken")
    assert finished_by(folder, 1) == []
    assert "nsyswrap: the ranks have no joint report: " in capsys.readouterr().err


def test_a_joint_report_goes_with_the_captures_it_was_made_of(tmp_path: Path, ended: Callable[..., Path]) -> None:
    folder = ended(0)
    (tmp_path / "out" / "report.json").write_text("{}")
    (tmp_path / "out" / "report.html").write_text("joint")
    remove_joint_report(folder)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"rank-0"}
