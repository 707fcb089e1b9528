"""Read an export into a trace: read the known tables and make them conform to their contracts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from nsyswrap.base.errors import ExportError
from nsyswrap.base.privacy import Cleaner, distinct, neutral
from nsyswrap.model import Capture
from nsyswrap.trace import counters, queries, schema, tables
from nsyswrap.trace.connection import AGAIN, Export, opened
from nsyswrap.trace.description import read_epoch, read_gpus, read_session, read_uuids
from nsyswrap.trace.identity import report_identity
from nsyswrap.trace.library_calls import read_library_calls, read_nccl_calls
from nsyswrap.trace.payloads import domain_rows, read_samples
from nsyswrap.trace.read_table import UNKNOWN, Array, Arrays, TableReader, cut_text
from nsyswrap.trace.schema import Source
from nsyswrap.trace.tables import SPECS, TableSpec, Trace, is_constant
from nsyswrap.trace.valid_rows import Bounds, find_bounds, keep_possible

MOST_NS = 1 << 62  # the lengths of a table's events must not add up to more
# SQLite reads without Python's global lock, so two threads read two parts at once.
READERS = 2
# Below this size, threads and their connections take longer to start than the file to read. Measured on two cores.
SMALL_BYTES = 1 << 19
# From this size on, two threads check the tables.
LARGE_BYTES = 1 << 26
# A statement of SQLite has at most a million characters.
IDS_AT_ONCE = 20_000
# The largest number of a device: tables store it in 32 bits.
MOST_DEVICE = (1 << 31) - 1
UNREADABLE_SAMPLES = "samples of Python's stack that cannot be read"
# Largest first, so that all threads end at about the same time.
BY_SIZE = ("GPU_METRICS", "OSRT_API", "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_KERNEL")
OPERATIONS = ("kernels", "copies", "memsets", "graphs")
Devices = Mapping[tuple[int, int], tuple[int, ...]]
Names = frozenset[str]
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


class RowsRead(NamedTuple):
    """What was read of the tables of an export.

    Attributes:
        arrays: Columns by name of the table in the trace.
        counts: Rows that the export has, by the same name, for tables that were read in part.
        latest_ns: The last end of all events where some were not read, in ns since capture start.
    """

    arrays: dict[str, Arrays]
    counts: Mapping[str, int] = MappingProxyType({})
    latest_ns: int = 0


Reading = Callable[[Export, Sequence[Source]], RowsRead]


def load_export(
    path: Path,
    environ: Mapping[str, str] = NO_VARIABLES,
    unread: Names = frozenset(),
    reading: Reading | None = None,
) -> Trace:
    """Read an export of nsys into a trace. Its texts are cleaned of secrets, users, hosts and home folders.

    Args:
        path: A ``.sqlite`` export of nsys 2022 or newer; opened read-only and immutable.
        environ: The environment of this process, whose secrets and user are removed, too.
        unread: Names of tables of the trace that are not read; they stay empty.
        reading: Reads the rows of the tables; None to read all.

    Returns:
        Its tables, sorted by start, in int64 ns.

    Raises:
        ExportError: The file is missing, empty, truncated, locked, damaged or foreign, or a table lacks a column.
    """
    with opened(path) as export:
        return _trace(export, report_identity(export, environ).cleaner(), unread, reading or _read)


def _trace(export: Export, cleaner: Cleaner, unread: Names, reading: Reading) -> Trace:
    """Return the trace of an open export, with cleaned texts."""
    read = reading(export, sources_of(export, unread))
    arrays, (counts, dropped, bounds) = read.arrays, _possible_rows(export, read)
    texts, strings = _texts(export, arrays), _cleaned(_strings(export, arrays), cleaner.symbol)
    session = read_session(export, cleaner)
    domains: dict[tuple[int, int], str] = {}
    for thread, number, text, text_id in domain_rows(export):
        process = export.whole(thread, schema.NVTX, "globalTid") & ~tables.THREAD_MASK
        key = process, export.whole(number, schema.NVTX, "domainId")
        domains[key] = cut_text(str(text)) if text is not None else texts.get(text_id, "")
    devices = devices_of(export)
    if tables.RANGES.name in arrays:
        arrays[tables.RANGES.name] = _ranges(arrays[tables.RANGES.name], texts, domains, cleaner)
        dropped |= _finish_ranges(read, session.duration_ns, bounds)
    _check_sums(export, arrays)

    def lookup(ids: Iterable[int]) -> dict[int, str]:
        return _cleaned(_lookup(export, ids), cleaner.text)

    arrays[tables.SAMPLES.name], stacks, dropped[UNREADABLE_SAMPLES] = read_samples(export, lookup)
    arrays[tables.NCCL_CALLS.name] = read_nccl_calls(export, lookup)
    if tables.LIBRARY_CALLS.name not in unread:
        library_calls = read_library_calls(export, lookup, arrays.get(tables.RANGES.name, {}))
        arrays[tables.LIBRARY_CALLS.name], strings = library_calls.columns, strings | library_calls.strings
        name = tables.LIBRARY_CALLS.name
        dropped |= _named(name, keep_possible(library_calls.columns, bounds, is_operation=False))
    absent, counter_names = _absent(export, arrays), counters.conform(arrays, counters.names(export), dropped)
    return Trace(
        capture=Capture(neutral(export.path.name), export.path.stat().st_size),
        session=session,
        gpus=read_gpus(export),
        frames={s.name: _frame(s, arrays.pop(s.name, None), texts, devices or {}, cleaner) for s in SPECS},
        strings=strings,
        copy_kinds=_labels(export, schema.COPY_KINDS) or schema.COPY_LABELS,
        memory_kinds=_labels(export, schema.MEMORY_KINDS) or schema.MEMORY_LABELS,
        absent=absent,
        event_counts=counts,
        dropped={name: rows for name, rows in dropped.items() if rows},
        counter_names=counter_names,
        stacks=stacks,
        gpu_numbers=devices,
        epoch_ns=read_epoch(export),
        gpu_uuids=read_uuids(export),
    )


def _absent(export: Export, arrays: Mapping[str, Arrays]) -> frozenset[str]:
    """Return the tables that the export lacks. Python samples and calls of libraries come from several tables."""
    missing = {source.spec.name for source in schema.SOURCES if source.table not in export.columns}
    others = (tables.SAMPLES.name, tables.NCCL_CALLS.name, tables.LIBRARY_CALLS.name)
    return frozenset(missing | {name for name in others if name not in arrays or not len(arrays[name]["start"])})


def _frame(
    spec: TableSpec, columns: Arrays | None, texts: Mapping[int, str], devices: Devices, cleaner: Cleaner
) -> pd.DataFrame:
    """Return a table of the trace from the columns that were read; an empty table where the export has none."""
    if columns is None:
        return spec.empty()
    if spec is tables.THREADS:
        columns["name"] = _category([texts.get(int(i), "") for i in columns.pop("name_id")], cleaner)
    elif spec is tables.PROCESSES:
        columns["name"] = _category(columns["name"], cleaner)
    elif spec is tables.DIAGNOSTICS:
        columns["text"] = _category(columns["text"], cleaner)
    elif spec.name in OPERATIONS or spec in (tables.MEMORY, tables.EVENT_RECORDS, tables.GPU_PAGE_FAULTS):
        use_physical_devices(columns, devices)
    held: dict[str, Any] = {name: _narrowed(columns[name]) for name in spec.columns}
    held |= {name: pd.Categorical(held[name]) for name in spec.coded if isinstance(held[name], np.ndarray)}
    return pd.DataFrame(held, copy=False)


def _narrowed(values: Any) -> Any:  # noqa: ANN401 - texts are categories of pandas
    """Return a column whose rows share the memory of one where all have the same value, such as the process."""
    if not isinstance(values, np.ndarray) or not is_constant(values):
        return values
    return np.broadcast_to(values[:1].copy(), len(values))


def _finish_ranges(read: RowsRead, duration_ns: int, bounds: Bounds) -> dict[str, int]:
    """End open ranges and drop invalid ones, in place; return how many were dropped, in words.

    A range that was never closed ends at the end of the capture, as nsys has it, and is marked as open. One of
    nsyswrap's own is left out: an exception ended the call that it marks, at an unknown time.
    """
    ranges = read.arrays[tables.RANGES.name]
    others = (columns["end"] for name, columns in read.arrays.items() if "end" in columns and columns is not ranges)
    last = max((int(end.max(initial=0)) for end in others), default=0)
    latest = max(duration_ns if duration_ns < bounds.high else 0, last, read.latest_ns)
    unknown = ranges["end"] == UNKNOWN
    # nsys 2022 and 2023.4 write the end of the session as the end of such ranges, or a later end that it saw by chance:
    # the program goes on while nsys collects what was recorded. Where ranges begin later, the session did not end then.
    is_end = duration_ns > ranges["start"].max(initial=0)
    at_end = ((ranges["end"] == duration_ns) & (duration_ns > 0)) | (is_end & (ranges["end"] > duration_ns))
    ranges["open"] = unknown | at_end
    ranges["end"] = np.where(unknown, np.int64(latest), ranges["end"])
    abandoned = ranges["open"] & np.asarray(ranges["domain"] == tables.OWN_DOMAIN, bool)
    if abandoned.any():
        ranges |= {name: values[~abandoned] for name, values in ranges.items()}
    return _named(tables.RANGES.name, keep_possible(ranges, bounds, is_operation=False))


def _named(table: str, dropped: Mapping[str, int]) -> dict[str, int]:
    return {f"{table.replace('_', ' ')}{reason}": rows for reason, rows in dropped.items()}


def sources_of(export: Export, unread: Names = frozenset()) -> list[Source]:
    """Return the tables of an export that are read, the largest first.

    Raises:
        ExportError: A table lacks a column.
    """
    sources = [each for each in schema.SOURCES if each.table in export.columns and each.spec.name not in unread]
    sources.sort(key=lambda s: BY_SIZE.index(s.table) if s.table in BY_SIZE else len(BY_SIZE))
    for source in sources:
        present = export.columns[source.table]
        stored = {names: schema.stored_as(names, present) for names in source.required.values()}
        missing = sorted(names for names, column in stored.items() if column is None)
        if missing:
            raise ExportError(
                f"{export.path.name}: table {source.table} has no column {', '.join(missing)}",
                hint=f"the file was changed or written by an nsys older than 2022; {AGAIN}",
            )
    return sources


def _possible_rows(export: Export, read: RowsRead) -> tuple[dict[str, int], dict[str, int], Bounds]:
    """Drop impossible rows, in place: number of rows by family, number of rows left out by what they are; bounds."""
    arrays = read.arrays
    sources = [each for each in schema.SOURCES if each.spec.name in arrays]
    counts: dict[str, int] = dict.fromkeys((s.family for s in sources if s.family), 0)
    dropped: dict[str, int] = {}
    bounds, running = find_bounds(arrays), {}
    with ThreadPoolExecutor(READERS if export.path.stat().st_size >= LARGE_BYTES else 1) as pool:
        for source in sources:
            found = arrays[source.spec.name]
            rows = len(next(iter(found.values())))
            if source.spec is tables.RANGES:
                # Only some rows of this table are read, and the ends of open ranges are set later.
                rows = export.row_count(source.table)
            else:
                is_operation = source.spec.name in OPERATIONS
                running[source.spec.name] = pool.submit(keep_possible, found, bounds, is_operation=is_operation)
            if source.family:
                counts[source.family] += read.counts.get(source.spec.name, rows)
    for name, left_out in running.items():
        dropped |= _named(name, left_out.result())
    return counts, dropped, bounds


def _read(export: Export, sources: Sequence[Source]) -> RowsRead:
    """Return the columns of each table; several threads read the tables of a large export."""
    file_bytes = export.path.stat().st_size
    if file_bytes <= SMALL_BYTES:
        small = [TableReader.begin(export, source) for source in sources]
        parts_of = [[reader.read(part, in_own_thread=False) for part in reader.parts] for reader in small]
        return RowsRead({r.source.spec.name: r.end(counts) for r, counts in zip(small, parts_of, strict=True)})
    arrays: dict[str, Arrays] = {}
    with ThreadPoolExecutor(READERS) as pool:
        readers = [TableReader.begin(export, source) for source in sources]
        running = [[pool.submit(reader.read, part) for part in reader.parts] for reader in readers]
        for source, reader, parts in zip(sources, readers, running, strict=True):
            arrays[source.spec.name] = reader.end([part.result() for part in parts])
    return RowsRead(arrays)


def _strings(export: Export, arrays: Mapping[str, Arrays]) -> dict[int, str]:
    """Return the texts of the names of kernels and calls."""
    named = ("kernels", "calls", "os_calls", "overheads")
    return _lookup(export, _unique(arrays[table]["name_id"] for table in named if table in arrays))


def _texts(export: Export, arrays: Mapping[str, Arrays]) -> dict[int, str]:
    """Return the texts of ranges, domains and threads by string id."""
    columns = [("ranges", "text_id"), ("threads", "name_id")]
    ids = set(_unique(arrays[table][column] for table, column in columns if table in arrays))
    ids |= {export.whole(row[3], schema.NVTX, "textId") for row in domain_rows(export)}
    return _lookup(export, sorted(ids))


def _lookup(export: Export, ids: Iterable[int]) -> dict[int, str]:
    every, found = list(ids), dict[int, str]()
    if every and not _has_texts(export):
        raise ExportError(
            f"{export.path.name}: the names of kernels, calls and ranges are missing (table {schema.STRINGS})",
            hint=AGAIN,
        )
    for first in range(0, len(every), IDS_AT_ONCE):
        rows = export.rows(queries.strings(every[first : first + IDS_AT_ONCE]))
        found |= {key: cut_text(str(value)) for key, value in rows if value is not None}
    return found


def _has_texts(export: Export) -> bool:
    if not export.has(schema.STRINGS, "id", "value"):
        return False
    ((first, _),) = export.rows(queries.row_numbers(schema.STRINGS))
    return first is not None


def _cleaned(texts: Mapping[int, str], clean: Callable[[str], str]) -> dict[int, str]:
    """Return texts by id, cleaned and cut; different texts stay different."""
    found = distinct(texts.values(), _cut(clean))
    return {key: found[text] for key, text in texts.items()}


def _cut(clean: Callable[[str], str]) -> Callable[[str], str]:
    """Return a way of cleaning whose texts have at most ``schema.LONGEST_TEXT`` characters."""
    return lambda text: clean(text)[: schema.LONGEST_TEXT]


def _unique(columns: Iterable[Array]) -> list[int]:
    ids: set[int] = set()
    for values in columns:
        if isinstance(values, pd.Categorical):
            ids.update(values.categories.tolist())
        elif len(values) and values.min() >= 0 and values.max() < tables.DENSE_IDS:
            # Few distinct ids repeat millions of times: marking them in an array is faster than hashing.
            used = np.zeros(int(values.max()) + 1, bool)
            used[values] = True
            ids.update(np.flatnonzero(used).tolist())
        else:
            ids.update(int(i) for i in pd.unique(values) if i != UNKNOWN)
    return sorted(ids)


def _labels(export: Export, name: str) -> dict[int, str]:
    if not export.has(name, "id", "label"):
        return {}
    found = export.rows(queries.columns_of(name, ("id", "label")))
    return {export.whole(key, name, "id"): str(label) for key, label in found if label is not None}


def _ranges(
    columns: Arrays, texts: Mapping[int, str], domains: Mapping[tuple[int, int], str], cleaner: Cleaner
) -> Arrays:
    codes, ids = pd.factorize(columns.pop("text_id"))
    # nsys fills the plain text only where there is no registered string.
    registered = np.array([texts.get(int(i)) for i in ids], dtype=object)[codes]
    columns["text"] = _category(np.where(pd.isna(registered), columns["text"], registered), cleaner)
    process, number = tables.process_of(columns["thread"]), columns.pop("domain_id")
    which, first = tables.groups([process, number])
    names = [domains.get((int(process[row]), int(number[row])), "") for row in first]
    columns["domain"] = _category(np.array(names, dtype=object)[which], cleaner)
    return columns


def _category(values: Array | list[str], cleaner: Cleaner) -> Any:  # noqa: ANN401 - pandas has no public array type for it
    """Return texts as categories, each cleaned once; different texts stay different."""
    found = pd.Categorical(values)
    cleaned = distinct(map(str, found.categories), _cut(cleaner.text))
    if all(text == changed for text, changed in cleaned.items()):
        return found
    # Categories are in order of their texts, whichever texts were changed.
    return pd.Categorical(found.rename_categories(cleaned).astype(object))


def devices_of(export: Export) -> Devices | None:
    """Return the physical GPUs of each (process number, CUDA ordinal); CUDA_VISIBLE_DEVICES renumbers them.

    There is more than one GPU where processes of two containers have the same number.

    Raises:
        ExportError: A value is no number of a GPU.
    """
    if not export.has(schema.CUDA_DEVICES, "gpuId", "cudaId", "pid"):
        return None
    names = ("pid", "cudaId", "gpuId")
    found: dict[tuple[int, int], tuple[int, ...]] = {}
    for row in export.rows(queries.columns_of(schema.CUDA_DEVICES, names)):
        if None not in row:
            pid, ordinal, gpu = (export.whole(v, schema.CUDA_DEVICES, n) for v, n in zip(row, names, strict=True))
            if not 0 <= gpu <= MOST_DEVICE:
                raise ExportError(f"{export.path.name}: column gpuId of {schema.CUDA_DEVICES} holds {gpu}", hint=AGAIN)
            found[pid, ordinal] = tuple(sorted({gpu, *found.get((pid, ordinal), ())}))
    return found


def use_physical_devices(columns: Arrays, devices: Devices) -> None:
    """Replace the numbers of devices that a process sees by those of the machine, in place."""
    ordinals = columns["device_id"].copy()
    for (number, ordinal), (*_, gpu) in devices.items():
        if ordinal != gpu:
            mine = (columns["process"] >> tables.THREAD_BITS) & tables.THREAD_MASK == number
            columns["device_id"][mine & (ordinals == ordinal)] = gpu


def _check_sums(export: Export, arrays: Mapping[str, Arrays]) -> None:
    """Check that the lengths of each table's events add up within int64; the events are sorted by start."""
    for name, columns in arrays.items():
        if "end" not in columns or not len(columns["start"]):
            continue
        start, end = columns["start"], columns["end"]
        # The sum of some events is at most their number times the time from the first to the last.
        most = sum((int(end[some].max()) - int(start[some.start])) * len(end[some]) for some in tables.blocks(len(end)))
        # Adding up in floating point cannot overflow, and is needed only for a capture that may be too long.
        if most >= MOST_NS and float((end - start).sum(dtype=np.float64)) >= MOST_NS:
            raise ExportError(
                f"{export.path.name}: the times of its {name.replace('_', ' ')} add up to more than 146 years",
                hint=AGAIN,
            )
