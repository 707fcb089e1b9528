"""Builds exports like those of nsys, so that a test can say exactly what happened when.

::

    ExportBuilder().gpu().range("forward", 0, 90).kernel(20, 50, "gemm", launched=(5, 9)).write(path)

Times are ns since capture start. Names are given as texts, and the builder assigns their ids as nsys does. A keyword is
a short word (``device``, ``stream``, ``process``, ``thread``, ``correlation``, ...) or any column of the table. Other
columns are NULL, or a harmless number where nsys always writes one. Every method returns the builder.
"""

import json
import random
import sqlite3
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Self

from export_layouts import ENUMS, FIRST_RELEASE, NSYS_VERSIONS, columns_of

from nsyswrap.trace.load import load_export
from nsyswrap.trace.tables import Trace

Value = int | float | str | bytes | None
Row = dict[str, Value]

VM = 1
HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, PEER_TO_PEER = 1, 2, 8, 10
PAGEABLE, PINNED, DEVICE = 0, 1, 2
PUSH_POP, START_END, MARK, DOMAIN = 59, 60, 34, 75
SAMPLING_DOMAIN = "Python Periodic Sampling"

SHORT = {
    "device": "deviceId",
    "stream": "streamId",
    "context": "contextId",
    "process": "globalPid",
    "thread": "globalTid",
    "end_thread": "endGlobalTid",
    "correlation": "correlationId",
    "graph_node": "graphNodeId",
    "domain": "domainId",
    "kind": "eventType",
    "registers": "registersPerThread",
    "shared_memory": "dynamicSharedMemory",
}


def global_id(pid: int, tid: int = 0) -> int:
    """Return nsys's 64-bit id of a process, or of a thread in it."""
    return VM << 48 | pid << 24 | tid


PID = 4711
PROCESS = global_id(PID)
MAIN = global_id(PID, PID)


def thread(tid: int, pid: int = PID) -> int:
    """Return the id of a thread; ``thread(4711)`` is ``MAIN``."""
    return global_id(pid, tid)


class ExportBuilder:
    """An export under construction.

    Args:
        release: Release of nsys whose tables to write: 2022, 2023 or 2025.
    """

    def __init__(self, release: int = 2025) -> None:
        self.release = release
        self.rows: dict[str, list[Row]] = {}
        self._strings: dict[str | bytes, int] = {}
        self._correlation = 0
        self._without: set[tuple[str, str]] = set()
        self._seed: int | None = None
        self._backwards = False
        version, schema = NSYS_VERSIONS[release]
        self._about = "META_DATA_EXPORT" if release > 2022 else "EXPORT_META_DATA"
        self.row(self._about, name="EXPORT_PRODUCT_VERSION", value=version)
        self.row(self._about, name="EXPORT_SCHEMA_VERSION", value=schema)

    def row(self, table: str, **columns: Value) -> Self:
        """Add a row to any table, with columns by short or real name; ``row(table)`` alone creates an empty table."""
        layout = columns_of(table, self.release)
        if FIRST_RELEASE.get(table, 0) > self.release:
            raise KeyError(f"nsys {self.release} writes no {table}")
        real = {SHORT.get(name, name): value for name, value in columns.items()}
        if unknown := real.keys() - layout.keys():
            raise KeyError(f"{table} of nsys {self.release} has no column {', '.join(sorted(unknown))}")
        rows = self.rows.setdefault(table, [])
        if real:
            rows.append(real)
        return self

    def string(self, text: str | bytes) -> int:
        """Return the id of a text; bytes are written unchanged, for texts that are not UTF-8."""
        return self._strings.setdefault(text, len(self._strings) + 1)

    # Operations on a device. ``launched=(start, end)`` also writes the host call that started it.

    def kernel(
        self,
        start: int,
        end: int,
        name: str | bytes = "kernel",
        *,
        launched: tuple[int, int] | None = None,
        **columns: Value,
    ) -> Self:
        limits = {"registersPerThread": 32, "staticSharedMemory": 0, "dynamicSharedMemory": 0} | {
            f"{shape}{axis}": 1 for shape in ("grid", "block") for axis in "XYZ"
        }
        names = {"demangledName": self.string(name), "shortName": self.string(name)}
        given = self._started("cudaLaunchKernel", launched, columns)
        return self._operation("CUPTI_ACTIVITY_KIND_KERNEL", start, end, {**limits, **names, **given})

    def copy(
        self,
        start: int,
        end: int,
        kind: int = HOST_TO_DEVICE,
        *,
        launched: tuple[int, int] | None = None,
        call: str = "cudaMemcpyAsync",
        **columns: Value,
    ) -> Self:
        """Add a memory copy, between pinned memory and the device unless ``srcKind`` and ``dstKind`` are given."""
        ends = {DEVICE_TO_HOST: (DEVICE, PINNED), HOST_TO_DEVICE: (PINNED, DEVICE)}.get(kind, (DEVICE, DEVICE))
        about: Row = {"copyKind": kind, "bytes": 1024, "srcKind": ends[0], "dstKind": ends[1]}
        given = self._started(call, launched, columns)
        return self._operation("CUPTI_ACTIVITY_KIND_MEMCPY", start, end, {**about, **given})

    def fill(self, start: int, end: int, *, launched: tuple[int, int] | None = None, **columns: Value) -> Self:
        """Add a memset of device memory."""
        given = self._started("cudaMemsetAsync", launched, columns)
        about: Row = {"bytes": 1024, "value": 0, "memKind": DEVICE}
        return self._operation("CUPTI_ACTIVITY_KIND_MEMSET", start, end, {**about, **given})

    def graph(self, start: int, end: int, *, launched: tuple[int, int] | None = None, **columns: Value) -> Self:
        """Add a CUDA graph that was traced as a whole."""
        given = self._started("cudaGraphLaunch", launched, columns)
        about: Row = {"graphId": 1, "graphExecId": 1}
        return self._operation("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", start, end, {**about, **given})

    def _operation(self, table: str, start: int, end: int, columns: Row) -> Self:
        common: Row = {"device": 0, "context": 1, "stream": 7, "process": PROCESS}
        if not columns.keys() & {"correlation", "correlationId"}:
            self._correlation += 1
            common["correlation"] = self._correlation
        return self.row(table, start=start, end=end, **_real({**common, **columns}))

    def _started(self, call: str, launched: tuple[int, int] | None, columns: Row) -> Row:
        """Add the call that launches an operation, and give both the same correlation id."""
        rest = {name: value for name, value in columns.items() if name != "thread"}
        if launched is None:
            return rest
        self._correlation += 1
        rest.setdefault("correlation", self._correlation)
        process = rest.get("process", PROCESS)
        assert isinstance(process, int)
        main = process | (process >> 24 & 0xFFFFFF)
        self.call(call, *launched, thread=columns.get("thread", main), correlation=rest["correlation"])
        return rest

    # The host.

    def call(self, name: str | bytes, start: int, end: int, **columns: Value) -> Self:
        """Add a CUDA call of the main thread, or of ``thread=``."""
        common: Row = {"thread": MAIN, "correlation": 0, "eventClass": 0, "returnValue": 0}
        return self._host("CUPTI_ACTIVITY_KIND_RUNTIME", name, (start, end), common | columns)

    def os_call(self, name: str | bytes, start: int, end: int, **columns: Value) -> Self:
        """Add a call to the operating system."""
        common: Row = {"thread": MAIN, "eventClass": 27, "returnValue": 0, "callchainId": 0}
        return self._host("OSRT_API", name, (start, end), common | columns)

    def overhead(self, name: str | bytes, start: int, end: int, **columns: Value) -> Self:
        """Add an interval of profiler overhead."""
        common: Row = {"thread": MAIN, "returnValue": 0}
        return self._host("PROFILER_OVERHEAD", name, (start, end), common | columns)

    def _host(self, table: str, name: str | bytes, span: tuple[int, int], columns: Row) -> Self:
        return self.row(table, start=span[0], end=span[1], nameId=self.string(name), **columns)

    def range(
        self, text: str | bytes, start: int, end: int | None, *, registered: bool = True, **columns: Value
    ) -> Self:
        """Add an NVTX range; ``end`` None leaves it open, ``registered=False`` writes its text into the row."""
        common: Row = {"thread": MAIN, "kind": PUSH_POP, "domain": 0, "start": start, "end": end}
        name: Row = {"textId": self.string(text)} if registered else {"text": text}
        return self.row("NVTX_EVENTS", **_real(common | name | columns))

    def domain(self, name: str, number: int, **columns: Value) -> Self:
        """Name an NVTX domain of a process."""
        return self.range(name, 0, None, registered=False, **({"kind": DOMAIN, "domain": number} | columns))

    def python_sample(
        self, at: int, frames: Iterable[tuple[str, str, int]], state: str = "Running", **columns: Value
    ) -> Self:
        """Add a sample of Python's stack: (function, file, line), innermost first. Name its domain with ``domain``."""
        stack = [{"Function": self.string(f), "File": self.string(p), "Line": n} for f, p, n in frames]
        about = {"Thread state ID": 1, "Thread state": state, "Frames count": len(stack), "Frames": stack}
        payload = json.dumps({SAMPLING_DOMAIN: about}, separators=(",", ":"))
        common: Row = {"thread": MAIN, "kind": MARK, "domain": 1, "start": at, "jsonText": payload}
        return self.row("NVTX_EVENTS", **_real(common | columns))

    def scheduled(self, start: int, *, running: bool, thread: int = MAIN, cpu: int = 0) -> Self:
        """Add a switch of a thread onto a CPU, or off it."""
        return self.row("SCHED_EVENTS", start=start, cpu=cpu, isSchedIn=int(running), thread=thread)

    def thread_name(self, thread: int, name: str | bytes) -> Self:
        return self.row("ThreadNames", nameId=self.string(name), priority=20, thread=thread)

    # The machine and the session.

    def gpu(self, device: int = 0, name: str = "NVIDIA H200", **columns: Value) -> Self:
        """Add a GPU of the machine: an H200 unless columns are given."""
        common: Row = {"vmId": VM << 48, "computeMajor": 9, "computeMinor": 0, "smCount": 132}
        common |= {
            "totalMemory": 150109880320,
            "uuid": f"4e1393c6-{device:04}",
            "busLocation": f"0000:00:{device:02}.0",
        }
        return self.row("TARGET_INFO_GPU", id=device, name=name, **(common | columns))

    def visible_device(self, ordinal: int, gpu: int, pid: int = PID) -> Self:
        """Set which GPU a process sees under a CUDA ordinal."""
        return self.row("TARGET_INFO_CUDA_DEVICE", gpuId=gpu, cudaId=ordinal, pid=pid)

    def metric(self, name: str, samples: Iterable[tuple[int, int]], device: int = 0, number: int = 0) -> Self:
        """Add samples (time, value) of a GPU counter."""
        kind = VM << 48 | 0x1000000 | device
        self.row("TARGET_INFO_GPU_METRICS", typeId=kind, sourceId=kind, typeName="", metricId=number, metricName=name)
        for at, value in samples:
            self.row("GPU_METRICS", timestamp=at, typeId=kind, metricId=number, value=value)
        return self

    def memory(self, at: int, size: int, kind: int = DEVICE, *, release: bool = False, **columns: Value) -> Self:
        """Add an allocation of memory on a device, or a release."""
        about: Row = {"process": PROCESS, "device": 0, "context": 1, "address": 0x7F00_0000_0000, "pc": 0}
        about |= {"bytes": size, "memKind": kind, "memoryOperationType": int(release), "correlation": 0}
        return self.row("CUDA_GPU_MEMORY_USAGE_EVENTS", start=at, **_real(about | columns))

    def session(self, started: str = "2026-01-02T03:04:05", duration: int = 10**9) -> Self:
        """Set when the capture began and how long it lasted."""
        self.row("TARGET_INFO_SESSION_START_TIME", utcEpochNs=10**18, utcTime=started, localTime=started)
        return self.row("ANALYSIS_DETAILS", globalVid=VM << 48, duration=duration, startTime=0, stopTime=duration)

    def option(self, name: str, value: str) -> Self:
        """Add an option of the capture."""
        return self.row("META_DATA_CAPTURE", name=name, value=value)

    def command(self, program: str, *arguments: str) -> Self:
        """Set the profiled command."""
        self.option("PROCESS_0:COMMAND", program)
        for index, word in enumerate(arguments):
            self.option(f"PROCESS_0:ARGUMENT_{index}", word)
        return self

    def system(self, name: str, value: str) -> Self:
        """Add a property of the machine, such as ``Hostname``."""
        return self.row(
            "TARGET_INFO_SYSTEM_ENV", globalVid=VM << 48, devStateName="Local (CLI)", name=name, nameEnum=0, value=value
        )

    def environment(self, variables: Mapping[str, str]) -> Self:
        """Add an environment in all the places where nsys 2023.4.4 stores it."""
        words = [f"{name}={value}" for name, value in variables.items()]
        self.string("\x00".join(words))
        self.system("DeviceEnvironment", ";".join(words))
        if self.release > 2022:
            for name, value in variables.items():
                self.option("PROCESS_0:ENVIRONMENT_VARIABLE", f'{name}="{value}"')
        return self

    def diagnostic(self, text: str, severity: int = 1, process: int = PROCESS) -> Self:
        """Add a message of nsys about the capture, with severity 1 (information), 2 (warning) or 3 (error)."""
        columns: Row = {"timestamp": 0, "timestampType": 1, "source": 1, "severity": severity}
        return self.row("DIAGNOSTIC_EVENT", text=text, process=process, **columns)

    # Exports that nsys does not write, or writes in another order.

    def without(self, table: str, *columns: str) -> Self:
        """Leave a table out, or only some of its columns."""
        self._without |= {(table, column) for column in columns or ("",)}
        return self

    def shuffled(self, seed: int) -> Self:
        """Write the rows of every table in a random order."""
        self._seed = seed
        return self

    def backwards(self) -> Self:
        """Write the columns of every table in the opposite order."""
        self._backwards = True
        return self

    def write(self, path: Path) -> Path:
        """Write the export; an existing file is replaced."""
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as database, database:
            # The file need not survive a crash of the machine, so no write waits for the disk.
            database.execute("pragma synchronous = off")
            database.execute("pragma journal_mode = off")
            for name, labels in ENUMS.items():
                self._create(database, name, {"id": "INTEGER PRIMARY KEY", "name": "TEXT", "label": "TEXT"})
                self._insert(database, name, [(key, *texts) for key, texts in labels.items()])
            strings: list[Row] = [{"id": number, "value": text} for text, number in self._strings.items()]
            texts = strings + self.rows.get("StringIds", [])
            for table, rows in ({**self.rows, "StringIds": texts}).items():
                columns = columns_of(table, self.release)
                kept = [name for name in columns if (table, name) not in self._without]
                kept = kept[::-1] if self._backwards else kept
                if not kept:  # SQLite has no table without columns
                    continue
                self._create(database, table, {name: columns[name] for name in kept})
                self._insert(database, table, [tuple(row.get(name) for name in kept) for row in rows])
        return path

    def _create(self, database: sqlite3.Connection, table: str, columns: dict[str, str]) -> None:
        if (table, "") not in self._without:
            parts = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
            database.execute(f'create table "{table}" ({parts})')

    def _insert(self, database: sqlite3.Connection, table: str, rows: list[tuple[Value, ...]]) -> None:
        if not rows or (table, "") in self._without:
            return
        if self._seed is not None:
            random.Random(self._seed).shuffle(rows)  # noqa: S311 - the order of rows is no secret
        # Bytes are written as a text of these bytes, as a C program writes them, and not as a blob.
        marks = [
            "cast(? as text)" if any(isinstance(v, bytes) for v in each) else "?" for each in zip(*rows, strict=True)
        ]
        database.executemany(f'insert into "{table}" values ({", ".join(marks)})', rows)  # noqa: S608 - our names


def _real(columns: Row) -> Row:
    """Return columns by the names of the export, so that a short name and a real one are the same column."""
    return {SHORT.get(name, name): value for name, value in columns.items()}


def trace_of(builder: ExportBuilder) -> Trace:
    """Return an export read back as a trace."""
    with tempfile.TemporaryDirectory() as folder:
        return load_export(builder.write(Path(folder) / "built.sqlite"))
