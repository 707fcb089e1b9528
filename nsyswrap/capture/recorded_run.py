"""What `profile` recorded beside a capture, for its analysis: parts of `run.json` and `host.json`.

A capture is analyzed more often than made, so this module loads nothing that makes one.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from nsyswrap.capture.result_folder import HOST_NAME

SCHEMA = "nsyswrap.run/1"
COPY_RATES = "pinned_copy_rates"
PROFILER_COST = "profiler_cost"
HOST_SCHEMA = "nsyswrap.host/1"
# The name of a capture of `profile` and of its export, without suffix; and the suffix of what nsys records.
CAPTURE_STEM = "capture"
CAPTURE_SUFFIX = ".nsys-rep"

# Variables in which launchers set the rank and the number of ranks: torchrun, Open MPI, SLURM.
RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
SIZE_VARIABLES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS")


def recorded_host(capture: Path) -> object:
    """Return the samples of ``host_monitor`` beside a capture of `profile`; None where there are none."""
    path = capture.parent / HOST_NAME
    if capture.stem != CAPTURE_STEM or not path.is_file():
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and record.get("schema") == HOST_SCHEMA else None


def recorded_rank(capture: Path) -> tuple[int | None, int | None]:
    """Return the rank and the number of ranks that the `run.json` beside a capture has; None where it has none."""
    record = _record_beside(capture)
    environment = record.get("environment")
    values = environment.get("values") if isinstance(environment, dict) else None
    named = values if isinstance(values, dict) else {}
    return _first_number(named, RANK_VARIABLES), _first_number(named, SIZE_VARIABLES)


def _first_number(values: Mapping[object, object], names: tuple[str, ...]) -> int | None:
    """Return the value of the first of these variables that holds a number; None where none does."""
    found = (str(values[name]) for name in names if name in values)
    return next((int(each) for each in found if each.isdecimal() and each.isascii()), None)


def recorded_copy_rates(capture: Path) -> object:
    """Return the copy rates in the `run.json` beside a capture of `profile`; None where there are none."""
    return _record_beside(capture).get(COPY_RATES)


def recorded_profiler_cost(capture: Path) -> object:
    """Return the cost of recording in the `run.json` beside a capture of `profile`; None where there is none."""
    return _record_beside(capture).get(PROFILER_COST)


def _record_beside(capture: Path) -> dict[str, object]:
    """Return the `run.json` beside a capture of `profile`; empty where there is none."""
    path = capture.parent / "run.json"
    if capture.stem != CAPTURE_STEM or not path.is_file():
        return {}
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) and record.get("schema") == SCHEMA else {}
