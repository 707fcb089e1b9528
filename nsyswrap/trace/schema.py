"""The tables and columns of an nsys export that we read, and how they become the tables of a trace.

nsys creates a table only where it has rows, and newer versions add columns, so any column that is not ``required`` may
be missing. Source: the comments nsys leaves in ``sqlite_master.sql``, schemas 3.7 to 3.20.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from nsyswrap.trace import tables
from nsyswrap.trace.tables import TableSpec


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Where one table of a trace comes from.

    Attributes:
        table: Name in the export.
        required: Our column name to the export's; the table cannot be used without them. Where versions of nsys name
            a column differently, it lists all names, separated by ``|``: the first one that the table has is read.
        optional: The same for columns that may be missing; they read as the contract's missing value. An expression, a
            product or sum of columns, may replace a column: SQLite computes it, so that fewer numbers are read.
        family: Name under which nsys counts these rows in its diagnostics; empty for none.
    """

    spec: TableSpec
    table: str
    required: Mapping[str, str]
    optional: Mapping[str, str] = field(default_factory=dict)
    family: str = ""

    @property
    def texts(self) -> frozenset[str]:
        """Our names of the columns that hold texts. All others hold whole numbers."""
        kinds, coded = self.spec.columns, self.spec.coded
        names = (*self.required, *self.optional)
        return frozenset(name for name in names if kinds.get(name) == "category" and name not in coded)


def stored_as(names: str, present: Collection[str]) -> str | None:
    """Return the name or expression under which a table stores a column; None where it does not have it.

    Args:
        names: The names of the column in versions of nsys, separated by ``|``.
        present: Columns that the table has in the export.
    """
    return next((each for name in names.split("|") if columns_in(each := name.strip()) <= set(present)), None)


def columns_in(stored: str) -> frozenset[str]:
    """Return the columns of the export in a column or an expression."""
    return frozenset(re.findall(r"\w+", stored))


_SPAN = {"start": "start", "end": "end"}
_OPERATION = _SPAN | {
    "device_id": "deviceId",
    "correlation_id": "correlationId",
    "process": "globalPid",
}
_STREAM = {"stream": "streamId"}

SOURCES: tuple[Source, ...] = (
    Source(
        tables.KERNELS,
        "CUPTI_ACTIVITY_KIND_KERNEL",
        _OPERATION | {"name_id": "demangledName"},
        _STREAM
        | {
            "graph_node_id": "graphNodeId",
            "grid_blocks": "gridX * gridY * gridZ",
            "block_threads": "blockX * blockY * blockZ",
            "registers": "registersPerThread",
            "shared_bytes": "staticSharedMemory + dynamicSharedMemory",
            "shared_executed_bytes": "sharedMemoryExecuted",
        },
        family="CUDA",
    ),
    Source(
        tables.COPIES,
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        _OPERATION | {"bytes": "bytes", "copy_kind": "copyKind"},
        _STREAM | {"source_kind": "srcKind", "target_kind": "dstKind", "migration_cause": "migrationCause"},
        family="CUDA",
    ),
    Source(
        tables.MEMSETS,
        "CUPTI_ACTIVITY_KIND_MEMSET",
        _OPERATION | {"bytes": "bytes"},
        _STREAM | {"memory_kind": "memKind"},
        family="CUDA",
    ),
    Source(tables.GRAPHS, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", _OPERATION, _STREAM),
    Source(
        tables.CALLS,
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        _SPAN | {"thread": "globalTid", "name_id": "nameId"},
        {"correlation_id": "correlationId"},
        family="CUDA",
    ),
    Source(tables.OS_CALLS, "OSRT_API", _SPAN | {"thread": "globalTid", "name_id": "nameId"}),
    Source(tables.OVERHEADS, "PROFILER_OVERHEAD", _SPAN | {"thread": "globalTid", "name_id": "nameId"}),
    Source(
        tables.RANGES,
        "NVTX_EVENTS",
        _SPAN | {"thread": "globalTid", "kind": "eventType"},
        {"end_thread": "endGlobalTid", "text": "text", "text_id": "textId", "domain_id": "domainId"},
        family="NVTX",
    ),
    Source(
        tables.SCHEDULING,
        "SCHED_EVENTS",
        {"start": "start", "thread": "globalTid", "running": "isSchedIn"},
    ),
    Source(
        tables.MEMORY,
        "CUDA_GPU_MEMORY_USAGE_EVENTS",
        {
            "start": "start",
            "process": "globalPid",
            "device_id": "deviceId",
            "bytes": "bytes",
            "memory_kind": "memKind",
            "operation": "memoryOperationType",
        },
        {"pool": "localMemoryPoolAddress"},
    ),
    Source(
        tables.GPU_PAGE_FAULTS,
        "CUDA_UM_GPU_PAGE_FAULT_EVENTS",
        _SPAN | {"process": "globalPid", "device_id": "deviceId"},
        {"count": "numberOfPageFaults"},
    ),
    Source(tables.CPU_PAGE_FAULTS, "CUDA_UM_CPU_PAGE_FAULT_EVENTS", {"start": "start", "process": "globalPid"}),
    Source(
        tables.EVENT_RECORDS,
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
        {
            "process": "globalPid",
            "correlation_id": "correlationId",
            "device_id": "deviceId",
            "stream": "streamId",
            "event_id": "eventId",
        },
    ),
    Source(
        tables.EVENT_WAITS,
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        {
            "process": "globalPid",
            "correlation_id": "correlationId",
            "stream": "streamId",
            "event_id": "eventId",
        },
    ),
    Source(
        tables.COUNTERS,
        "GPU_METRICS",
        {"start": "timestamp", "type_id": "typeId", "metric_id": "metricId", "value": "value"},
    ),
    Source(tables.MPI_RANKS, "MPI_RANKS", {"thread": "globalTid", "rank": "rank"}),
    Source(tables.PROCESSES, "PROCESSES", {"process": "globalPid"}, {"name": "name"}),
    Source(tables.THREADS, "ThreadNames", {"thread": "globalTid", "name_id": "nameId"}),
    Source(
        tables.DIAGNOSTICS,
        "DIAGNOSTIC_EVENT",
        {"severity": "severity", "text": "text"},
        {"process": "globalPid"},
    ),
)

# Texts are cut at this many characters when they are read. The longest kernel name in the captures of this project has
# 5,852. Twice as many are read, since a text may get shorter when private parts are taken out. A character takes at
# most four bytes.
LONGEST_TEXT = 8_192
MOST_BYTES_OF_TEXT = 2 * 4 * LONGEST_TEXT

STRINGS, NVTX = "StringIds", "NVTX_EVENTS"
COPY_KINDS = "ENUM_CUDA_MEMCPY_OPER"
MEMORY_KINDS = "ENUM_CUDA_MEM_KIND"
# The labels in these two tables, for exports that lack them. Source: the tables of nsys 2022.4, 2023.4 and 2025.3.
COPY_LABELS: Mapping[int, str] = {
    0: "Unknown",
    1: "Host-to-Device",
    2: "Device-to-Host",
    3: "Host-to-Array",
    4: "Array-to-Host",
    5: "Array-to-Array",
    6: "Array-to-Device",
    7: "Device-to-Array",
    8: "Device-to-Device",
    9: "Host-to-Host",
    10: "Peer-to-Peer",
    11: "Unified Host-to-Device",
    12: "Unified Device-to-Host",
    13: "Unified Device-to-Device",
}
MEMORY_LABELS: Mapping[int, str] = {
    0: "Pageable",
    1: "Pinned",
    2: "Device",
    3: "Array",
    4: "Managed",
    5: "Device Static",
    6: "Managed Static",
    7: "Unknown",
}
GPUS = "TARGET_INFO_GPU"
# Where exports before 2022 describe GPUs; their ``GPUS`` has names alone.
OLD_GPUS = "TARGET_INFO_CUDA_GPU"
CUDA_DEVICES = "TARGET_INFO_CUDA_DEVICE"
COUNTER_NAMES = "TARGET_INFO_GPU_METRICS"
SESSION_START = "TARGET_INFO_SESSION_START_TIME"
ANALYSIS_DETAILS = "ANALYSIS_DETAILS"
SYSTEM = "TARGET_INFO_SYSTEM_ENV"
CAPTURE_OPTIONS = "META_DATA_CAPTURE"
# The row of SYSTEM that holds an environment, and the end of the names of rows of CAPTURE_OPTIONS that hold a variable.
ENVIRONMENT_LINE = "DeviceEnvironment"
ENVIRONMENT_OPTION = "ENVIRONMENT_VARIABLE"
# The second name is that of schema 3.1 and older.
EXPORT_OPTIONS = ("META_DATA_EXPORT", "EXPORT_META_DATA")

# Columns that nsys always fills in the tables above. A NULL in one of them means that the file is damaged.
NEVER_NULL = frozenset(
    {"device_id", "name_id", "bytes", "copy_kind", "kind", "severity", "running"}
)  # fmt: skip

# NVTX event types, from ENUM_NSYS_EVENT_TYPE: ranges of one thread, of any thread, and the same two from text files.
RANGE_KINDS = (59, 60, 70, 71)
MARK_KIND = 34
DOMAIN_KIND = 75

# An export of nsys has at least one of these tables; other SQLite files have none.
MARKERS = (STRINGS, *EXPORT_OPTIONS, CAPTURE_OPTIONS, ANALYSIS_DETAILS)
