"""The times of steps that a program took before it was recorded: `steps_alone.json` in the folder of a run.

::

    {"version": 1, "processes": [{"pid": 123, "rank": 0, "first_step": 3,
                                  "host_ns": [10400311, ...], "gpu_ns": [10398208, ...], "data_ns": [20100, ...]}]}

``host_ns`` has the lengths of consecutive steps by the host's clock, ``gpu_ns`` those between CUDA events at the same
places, and ``data_ns`` the parts in which the loader was waited for. ``rank`` is null in a program without ranks,
``gpu_ns`` without CUDA, and ``data_ns`` where the marks do not show the loader.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from nsyswrap.capture.result_folder import STEPS_ALONE_NAME

VERSION = 1


def write_steps_alone(folder: Path, processes: Iterable[Mapping[str, object]]) -> bool:
    """Write the times of the steps alone into the folder of a run, and return whether there are any."""
    known = sorted(processes, key=_place)
    if known:
        text = json.dumps({"version": VERSION, "processes": known}, separators=(",", ":"))
        path = folder / STEPS_ALONE_NAME
        path.touch(mode=0o600)
        path.write_text(f"{text}\n", encoding="utf-8")
    return bool(known)


def _place(process: Mapping[str, object]) -> tuple[int, int]:
    """Return the rank of a process, or -1, and its id."""
    rank, pid = process["rank"], process["pid"]
    return rank if isinstance(rank, int) else -1, pid if isinstance(pid, int) else 0


def ranks_in(folder: Path) -> int:
    """Return how many ranks of a job have timed steps alone; 0 where there is no such file."""
    try:
        found = json.loads((folder / STEPS_ALONE_NAME).read_text(encoding="utf-8"))
        return len({each["rank"] for each in found["processes"] if each["rank"] is not None})
    except (OSError, ValueError, KeyError, TypeError):
        return 0
