"""What an export says of itself: nsys, the command, the driver, the GPUs. No host, user, folder or environment."""

import re

from nsyswrap.db import queries, schema
from nsyswrap.db.connection import Export
from nsyswrap.model import Gpu, Session
from nsyswrap.privacy import looks_secret, neutral_command

_VARIABLE = re.compile(r"(?:^|\x00|\n)([A-Za-z_][A-Za-z0-9_]*)=")
_WORD = re.compile(r"PROCESS_0:ARGUMENT_(\d+)")


def read_session(export: Export) -> Session:
    """Return when, how and of what the capture was made."""
    about_export = dict(_pairs(export, next((t for t in schema.EXPORT_OPTIONS if t in export.columns), "")))
    options = _pairs(export, schema.CAPTURE_OPTIONS)
    once = dict(options)
    system = dict(_pairs(export, schema.SYSTEM))
    return Session(
        nsys_version=about_export.get("EXPORT_PRODUCT_VERSION", ""),
        schema_version=about_export.get("EXPORT_SCHEMA_VERSION", ""),
        started_utc=_first(export, schema.SESSION_START, "utcTime"),
        duration_ns=int(_first(export, schema.ANALYSIS_DETAILS, "duration") or 0),
        command=neutral_command(_command(options)),
        traces=tuple(sorted({value for name, value in options if name == "CAPTURE_EVENT_TYPE"})),
        graph_trace=once.get("PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE", ""),
        driver_version=system.get("NvDriverVersion", ""),
        cuda_version=_cuda_version(system.get("CudaDriverVersion", "")),
        secrets=secret_names(export),
    )


def read_gpus(export: Export) -> tuple[Gpu, ...]:
    """Return the GPUs of the machine by device id, used or not."""
    wanted = ("id", "name", "computeMajor", "computeMinor", "smCount", "totalMemory")
    if not export.has(schema.GPUS, *wanted):
        return ()
    found = []
    for device, name, major, minor, multiprocessors, memory in export.rows(queries.columns_of(schema.GPUS, wanted)):
        capability = None if major is None or minor is None else (int(major), int(minor))
        gpu = Gpu(int(device or 0), str(name or ""), capability, int(multiprocessors or 0), int(memory or 0))
        found.append(gpu)
    return tuple(sorted(found, key=lambda gpu: gpu.device_id))


def secret_names(export: Export) -> tuple[str, ...]:
    """Return the names, never the values, of variables in the export that look like secrets."""
    texts = [value for _, value in _pairs(export, schema.SYSTEM)]
    for name, value in _pairs(export, schema.CAPTURE_OPTIONS):
        texts.append(value)
        if "ENVIRONMENT_VARIABLE" in name:
            texts.append(f"{name.rpartition(':')[2]}=")
    if export.has(schema.STRINGS, "value"):
        texts += [str(row[0]) for row in export.rows(queries.all_strings()) if row[0] and "=" in str(row[0])]
    names = {name for text in texts for name in _VARIABLE.findall(text)}
    return tuple(sorted(filter(looks_secret, names)))


def _pairs(export: Export, table: str) -> list[tuple[str, str]]:
    if not export.has(table, "name", "value"):
        return []
    found = export.rows(queries.pairs(table, "name", "value"))
    return [(str(name or ""), str(value or "")) for name, value in found]


def _first(export: Export, table: str, column: str) -> str:
    if not export.has(table, column):
        return ""
    rows = export.rows(queries.columns_of(table, (column,)))
    return str(rows[0][0]) if rows and rows[0][0] is not None else ""


def _command(options: list[tuple[str, str]]) -> tuple[str, ...]:
    program = next((value for name, value in options if name == "PROCESS_0:COMMAND"), "")
    words = {int(found.group(1)): value for name, value in options if (found := _WORD.fullmatch(name))}
    return ((program,) if program else ()) + tuple(words[index] for index in sorted(words))


def _cuda_version(number: str) -> str:
    """Return "13.0" for 13000. Source: cuDriverGetVersion, 1000 * major + 10 * minor."""
    if not number.isdigit():
        return ""
    return f"{int(number) // 1000}.{int(number) % 1000 // 10}"
