"""The description in an export: nsys, the command, the driver, the GPUs. Never host, user, folders or environment.

Since 2022 nsys writes bytes, bytes/s and Hz. CUPTI, which older exports follow, has kB/s and kHz, and other tools write
MiB or "80 GB". A number without a unit has the one in which it is possible: no GPU has 81,559 bytes of memory, and none
a clock of 1,980 Hz.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from nsyswrap.base.named_secrets import looks_secret
from nsyswrap.base.privacy import ANYBODY, Cleaner
from nsyswrap.model import Gpu, Session
from nsyswrap.trace import queries, schema
from nsyswrap.trace.connection import Export
from nsyswrap.trace.identity import variables

_TEXT = re.compile(r"\s*([\d.,]*\d)\s*([KMGT]?)(i?)(B|Hz)(?:/s|ps)?\s*", re.IGNORECASE)
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_PREFIXES = " KMGT"


_VERSION = re.compile(r"\d{1,2}\.\d{1,2}", re.ASCII)
_CUDA = re.compile(r"\d{4,6}", re.ASCII)
# The script of the shell that starts the program says how many words it takes first; an older one took two.
_TAKEN_WORDS = re.compile(r"\bshift (\d); exec", re.ASCII)
_OLD_TAKEN_WORDS = 2
# Limits of one multiprocessor, by their fields of ``Gpu``: all of them are read, or none.
_SM_LIMITS = {
    "sm_warps": "maxWarpsPerSm",
    "sm_blocks": "maxBlocksPerSm",
    "sm_registers": "maxRegistersPerSm",
    "sm_shared_bytes": "maxShmemPerSm",
}
# Other numbers, by their fields of ``Gpu``.
_NUMBERS = {
    "sm_count": "smCount",
    "memory_bytes": "totalMemory",
    "memory_bytes_per_second": "memoryBandwidth",
    "cache_bytes": "l2CacheSize",
    "clock_hz": "clockRate",
}
# The columns of ``OLD_GPUS`` by their fields of ``Gpu``, and how many of the field's units theirs has. Source: the
# attributes of a device in CUPTI (cupti_activity.h), whose rate is in kB/s and whose clock is in kHz.
_OLD_NUMBERS = {
    "sm_count": ("numMultiprocessors", 1),
    "memory_bytes": ("globalMemorySize", 1),
    "sm_warps": ("maxWarpsPerMultiprocessor", 1),
    "sm_blocks": ("maxBlocksPerMultiprocessor", 1),
    "sm_registers": ("maxRegistersPerMultiprocessor", 1),
    "sm_shared_bytes": ("maxSharedMemoryPerMultiprocessor", 1),
    "memory_bytes_per_second": ("globalMemoryBandwidth", 1000),
    "cache_bytes": ("l2CacheSize", 1),
    "clock_hz": ("coreClockRate", 1000),
}
_WORD = re.compile(r"PROCESS_0:ARGUMENT_(\d{1,9})", re.ASCII)


class UnitScale(NamedTuple):
    """The units in which a quantity may be given.

    Attributes:
        least: The smallest value that a GPU has, in bytes, bytes/s or Hz. The largest is less than ``step`` times as
            large, so that a number is possible in one unit only. In bytes, bytes/s or Hz it may be larger.
    """

    least: int
    step: int


SCALES: Mapping[str, UnitScale] = {
    "memory_bytes": UnitScale(400_000_000, 1024),  # to 400 GB
    "memory_bytes_per_second": UnitScale(10_000_000_000, 1000),  # to 10 TB/s
    "cache_bytes": UnitScale(128 << 10, 1024),  # to 128 MiB
    "clock_hz": UnitScale(100_000_000, 1000),  # to 100 GHz
    "sm_shared_bytes": UnitScale(16 << 10, 1024),  # to 16 MiB
}
"""By field of ``Gpu``. Source: data sheets of GPUs of compute capability 3.0 to 12.1, from GeForce GT 630 to GB300."""


def in_base_unit(field: str, value: int) -> int:
    """Return a number without a unit in bytes, bytes/s or Hz; 0 and below mean that it is not known.

    Args:
        field: A field of ``Gpu``; a number of one without a scale stays as it is.
        value: The number.
    """
    scale = SCALES.get(field)
    if scale is None:
        return value
    value = max(value, 0)
    while 0 < value < scale.least:
        value *= scale.step
    return value


def from_text(text: str) -> int | None:
    """Return the number in a text such as "81559 MiB", "4.8 TB/s" or "1,980 MHz" in its base unit; None for others."""
    found = _TEXT.fullmatch(text)
    if found is None:
        return None
    digits, prefix, binary, unit = found.groups()
    # A size has steps of 1024 whether or not it says so: a GPU of "80 GB" has 80 GiB. A rate has steps of 1000.
    is_size = unit.upper() == "B" and not text.rstrip().lower().endswith(("/s", "ps"))
    step = 1024 if binary or is_size else 1000
    plain = digits.replace(",", "") if _THOUSANDS.fullmatch(digits) else digits.replace(",", ".")
    try:
        return round(float(plain) * int(step ** _PREFIXES.index(prefix.upper() or " ")))
    except ValueError:
        return None


def read_session(export: Export, cleaner: Cleaner = ANYBODY) -> Session:
    """Return the time, the options and the command of the capture."""
    about_export = dict(export.pairs(next((t for t in schema.EXPORT_OPTIONS if t in export.columns), "")))
    options, system = export.pairs(schema.CAPTURE_OPTIONS), dict(export.pairs(schema.SYSTEM))
    return Session(
        nsys_version=about_export.get("EXPORT_PRODUCT_VERSION", ""),
        schema_version=about_export.get("EXPORT_SCHEMA_VERSION", ""),
        started_utc=str(_first(export, schema.SESSION_START, "utcTime") or ""),
        duration_ns=export.whole(
            _first(export, schema.ANALYSIS_DETAILS, "duration"), schema.ANALYSIS_DETAILS, "duration"
        ),
        command=cleaner.command(_command(options)),
        traces=tuple(sorted({value for name, value in options if name == "CAPTURE_EVENT_TYPE"})),
        graph_trace=dict(options).get("PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE", ""),
        driver_version="" if system.get("NvDriverVersion") == "0" else system.get("NvDriverVersion", ""),
        cuda_version=_cuda_version(system.get("CudaDriverVersion", "")),
        secrets=secret_names(export),
    )


def read_epoch(export: Export) -> int | None:
    """Return the UTC time of the capture's time 0 in ns; 0 where the export's times are UTC, None if unknown."""
    about_export = dict(export.pairs(next((t for t in schema.EXPORT_OPTIONS if t in export.columns), "")))
    if about_export.get("EXPORT_PARAM_TIME_NORMALIZE") == "true":
        return 0
    found = _first(export, schema.SESSION_START, "utcEpochNs")
    return found if isinstance(found, int) and found > 0 else None


def read_uuids(export: Export) -> dict[int, str]:
    """Return the UUID of each GPU of the machine, by device id, where the export has it."""
    return _texts_of_gpus(export, "uuid")


def _texts_of_gpus(export: Export, column: str) -> dict[int, str]:
    if not export.has(schema.GPUS, "id", column):
        return {}
    rows = export.rows(queries.columns_of(schema.GPUS, ("id", column)))
    return {export.whole(device, schema.GPUS, "id"): str(text) for device, text in rows if text}


def read_gpus(export: Export) -> tuple[Gpu, ...]:
    """Return all GPUs of the machine, by device id, used or not."""
    wanted = ("id", "name", "computeMajor", "computeMinor")
    if not export.has(schema.GPUS, *wanted):
        return _read_old_gpus(export)
    limits = _SM_LIMITS if export.has(schema.GPUS, *_SM_LIMITS.values()) else {}
    more = limits | {field: column for field, column in _NUMBERS.items() if export.has(schema.GPUS, column)}
    columns = (*wanted, *more.values())
    places = _texts_of_gpus(export, "busLocation")
    found = []
    for device, name, major, minor, *numbers in export.rows(queries.columns_of(schema.GPUS, columns)):
        device_id = export.whole(device, schema.GPUS, "id")
        known = {
            field: _number(export, value, field, column)
            for (field, column), value in zip(more.items(), numbers, strict=True)
        }
        capability = _capability(export, major, minor)
        found.append(Gpu(device_id, str(name or ""), capability, bus=places.get(device_id, ""), **known))
    return tuple(sorted(found, key=lambda gpu: gpu.device_id))


def _capability(export: Export, *parts: object) -> tuple[int, int] | None:
    """Return the version of a GPU; None if unknown. A damaged export may have any number, but none is negative."""
    names = ("computeMajor", "computeMinor")
    major, minor = (export.whole(part, schema.GPUS, name) for part, name in zip(parts, names, strict=True))
    return None if None in parts or min(major, minor) < 0 else (major, minor)


def _number(export: Export, value: object, field: str, column: str) -> int:
    """Return a number of a GPU in bytes, bytes/s or Hz, in whatever unit the export has it."""
    if isinstance(value, str) and field in SCALES and (found := from_text(value)) is not None:
        return found
    return in_base_unit(field, export.whole(value, schema.GPUS, column))


def _read_old_gpus(export: Export) -> tuple[Gpu, ...]:
    """Return the GPUs that the program used, by device id, from an export before 2022; none if it is no such one."""
    named = ("deviceId", "name", "pciBusId", "computeCapabilityMajor", "computeCapabilityMinor")
    columns = (*named, *(column for column, _ in _OLD_NUMBERS.values()))
    if not export.has(schema.OLD_GPUS, *columns):
        return ()
    found = {}
    for device, name, place, *numbers in export.rows(queries.columns_of(schema.OLD_GPUS, columns)):
        device_id = export.whole(device, schema.OLD_GPUS, "deviceId")
        major, minor, *rest = (
            export.whole(value, schema.OLD_GPUS, column) for value, column in zip(numbers, columns[3:], strict=True)
        )
        capability = None if None in numbers[:2] or min(major, minor) < 0 else (major, minor)
        known = {field: value * times for (field, (_, times)), value in zip(_OLD_NUMBERS.items(), rest, strict=True)}
        # One row for each process that used it.
        found[device_id] = Gpu(device_id, str(name or ""), capability, bus=str(place or ""), **known)
    return tuple(found[device_id] for device_id in sorted(found))


def secret_names(export: Export) -> tuple[str, ...]:
    """Return the names, never the values, of variables in the export that look like secrets."""
    return tuple(sorted({name for name, _ in variables(export) if looks_secret(name)}))


def _first(export: Export, table: str, column: str) -> Any:  # noqa: ANN401 - a text or a number
    if not export.has(table, column):
        return None
    rows = export.rows(queries.columns_of(table, (column,)))
    return rows[0][0] if rows else None


def command_words(export: Export) -> tuple[str, ...]:
    """Return the words of the profiled command as given. They may hold secrets: do not show them."""
    return _command(export.pairs(schema.CAPTURE_OPTIONS))


def _command(options: list[tuple[str, str]]) -> tuple[str, ...]:
    program = next((value for name, value in options if name == "PROCESS_0:COMMAND"), "")
    words = {int(found.group(1)): value for name, value in options if (found := _WORD.fullmatch(name))}
    command = ((program,) if program else ()) + tuple(words[index] for index in sorted(words))
    # `nsyswrap profile` starts the program through a shell that calls itself "nsyswrap".
    for at in range(1, 5):  # bash has an option before, and env with an option may start the shell
        if command[at : at + 1] == ("-c",) and command[at + 2 : at + 3] == ("nsyswrap",):
            taken = _TAKEN_WORDS.search(command[at + 1])
            return command[at + 3 + (int(taken[1]) if taken else _OLD_TAKEN_WORDS) :]
    return command


def _cuda_version(number: str) -> str:
    """Return "13.0" for 13000, and for "13.0". Source: cuDriverGetVersion, 1000 * major + 10 * minor."""
    if _VERSION.fullmatch(number):
        return number
    if not _CUDA.fullmatch(number):
        return ""
    return f"{int(number) // 1000}.{int(number) % 1000 // 10}"
