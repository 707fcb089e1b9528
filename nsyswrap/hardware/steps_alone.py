"""The steps that `nsyswrap profile` timed before it recorded any, while the profiler was loaded but silent.

They are in `steps_alone.json` beside the capture: the lengths of consecutive steps of each process, by the host's clock
and between CUDA events at the same marks. A CPU may run ahead of its GPU, so the times of the GPU come first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nsyswrap.base.intervals import Times

VERSION = 1


@dataclass(frozen=True, slots=True)
class ProcessSteps:
    """The steps alone of one process.

    Attributes:
        rank: Its rank; None where it has none.
        lengths: Length of each step in ns, in their order.
        data: Time in which the loop asked its loader for the next batch, of each step, in ns; None where it is unknown.
    """

    pid: int
    rank: int | None
    lengths: Times
    data: Times | None = None


@dataclass(frozen=True, slots=True)
class StepsAlone:
    """The steps alone of the processes of a program.

    Attributes:
        processes: Those that took steps; empty where none were timed.
        in_second_run: Whether another run of the program took them, and not the recorded processes.
    """

    processes: tuple[ProcessSteps, ...] = ()
    in_second_run: bool = False

    def of(self, pid: int, rank: int | None = None) -> tuple[ProcessSteps, ...]:
        """Return the steps of a process: those of its rank, else its own, else those of all.

        Args:
            pid: Its number, which another process of another host may have, too.
            rank: Its rank; None where it has none.
        """
        ranked = [each for each in self.processes if rank is not None and each.rank == rank]
        own = [each for each in self.processes if each.pid == pid and not self.in_second_run]
        return tuple(ranked or own or self.processes)

    def measured(self) -> dict[str, object]:
        """Return the steps as `steps_alone.json` holds them."""
        return {
            "version": VERSION,
            "second_run": self.in_second_run,
            "processes": [
                {
                    "pid": each.pid,
                    "rank": each.rank,
                    "host_ns": each.lengths.tolist(),
                    "data_ns": None if each.data is None else each.data.tolist(),
                }
                for each in self.processes
            ],
        }


NO_STEPS_ALONE = StepsAlone()


def steps_of_job(ranks: Sequence[tuple[int | None, StepsAlone]]) -> StepsAlone:
    """Return the steps alone of all ranks of a job.

    Args:
        ranks: The rank of each report, None if unknown, and what was timed beside it.
    """
    found = [
        replace(each, rank=rank if each.rank is None else each.rank)
        for rank, alone in ranks
        for each in alone.processes
    ]
    return StepsAlone(tuple(found), any(alone.in_second_run for _, alone in ranks))


def read_steps_alone(found: object) -> StepsAlone:
    """Return the steps alone that a `steps_alone.json` holds.

    Args:
        found: What the file holds; a process whose lengths are not times is left out.
    """
    if not isinstance(found, Mapping) or found.get("version") != VERSION:
        return NO_STEPS_ALONE
    listed = found.get("processes")
    each = [_process(one) for one in listed] if isinstance(listed, Sequence) and not isinstance(listed, str) else []
    return StepsAlone(tuple(one for one in each if one is not None), bool(found.get("second_run", False)))


def _process(found: object) -> ProcessSteps | None:
    """Return the steps of one process; None where the file does not hold them."""
    if not isinstance(found, Mapping):
        return None
    pid, rank = found.get("pid"), found.get("rank")
    host, gpu, data = (_times(found.get(name)) for name in ("host_ns", "gpu_ns", "data_ns"))
    lengths = host if gpu is None else gpu
    if not isinstance(pid, int) or lengths is None or not (lengths > 0).all():
        return None
    fits = data is not None and len(data) == len(lengths)
    return ProcessSteps(pid, rank if isinstance(rank, int) else None, lengths, data if fits else None)


def _times(found: object) -> Times | None:
    """Return a list of times in ns; None where it is something else, or empty."""
    if not isinstance(found, list) or not found:
        return None
    if not all(isinstance(each, int) and 0 <= each < 1 << 62 for each in found):
        return None
    return np.array(found, np.int64)
