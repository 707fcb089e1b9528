"""The rank that a launcher gave this process: torchrun, Open MPI or SLURM, each started once for each rank."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from nsyswrap.base.errors import UsageError
from nsyswrap.capture.process_tree import stat_fields
from nsyswrap.capture.recorded_run import RANK_VARIABLES, SIZE_VARIABLES

# Variables in which torchrun, Open MPI and SLURM set the rank on the node, and the number of ranks there.
_LOCAL_RANK_VARIABLES = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID")
_LOCAL_SIZE_VARIABLES = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_STEP_TASKS_PER_NODE")

# SLURM sets its variables in a batch script, too; only a step has several processes.
SLURM_STEP = "SLURM_STEP_ID"
_OF_SLURM = "SLURM_"

# SLURM counts how often it has put a job back into its queue, torchrun how often it has started the ranks again.
_RESTARTS = {"requeue": "SLURM_RESTART_COUNT", "restart": "TORCHELASTIC_RESTART_COUNT"}

# Each recorded rank writes a capture and is a little slower. Two nodes of 8 GPUs are recorded whole; of a larger job
# the ranks of one such node, which have one clock. --ranks says otherwise.
ALL_UP_TO = 16
FIRST_RANKS = 8
ALL_RANKS = "all"


class LaunchedRank(NamedTuple):
    """The place of this process in its job.

    Attributes:
        local_rank: Its number on its node; None where the launcher does not say.
        local_size: The number of ranks on its node; None where the launcher does not say.
    """

    rank: int
    size: int
    local_rank: int | None = None
    local_size: int | None = None


def launched_as(environ: Mapping[str, str]) -> LaunchedRank | None:
    """Return the rank that a launcher gave this process; None for a process without a launcher, or a single one."""
    variables = zip(RANK_VARIABLES, SIZE_VARIABLES, _LOCAL_RANK_VARIABLES, _LOCAL_SIZE_VARIABLES, strict=True)
    for rank, size, local_rank, local_size in variables:
        if rank.startswith(_OF_SLURM) and SLURM_STEP not in environ:
            continue
        number, count = _number(environ.get(rank, "")), _number(environ.get(size, ""))
        if number is not None and count is not None and count > 1 and number < count:
            # SLURM writes the tasks of each node as 8(x2),4; they are used only where all nodes have as many.
            on_node = environ.get(local_size, "").partition("(x")[0]
            return LaunchedRank(number, count, _number(environ.get(local_rank, "")), _number(on_node))
    return None


def started_by_launcher(environ: Mapping[str, str]) -> bool:
    """Return whether a launcher started this process, even as the only one: it forwards signals, then kills."""
    slurm = SLURM_STEP in environ and "SLURM_PROCID" in environ
    return slurm or any(name in environ for name in ("TORCHELASTIC_RUN_ID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"))


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() else None


def folder_of_job(folder: Path, environ: Mapping[str, str]) -> Path:
    """Return the folder of a job. A job that is started again gets a new one, because the first try has a result."""
    counts = {word: _number(environ.get(variable, "")) for word, variable in _RESTARTS.items()}
    return folder.with_name("-".join([folder.name, *(f"{word}-{count}" for word, count in counts.items() if count)]))


def folder_of_rank(folder: Path, environ: Mapping[str, str]) -> Path:
    """Return the folder of this rank's result inside the folder of the job; the job's own without a launcher.

    Otherwise ranks with the same ``-o`` would replace each other's results, or fail.
    """
    place, job = launched_as(environ), folder_of_job(folder, environ)
    return job if place is None else job / rank_folder(place.rank)


def rank_folder(rank: int) -> str:
    """Return the name of the folder of a rank."""
    return f"rank-{rank}"


def common_name(environ: Mapping[str, str]) -> str | None:
    """Return a name for a job that all its ranks find without a word to each other; None if they cannot.

    SLURM has the number of a step, which is the same each time that the job runs. On one node it is the launcher's
    process id and start, in clock ticks.
    """
    if SLURM_STEP in environ and "SLURM_JOB_ID" in environ:
        return folder_of_job(Path(f"{environ['SLURM_JOB_ID']}.{environ[SLURM_STEP]}"), environ).name
    place = launched_as(environ)
    if place is None or place.local_size != place.size:
        return None
    launcher = _launcher(os.getppid())
    return None if launcher is None else f"{launcher[0]}-{launcher[1]}"


def _launcher(pid: int) -> tuple[int, str] | None:
    """Return id and start of the nearest ancestor that has no rank: the launcher, also of a script around this one."""
    while pid > 1 and (fields := stat_fields(pid)):
        try:
            pairs = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return None
        names = {os.fsdecode(pair.partition(b"=")[0]) for pair in pairs}
        if names.isdisjoint(RANK_VARIABLES):
            return pid, fields[19]
        pid = int(fields[1])
    return None


def chosen_ranks(text: str | None, size: int) -> tuple[int, ...]:
    """Return the ranks to record.

    The text is that of ``--ranks``: ``all``, or numbers and ranges such as ``0,3`` or ``0-7``; None for the default.

    Raises:
        UsageError: The text is no list of ranks, or names one that the job does not have.
    """
    if text is None:
        return tuple(range(size if size <= ALL_UP_TO else FIRST_RANKS))
    chosen = parsed_ranks(text)
    if chosen is None:
        return tuple(range(size))
    if chosen[-1] >= size:
        raise UsageError(f"--ranks {text}: the job has ranks 0 to {size - 1}", hint="Name ranks of the job, or all")
    return chosen


def parsed_ranks(text: str) -> tuple[int, ...] | None:
    """Return the sorted ranks of a list such as ``0,3`` or ``0-7``; None for ``all``.

    Raises:
        UsageError: The text is no list of ranks.
    """
    if text == ALL_RANKS:
        return None
    ranks: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        low, high = _number(first), _number(last) if dash else _number(first)
        if low is None or high is None or not low <= high < low + 2**20:
            raise UsageError(f"--ranks {text!r} is no list of ranks", hint="Write it as --ranks 0,3 or --ranks 0-7")
        ranks.update(range(low, high + 1))
    return tuple(sorted(ranks))


def is_first_on_node(place: LaunchedRank, chosen: tuple[int, ...]) -> bool:
    """Return whether this rank is the lowest recorded one of its node, which samples the counters of the GPUs.

    nsys samples all GPUs of a node, and only one nsys may do so at a time. Ranks of a node follow one another.
    """
    if place.local_rank is None or place.local_size is None:
        return place.rank == chosen[0]
    first = place.rank - place.local_rank
    return place.rank == min((each for each in chosen if first <= each < first + place.local_size), default=-1)
