"""From an export to a trace: read the tables we know, conform them to their contracts, and let go of the rest."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from nsyswrap import tables
from nsyswrap.db import queries, schema
from nsyswrap.db.connection import AGAIN, Export, connected, opened
from nsyswrap.db.description import read_gpus, read_session
from nsyswrap.db.schema import Source
from nsyswrap.errors import ExportError
from nsyswrap.model import Capture
from nsyswrap.privacy import neutral
from nsyswrap.tables import SPECS, Trace

Array = npt.NDArray[Any]
Arrays = dict[str, Array]

UNKNOWN = np.int64(np.iinfo(np.int64).min)
# Nothing real lies 70 years from the start of its capture; sums of times this small cannot overflow.
FARTHEST = np.int64(1 << 61)
# SQLite reads in C without Python's lock, so two threads read two tables at once.
READERS = 2
# Largest first, so that the readers end together.
BY_SIZE = ("OSRT_API", "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_KERNEL")
OPERATIONS = ("kernels", "copies", "fills", "graphs")


def load_export(path: Path) -> Trace:
    """Read an export of nsys into a trace.

    Args:
        path: A ``.sqlite`` export of nsys 2022 or newer; opened read-only and immutable.

    Returns:
        Its tables, sorted by start, in int64 ns.

    Raises:
        ExportError: The file is missing, empty, truncated, locked, damaged or foreign, or a table lacks a column.
    """
    with opened(path) as export:
        arrays, counts = _all_arrays(export)
        texts = _texts(export, arrays)
        strings = _strings(export, arrays)
        devices = _devices(export)
        session, gpus = read_session(export), read_gpus(export)
        kinds = {name: _labels(export, name) for name in (schema.COPY_KINDS, schema.MEMORY_KINDS)}
        absent = frozenset(s.spec.name for s in schema.SOURCES if s.table not in export.columns)
        domains = _domains(export, texts)
    dropped: dict[str, int] = {}
    latest = max((int(a["end"].max(initial=0)) for a in arrays.values() if "end" in a), default=0)
    frames: dict[str, pd.DataFrame] = {}
    for spec in SPECS:
        columns = arrays.pop(spec.name, None)
        if columns is None:
            frames[spec.name] = spec.empty()
            continue
        if spec is tables.RANGES:
            columns = _ranges(columns, texts, domains, latest)
        elif spec is tables.THREADS:
            columns["name"] = _category([texts.get(int(i), "") for i in columns.pop("name_id")])
        if spec.name in OPERATIONS:
            _use_physical_devices(columns, devices)
        left_out = _keep_possible(columns, spec.name in OPERATIONS)
        if left_out:
            dropped[spec.name] = left_out
        frames[spec.name] = pd.DataFrame({name: columns[name] for name in spec.columns}, copy=False)
    return Trace(
        capture=Capture(neutral(path.name), path.stat().st_size),
        session=session,
        gpus=gpus,
        frames=frames,
        strings=strings,
        copy_kinds=kinds[schema.COPY_KINDS],
        memory_kinds=kinds[schema.MEMORY_KINDS],
        absent=absent,
        event_counts=counts,
        dropped=dropped,
    )


def _all_arrays(export: Export) -> tuple[dict[str, Arrays], dict[str, int]]:
    """Read every table we know that the export has: columns by table, and rows by family."""
    sources = [source for source in schema.SOURCES if source.table in export.columns]
    sources.sort(key=lambda s: BY_SIZE.index(s.table) if s.table in BY_SIZE else len(BY_SIZE))
    for source in sources:
        _check_columns(export, source)

    def read(source: Source) -> tuple[Arrays, int]:
        with connected(export.path) as own:
            rows = own.rows(queries.row_count(source.table))[0][0] if source.family else 0
            return _arrays(own, source), rows

    with ThreadPoolExecutor(READERS) as pool:
        results = list(pool.map(read, sources))
    counts: dict[str, int] = {}
    for source, (_, rows) in zip(sources, results, strict=True):
        if source.family:
            counts[source.family] = counts.get(source.family, 0) + rows
    return {source.spec.name: found for source, (found, _) in zip(sources, results, strict=True)}, counts


def _check_columns(export: Export, source: Source) -> None:
    missing = sorted(set(source.required.values()) - export.columns[source.table])
    if missing:
        raise ExportError(
            f"{export.path.name}: table {source.table} has no column {', '.join(missing)}",
            hint=f"the file was changed or written by an nsys older than 2022; {AGAIN}",
        )


def _arrays(export: Export, source: Source) -> Arrays:
    """Stream one table into numpy arrays of the contract's types, NULL as the contract's missing value."""
    present = export.columns[source.table]
    query = (queries.ranges if source.spec is tables.RANGES else queries.rows)(source, present)
    parts: dict[str, list[Array]] = {}
    for batch in export.batches(query):
        for name, values in zip(batch.schema.names, batch.columns, strict=True):
            parts.setdefault(name, []).append(_values(values, source, name, export.path.name))
    wanted = {**source.required, **source.optional}
    rows = sum(map(len, next(iter(parts.values()), [])))
    found: Arrays = {}
    for name in wanted:
        pieces = parts.pop(name, None)
        dtype = _dtype(source, name)
        found[name] = np.concatenate(pieces) if pieces else np.full(rows, _missing(source, name), dtype)
    return found


def _dtype(source: Source, name: str) -> str:
    """Return the dtype a column is read as; texts stay objects, and helper columns are ids."""
    dtype = source.spec.columns.get(name, "int64")
    return "object" if dtype == "category" else dtype


def _missing(source: Source, name: str) -> Any:  # noqa: ANN401 - whatever the column holds
    return source.spec.missing.get(name, UNKNOWN if source.spec.columns.get(name) == "int64" else 0)


def _values(values: pa.Array, source: Source, name: str, file: str) -> Array:
    """Return one batch of a column as a numpy array of its type."""
    dtype, missing = _dtype(source, name), _missing(source, name)
    if pa.types.is_null(values.type):
        return np.full(len(values), missing, dtype)
    if dtype == "object":
        return np.asarray(values.cast(pa.string()).to_numpy(zero_copy_only=False), dtype=object)
    try:
        kind = pa.int64() if dtype == "bool" else pa.type_for_alias(dtype)
        values = values.cast(kind)
        if values.null_count:
            values = pc.fill_null(values, pa.scalar(int(missing), kind))
    except pa.ArrowException as error:
        raise ExportError(
            f"{file}: column {({**source.required, **source.optional})[name]} of {source.table} holds a value"
            f" that is no {dtype}",
            hint=AGAIN,
        ) from error
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=dtype)


def _strings(export: Export, arrays: Mapping[str, Arrays]) -> dict[int, str]:
    """Return the texts that names refer to, and no others."""
    named = ("kernels", "calls", "os_calls", "overheads")
    ids = _unique(arrays[table]["name_id"] for table in named if table in arrays)
    return _lookup(export, ids)


def _texts(export: Export, arrays: Mapping[str, Arrays]) -> dict[int, str]:
    """Return the texts of ranges, domains and threads by string id."""
    columns = [("ranges", "text_id"), ("threads", "name_id")]
    ids = set(_unique(arrays[table][column] for table, column in columns if table in arrays))
    if export.has("NVTX_EVENTS", "domainId", "textId"):
        ids |= {row[3] for row in export.rows(queries.domains()) if row[3] is not None}
    return _lookup(export, sorted(ids))


def _lookup(export: Export, ids: Iterable[int]) -> dict[int, str]:
    if not export.has(schema.STRINGS, "id", "value"):
        return {}
    found = export.rows(queries.strings(ids))
    return {int(key): neutral(str(value)) for key, value in found if value is not None}


def _unique(columns: Iterable[Array]) -> list[int]:
    ids: set[int] = set()
    for values in columns:
        # Names are few and repeat: pandas' hash table is far cheaper than a sort here.
        ids.update(int(i) for i in pd.unique(values) if i != UNKNOWN)
    return sorted(ids)


def _labels(export: Export, name: str) -> dict[int, str]:
    if not export.has(name, "id", "label"):
        return {}
    return {int(key): str(value) for key, value in export.rows(queries.pairs(name, "id", "label"))}


def _domains(export: Export, texts: Mapping[int, str]) -> dict[tuple[int, int], str]:
    """Return the name of each NVTX domain by process and number."""
    if not export.has("NVTX_EVENTS", "domainId", "textId", "text"):
        return {}
    found: dict[tuple[int, int], str] = {}
    for thread, number, text, text_id in export.rows(queries.domains()):
        process = int(thread or 0) & ~tables.THREAD_MASK
        found[process, int(number or 0)] = str(text) if text is not None else texts.get(int(text_id or 0), "")
    return found


def _ranges(columns: Arrays, texts: Mapping[int, str], domains: Mapping[tuple[int, int], str], latest: int) -> Arrays:
    """Give ranges their text and domain; one that was never closed lasts to the capture's end, as nsys has it."""
    columns["end"] = np.where(columns["end"] == UNKNOWN, np.int64(latest), columns["end"])
    ids, own = columns.pop("text_id"), columns.pop("text")
    codes, unique = pd.factorize(ids)
    registered = np.array([texts.get(int(i)) for i in unique], dtype=object)[codes] if len(ids) else ids
    # Registered strings win: nsys fills the plain text only where there is none.
    given = pd.Series(registered, dtype=object).fillna(pd.Series(own, dtype=object)).fillna("")
    columns["text"] = _category([neutral(str(text)) for text in given])
    processes = tables.process_of(columns["thread"])
    keys = pd.MultiIndex.from_arrays([processes, columns.pop("domain_id")])
    which, pairs = pd.factorize(keys)
    names = [domains.get((int(process), int(number)), "") for process, number in pairs]
    columns["domain"] = _category(np.array(names, dtype=object)[which] if len(which) else [])
    return columns


def _category(values: Iterable[str]) -> Any:  # noqa: ANN401 - pandas has no public array type for it
    return pd.Categorical(list(values))


def _devices(export: Export) -> dict[tuple[int, int], int]:
    """Return the physical GPU of each (process number, CUDA ordinal); CUDA_VISIBLE_DEVICES renumbers them."""
    if not export.has(schema.CUDA_DEVICES, "gpuId", "cudaId", "pid"):
        return {}
    rows = export.rows(queries.columns_of(schema.CUDA_DEVICES, ("pid", "cudaId", "gpuId")))
    return {(int(pid), int(cuda)): int(gpu) for pid, cuda, gpu in rows}


def _use_physical_devices(columns: Arrays, devices: Mapping[tuple[int, int], int]) -> None:
    ordinals = columns["device_id"].copy()
    for (number, ordinal), gpu in devices.items():
        if ordinal != gpu:
            mine = (columns["process"] >> tables.THREAD_BITS) & tables.THREAD_MASK == number
            columns["device_id"][mine & (ordinals == ordinal)] = gpu


def _keep_possible(columns: Arrays, is_operation: bool) -> int:  # noqa: FBT001 - one caller, two lines above
    """Drop rows that cannot be true, sort the rest by start, and return how many were dropped."""
    if "start" not in columns:
        return 0
    start = columns["start"]
    end = columns.get("end", start)
    good = (np.abs(start.clip(-FARTHEST, FARTHEST)) < FARTHEST) & (end >= start) & (end < FARTHEST)
    if is_operation:
        # CUPTI writes 0 and 0 for an operation it could not time.
        good &= (start != 0) | (end != 0)
    rows = len(start)
    if not good.all():
        for name in columns:
            columns[name] = columns[name][good]
        start = columns["start"]
    if np.any(start[1:] < start[:-1]):
        order = np.argsort(start, kind="stable")
        for name in columns:
            columns[name] = columns[name][order]
    return rows - int(good.sum())
