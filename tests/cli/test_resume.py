"""`nsyswrap resume`: the report of a run that was interrupted, and of each such rank of a job."""

import shutil
from pathlib import Path

import commands
import pytest
from click.testing import Result
from made_ranks import job


@pytest.fixture
def export(tmp_path: Path) -> Path:
    return job(1, 6, {}).session().write(tmp_path / "made.sqlite")


def interrupted(folder: Path, export: Path, *, published: bool) -> None:
    """Make the folder of a run that was killed in its analysis, or before its capture was moved there."""
    place = folder if published else folder / ".run"
    place.mkdir(parents=True)
    (place / "capture.nsys-rep").write_text("not read: the export is younger")
    shutil.copyfile(export, place / "capture.sqlite")
    (place / "run.json").write_text("{}")


def resume(folder: Path) -> Result:
    """Run the command."""
    return commands.run("resume", "-q", folder)


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


WHOLE = {"capture.nsys-rep", "capture.sqlite", "run.json", "report.json", "report.html"}


@pytest.mark.parametrize("published", [True, False])
def test_an_interrupted_run_gets_its_report(tmp_path: Path, export: Path, *, published: bool) -> None:
    interrupted(tmp_path / "out", export, published=published)
    result = resume(tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert files(tmp_path / "out") == WHOLE
    assert f"report   {tmp_path / 'out' / 'report.html'}" in result.output


def test_each_interrupted_rank_of_a_job_gets_its_report(tmp_path: Path, export: Path) -> None:
    """A rank that had ended is left as it is."""
    for rank in range(3):
        interrupted(tmp_path / "job" / f"rank-{rank}", export, published=rank == 1)
    for name in ("report.json", "report.html"):
        (tmp_path / "job" / "rank-1" / name).write_text("whole")
    assert resume(tmp_path / "job").exit_code == 0
    assert [files(tmp_path / "job" / f"rank-{rank}") for rank in range(3)] == [WHOLE] * 3
    assert (tmp_path / "job" / "rank-1" / "report.html").read_text() == "whole"


def test_a_run_that_ended_is_not_touched(tmp_path: Path, export: Path) -> None:
    interrupted(tmp_path / "out", export, published=True)
    resume(tmp_path / "out")
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    again = resume(tmp_path / "out")
    assert (again.exit_code, again.output) == (0, f"nsyswrap: {tmp_path / 'out'} holds no interrupted run\n")
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == before
