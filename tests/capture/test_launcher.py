"""The rank of a process comes from its launcher and sets the folder of its result."""

from pathlib import Path

import pytest

from nsyswrap.capture.launcher import LaunchedRank, folder_of_rank, launched_as

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}
MPI = {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}
SLURM = {"SLURM_PROCID": "5", "SLURM_NTASKS": "16", "SLURM_STEP_ID": "0"}


@pytest.mark.parametrize(
    ("environ", "expected"), [(TORCHRUN, (3, 8)), (MPI, (2, 4)), (SLURM, (5, 16)), (TORCHRUN | SLURM, (3, 8))]
)
def test_each_launcher_numbers_its_ranks(environ: dict[str, str], expected: tuple[int, int]) -> None:
    assert launched_as(environ) == LaunchedRank(*expected)


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"RANK": "0", "WORLD_SIZE": "1"},
        {"RANK": "0"},
        {"RANK": "x", "WORLD_SIZE": "2"},
        {"RANK": "7", "WORLD_SIZE": "2"},
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "16"},
    ],
)
def test_a_process_of_its_own_has_no_rank(environ: dict[str, str]) -> None:
    """The batch script of SLURM, which starts the ranks, has no rank itself."""
    assert launched_as(environ) is None
    assert folder_of_rank(Path("reports/job"), environ) == Path("reports/job")


def test_ranks_with_one_folder_do_not_collide() -> None:
    folders = {folder_of_rank(Path("job"), {"RANK": str(rank), "WORLD_SIZE": "4"}) for rank in range(4)}
    assert folders == {Path("job/rank-0"), Path("job/rank-1"), Path("job/rank-2"), Path("job/rank-3")}
