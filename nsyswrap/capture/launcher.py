"""The rank that a launcher gave this process: torchrun, Open MPI or SLURM, each started once for each rank."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from nsyswrap.capture.run_record import RANK_VARIABLES, SIZE_VARIABLES

# SLURM sets its variables in a batch script, too; only a step has several processes.
SLURM_STEP = "SLURM_STEP_ID"
_OF_SLURM = "SLURM_"


class LaunchedRank(NamedTuple):
    """The place of this process in its job.

    Attributes:
        rank: Its number.
        size: The number of ranks.
    """

    rank: int
    size: int


def launched_as(environ: Mapping[str, str]) -> LaunchedRank | None:
    """Return the rank that a launcher gave this process; None for a process without a launcher."""
    for rank, size in zip(RANK_VARIABLES, SIZE_VARIABLES, strict=True):
        if rank.startswith(_OF_SLURM) and SLURM_STEP not in environ:
            continue
        number, count = environ.get(rank, ""), environ.get(size, "")
        if _is_number(number) and _is_number(count) and int(count) > 1 and int(number) < int(count):
            return LaunchedRank(int(number), int(count))
    return None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def folder_of_rank(folder: Path, environ: Mapping[str, str]) -> Path:
    """Return the folder of this rank's result inside the folder of the job; the folder itself without a launcher.

    Otherwise ranks with the same ``-o`` would replace each other's results, or fail.
    """
    found = launched_as(environ)
    return folder if found is None else folder / f"rank-{found.rank}"
