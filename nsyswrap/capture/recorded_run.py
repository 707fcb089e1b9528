"""What `profile` recorded beside a capture, for its analysis: parts of `run.json` and `host.json`.

A redacted export has no such files beside it. It holds what a report needs of `run.json` in a table of its own.

A capture is analyzed more often than made, so this module loads nothing that makes one.
"""

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from nsyswrap.capture.result_folder import ALTERNATIVES_NAME, HOST_NAME, STEPS_ALONE_NAME, XRAY_NAME

SCHEMA = "nsyswrap.run/1"
COPY_RATES = "pinned_copy_rates"
PROFILER_COST = "profiler_cost"
PRODUCT_RATES = "product_rates"
LINK_RATES = "link_rates"
STEPS_ALONE = "steps_alone"

HOST_SCHEMA = "nsyswrap.host/1"
# The name of a capture of `profile` and of its export, without suffix; and the suffixes of what nsys records: the
# second was that of nsys up to 2021.
CAPTURE_STEM = "capture"
CAPTURE_SUFFIXES = (".nsys-rep", ".qdrep")

# The tables of a redacted export, and the longest value in each that is read: what `profile` measures has some
# kilobytes, and the operators of a step have some megabytes.
_TABLE = "NSYSWRAP_RUN"
_LONGEST = 1 << 20
XRAY_TABLE, ALTERNATIVES_TABLE = "NSYSWRAP_XRAY", "NSYSWRAP_ALTERNATIVES"
LONGEST_XRAY = 1 << 28

# Variables in which launchers set the rank and the number of ranks: torchrun, Open MPI, SLURM.
RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
SIZE_VARIABLES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS")


def recorded_host(capture: Path) -> object:
    """Return the samples of ``host_monitor`` beside a capture of `profile`; None where there are none."""
    record = _beside(capture, HOST_NAME)
    return record if isinstance(record, dict) and record.get("schema") == HOST_SCHEMA else None


def recorded_steps_alone(capture: Path) -> object:
    """Return the steps timed alone that lie beside a capture of `profile`; None where there are none."""
    return _beside(capture, STEPS_ALONE_NAME) or _record_inside(capture).get(STEPS_ALONE)


def recorded_xray(capture: Path) -> object:
    """Return what PyTorch said of the X-ray step, from beside a capture of `profile`; None where there is nothing."""
    return _beside(capture, XRAY_NAME) or _record_inside(capture, XRAY_TABLE, LONGEST_XRAY)


def recorded_alternatives(capture: Path) -> object:
    """Return what was measured of alternatives, from beside a capture of `profile`; None where there is nothing."""
    return _beside(capture, ALTERNATIVES_NAME) or _record_inside(capture, ALTERNATIVES_TABLE)


def _beside(capture: Path, file: str) -> object:
    """Return what a file beside a capture of `profile` holds; None where there is none."""
    path = capture.parent / file
    if capture.stem != CAPTURE_STEM or not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


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


def recorded_value(capture: Path, name: str) -> object:
    """Return what the `run.json` beside a capture of `profile` holds under a name; None where there is nothing."""
    return _record_beside(capture).get(name)


def recorded_nsys(capture: Path) -> str:
    """Return the version of nsys in the `run.json` beside a capture of `profile`; empty where there is none."""
    versions = _record_beside(capture).get("versions")
    return str(versions.get("nsys") or "") if isinstance(versions, dict) else ""


def shared_record(capture: Path) -> dict[str, dict[str, object]]:
    """Return the table of a redacted export that holds what it may of `run.json`: measured numbers, and the rank.

    The numbers are those that an analysis reads, so no other text of the file gets in.

    Returns:
        The table's name with its values by name; empty where there is nothing to hold.
    """
    # Only `redact` needs these.
    from nsyswrap.hardware.link_rates import read_link_rates, read_rates  # noqa: PLC0415
    from nsyswrap.hardware.peak_rates import read_product_rates  # noqa: PLC0415
    from nsyswrap.hardware.profiler_cost import read_cost  # noqa: PLC0415
    from nsyswrap.hardware.steps_alone import read_steps_alone  # noqa: PLC0415

    shared: dict[str, object] = {}
    if rates := read_rates(recorded_value(capture, COPY_RATES)):
        shared[COPY_RATES] = {direction: rate.measured() for direction, rate in rates.items()}
    if (cost := read_cost(recorded_value(capture, PROFILER_COST))) is not None:
        shared[PROFILER_COST] = cost.measured()
    if (products := read_product_rates(recorded_value(capture, PRODUCT_RATES))).rates:
        shared[PRODUCT_RATES] = products.measured()
    if (links := read_link_rates(recorded_value(capture, LINK_RATES))).times:
        shared[LINK_RATES] = links.measured()
    if (alone := read_steps_alone(recorded_steps_alone(capture))).processes:
        shared[STEPS_ALONE] = alone.measured()
    rank, size = recorded_rank(capture)
    values = {RANK_VARIABLES[0]: rank, SIZE_VARIABLES[0]: size}
    known = {name: str(value) for name, value in values.items() if value is not None}
    shared |= {"environment": {"values": known}} if known else {}
    return {_TABLE: shared} if shared else {}


def _record_beside(capture: Path) -> dict[str, object]:
    """Return the `run.json` beside a capture, or what a redacted export holds of it; empty where there is neither."""
    if capture.stem != CAPTURE_STEM or not (capture.parent / "run.json").is_file():
        return _record_inside(capture)
    record = _beside(capture, "run.json")
    return record if isinstance(record, dict) and record.get("schema") == SCHEMA else {}


def _record_inside(capture: Path, table: str = _TABLE, longest: int = _LONGEST) -> dict[str, object]:
    """Return what a redacted export holds of a file beside its original; empty for all other captures."""
    if not capture.is_file() or capture.suffix in CAPTURE_SUFFIXES:
        return {}
    address = f"{capture.absolute().as_uri()}?mode=ro&immutable=1"
    query = f"select name, value from {table} where length(value) <= {longest} limit 10"  # noqa: S608 - our own names
    try:
        with closing(sqlite3.connect(address, uri=True)) as database:
            return {str(name): json.loads(value) for name, value in database.execute(query)}
    except (sqlite3.Error, ValueError, TypeError, RecursionError):
        return {}
