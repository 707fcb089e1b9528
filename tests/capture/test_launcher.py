"""The rank of a process comes from its launcher and sets the folder of its result."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nsyswrap.base.errors import UsageError
from nsyswrap.capture.launcher import (
    LaunchedRank,
    _launcher,
    chosen_ranks,
    common_name,
    folder_of_rank,
    is_first_on_node,
    launched_as,
    parsed_ranks,
    started_by_launcher,
)

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
MPI = {
    "OMPI_COMM_WORLD_RANK": "2",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}
SLURM = {
    "SLURM_PROCID": "5",
    "SLURM_NTASKS": "16",
    "SLURM_STEP_ID": "0",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_TASKS_PER_NODE": "4(x4)",
    "SLURM_JOB_ID": "4711",
}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        (TORCHRUN, (3, 8, 1, 2)),
        (MPI, (2, 4, 0, 2)),
        (SLURM, (5, 16, 1, 4)),
        (TORCHRUN | SLURM, (3, 8, 1, 2)),
        ({"RANK": "3", "WORLD_SIZE": "8"}, (3, 8, None, None)),
    ],
)
def test_each_launcher_numbers_its_ranks(
    environ: dict[str, str], expected: tuple[int, int, int | None, int | None]
) -> None:
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


def test_ranks_that_torchrun_starts_again_have_a_folder_of_their_own() -> None:
    """The first try has left its results."""
    assert folder_of_rank(Path("reports/job"), TORCHRUN | {"TORCHELASTIC_RESTART_COUNT": "0"}) == Path(
        "reports/job/rank-3"
    )
    again = folder_of_rank(Path("reports/job"), TORCHRUN | {"TORCHELASTIC_RESTART_COUNT": "2"})
    assert again == Path("reports/job-restart-2/rank-3")


@pytest.mark.parametrize("count", [0, 3])
def test_a_job_that_slurm_runs_again_has_a_folder_and_a_name_of_its_own(count: int) -> None:
    """Also where a batch script starts a single process. The number of the job and of its step stay the same."""
    again, suffix = {"SLURM_RESTART_COUNT": str(count)}, f"-requeue-{count}" if count else ""
    assert folder_of_rank(Path("reports/job"), again) == Path(f"reports/job{suffix}")
    assert folder_of_rank(Path("reports/job"), SLURM | again) == Path(f"reports/job{suffix}/rank-5")
    assert common_name(SLURM | again) == f"{common_name(SLURM)}{suffix}"
    both = TORCHRUN | again | {"TORCHELASTIC_RESTART_COUNT": "2"}
    assert folder_of_rank(Path("reports/job"), both) == Path(f"reports/job{suffix}-restart-2/rank-3")


@pytest.mark.parametrize(
    ("text", "size", "expected"),
    [
        (None, 2, (0, 1)),
        (None, 16, tuple(range(16))),
        (None, 17, tuple(range(8))),
        ("all", 64, tuple(range(64))),
        ("0,3", 8, (0, 3)),
        ("5-7,1,6", 8, (1, 5, 6, 7)),
    ],
)
def test_the_ranks_to_record(text: str | None, size: int, expected: tuple[int, ...]) -> None:
    """All of two nodes of 8 GPUs; of a larger job those of one node, unless others are named."""
    assert chosen_ranks(text, size) == expected


@pytest.mark.parametrize("text", ["", "x", "1,", "3-1", "-1", "0-99999999", "1.5", "²"])
def test_what_is_no_list_of_ranks_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no list of ranks"):
        parsed_ranks(text)


def test_a_rank_that_the_job_does_not_have_is_refused() -> None:
    with pytest.raises(UsageError, match="--ranks 0,8: the job has ranks 0 to 7"):
        chosen_ranks("0,8", 8)


@pytest.mark.parametrize(
    ("chosen", "first"),
    [(tuple(range(8)), {0, 4}), ((1, 3, 6), {1, 6}), ((7,), {7})],
)
def test_one_rank_a_node_samples_the_counters_of_its_gpus(chosen: tuple[int, ...], first: set[int]) -> None:
    """Nsys samples all GPUs of a node, and a second nsys that does fails."""
    places = [LaunchedRank(rank, 8, rank % 4, 4) for rank in range(8)]
    assert {each.rank for each in places if is_first_on_node(each, chosen)} == first


def test_where_the_node_is_unknown_one_rank_of_the_job_samples_counters() -> None:
    assert [is_first_on_node(LaunchedRank(rank, 4), (2, 3)) for rank in range(4)] == [False, False, True, False]


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, False),
        ({"RANK": "0"}, False),
        ({"TORCHELASTIC_RUN_ID": "none"}, True),
        ({"OMPI_COMM_WORLD_RANK": "0"}, True),
        (SLURM, True),
        ({"SLURM_PROCID": "0"}, False),
    ],
)
def test_a_launcher_that_started_one_rank_is_one_too(environ: dict[str, str], *, expected: bool) -> None:
    """It forwards signals, and kills after a while."""
    assert started_by_launcher(environ) is expected


def test_ranks_of_a_node_have_the_name_of_their_launcher() -> None:
    """Also through a script around nsyswrap; this process is the launcher here."""
    code = "import os\nfrom nsyswrap.capture.launcher import common_name\nprint(common_name(os.environ))"
    named = set()
    for rank in range(2):
        environ = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2"}
        argv = ["sh", "-c", f'"{sys.executable}" -c "$0"; true', code]
        done = subprocess.run(argv, env={**os.environ, **environ}, capture_output=True, text=True, check=True)
        named.add(done.stdout.strip())
    assert len(named) == 1
    assert named.pop().startswith(f"{os.getpid()}-")


def test_ranks_of_several_nodes_have_no_common_name() -> None:
    assert common_name(TORCHRUN) is None


def test_a_variable_whose_name_is_no_text_does_not_matter() -> None:
    """Names of variables are bytes."""
    with subprocess.Popen(["cat"], env={b"\xff": b"1"}, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        found = _launcher(process.pid)
    assert found is not None
    assert found[0] == process.pid
