"""Write a redacted export: only what is on a list, into a new file, so that no deleted data stays in unused pages.

::

    tables on the list      numbers are copied
                            texts on the list are cleaned, all other texts become NULL
    StringIds               only texts that kept rows refer to, cleaned
    everything else         left out: environments, processes, output, call stacks, serial numbers

Tables of our own can be added: what `profile` measured beside the capture, so that its report says the same.
"""

import json
import os
import re
import sqlite3
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from nsyswrap.base.errors import ExportError, NsyswrapError, UsageError
from nsyswrap.base.privacy import Cleaner, DistinctCleaner, neutral_command
from nsyswrap.trace import schema
from nsyswrap.trace.connection import AGAIN, Export, address_of, opened, text_of
from nsyswrap.trace.description import command_words
from nsyswrap.trace.identity import identity_of
from nsyswrap.trace.payloads import is_of_domain, nccl_domains, nccl_payload, python_sample

Values = Mapping[str, object]

# The tables that are kept, and for each the text columns that are kept and how they are cleaned. Numbers are kept.
TABLES: Mapping[str, Mapping[str, str]] = {
    "CUPTI_ACTIVITY_KIND_KERNEL": {},
    "CUPTI_ACTIVITY_KIND_MEMCPY": {},
    "CUPTI_ACTIVITY_KIND_MEMSET": {},
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": {},
    "CUPTI_ACTIVITY_KIND_RUNTIME": {},
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": {},
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": {},
    "CUDA_GRAPH_EVENTS": {},
    "CUDA_GRAPH_NODE_EVENTS": {},
    "CUDA_GPU_MEMORY_USAGE_EVENTS": {},
    "CUDA_UM_GPU_PAGE_FAULT_EVENTS": {},
    "CUDA_UM_CPU_PAGE_FAULT_EVENTS": {},
    "OSRT_API": {},
    "MPI_P2P_EVENTS": {},
    "MPI_COLLECTIVES_EVENTS": {},
    "MPI_START_WAIT_EVENTS": {},
    "MPI_OTHER_EVENTS": {},
    "MPI_RANKS": {},
    "UCP_SUBMIT_EVENTS": {},
    "UCP_PROGRESS_EVENTS": {},
    "UCP_EVENTS": {},
    "CUPTI_ACTIVITY_KIND_OPENACC_DATA": {},
    "CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH": {},
    "CUPTI_ACTIVITY_KIND_OPENACC_OTHER": {},
    "PROFILER_OVERHEAD": {},
    "NVTX_EVENTS": {"text": "text", "jsonText": "payload"},
    "SCHED_EVENTS": {},
    "GPU_METRICS": {},
    "TARGET_INFO_GPU_METRICS": {"typeName": "text", "metricName": "text"},
    "DIAGNOSTIC_EVENT": {"text": "message"},
    schema.GPUS: {"name": "text", "chipName": "text"},
    schema.OLD_GPUS: {"name": "text"},
    schema.CUDA_DEVICES: {},
    "TARGET_INFO_CUDA_CONTEXT_INFO": {},
    "TARGET_INFO_CUDA_STREAM": {},
    schema.SESSION_START: {"utcTime": "text"},
    schema.ANALYSIS_DETAILS: {},
}
_THREAD_NAMES, _PROCESSES = "ThreadNames", "PROCESSES"
# Names of processes that say what kind of program it is, and nothing of a user's; any other is "program".
_PROGRAM = re.compile(r"python[\d.]{0,8}|VLLM::[A-Za-z_]{1,20}|sglang::[a-z]{1,20}|tritonserver|trtllm-serve", re.ASCII)
# Tables and columns that name the processes of the program. Threads of other processes are left out.
_OF_THE_PROGRAM = {
    "CUPTI_ACTIVITY_KIND_KERNEL": "globalPid",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "globalTid",
    "OSRT_API": "globalTid",
    "NVTX_EVENTS": "globalTid",
}
# Numbers that identify one piece of hardware.
_SERIAL_NUMBERS = frozenset({"luid", "nodeMask"})
# Columns with ids of texts in StringIds, and how these texts are cleaned.
_TEXT_IDS = {
    "nameId": "symbol",
    "demangledName": "symbol",
    "shortName": "symbol",
    "mangledName": "symbol",
    "textId": "text",
}
_SYSTEM_ROWS = ("NvDriverVersion", "CudaDriverVersion", "CpuCores", "CpuArchitecture")
_EXPORT_ROWS = re.compile(r"EXPORT_(?:PRODUCT|SCHEMA)_\w+|EXPORT_PLATFORM|EXPORT_ARCH")
_OPTION_ROWS = re.compile(
    r"CAPTURE_EVENT_TYPE|RATE_HZ|RUN_DURATION_MS|START_DELAY_MS|SHOW_BACKTRACE|COLLECT_\w+|PROCESS_0:COLLECT_\w+"
    r"|PROCESS_0:CUDA_\w+(?::MODE)?"
    r"|(?:OS_RUNTIME|GPU_METRICS|LINUX_PERF|PYTHON_BACKTRACE_SAMPLING)_OPTIONS:[\w:]+"
)
_OPTION_VALUE = re.compile(r"[\w.+-]{0,40}", re.ASCII)
_COLUMN = re.compile(r"[A-Za-z]\w{0,63}", re.ASCII)
_TYPES = frozenset({"INTEGER", "REAL", "TEXT"})


@dataclass(frozen=True, slots=True)
class Redaction:
    """What a redacted export holds and lacks.

    Attributes:
        path: The new file.
        kept: Rows by table.
        left_out: Rows left out, by table.
        texts_kept: Texts in the new file's StringIds.
    """

    path: Path
    kept: Mapping[str, int]
    left_out: Mapping[str, int]
    texts_kept: int
    texts_changed: int
    texts_left_out: int


def redact(
    source: Path, target: Path, *, force: bool = False, more: Callable[[Cleaner], Mapping[str, Values]] = lambda _: {}
) -> Redaction:
    """Write an export without environment, host, user, folders, processes and output. Its numbers stay the same.

    Args:
        source: A ``.sqlite`` export; opened read-only.
        target: The file to write, in one step, readable by all.
        force: Replace ``target`` if it exists.
        more: Returns tables to add, from what cleans texts: values by name, written as JSON. They are harmless.

    Returns:
        What was kept and what was left out.

    Raises:
        ExportError: The export cannot be read.
        UsageError: ``target`` exists, or is ``source``.
        NsyswrapError: ``target`` cannot be written.
    """
    with opened(source) as export:
        if target.exists():
            if target.samefile(source):
                raise UsageError(f"{target} is the export itself", hint="give another file with -o")
            if not force:
                raise UsageError(f"{target} is there already", hint="give another file, or --force to replace it")
        try:
            handle, name = tempfile.mkstemp(prefix=".nsyswrap-", suffix=".sqlite", dir=target.absolute().parent)
        except OSError as error:
            raise _not_written(target, error.strerror or str(error)) from error
        os.close(handle)
        temporary = Path(name)
        try:
            with closing(sqlite3.connect(temporary, isolation_level=None)) as database:
                found = _Copy(database, export, identity_of(export).cleaner(), more).run(target)
            temporary.chmod(0o644)
            temporary.replace(target)
        except sqlite3.DatabaseError as error:
            raise _failed(error, source, target) from error
        except OSError as error:
            raise _not_written(target, error.strerror or str(error)) from error
        finally:
            temporary.unlink(missing_ok=True)
    return found


class _Copy:
    """One pass over an export, table by table, into an empty database."""

    def __init__(
        self,
        database: sqlite3.Connection,
        export: Export,
        cleaner: Cleaner,
        more: Callable[[Cleaner], Mapping[str, Values]],
    ) -> None:
        self._database = database
        self._export = export
        self._cleaner = cleaner
        self._more = more
        self._nccl_domains = nccl_domains(export)
        # How to clean each text, by its id. Where a text has several uses, a file comes first, then a text, then a
        # symbol.
        self._ways: dict[int, str] = {}
        self._changed = 0
        self._kept: dict[str, int] = {}
        address = f"{address_of(export.path)}&immutable=1"
        # No other process sees the file before it is complete, so it needs no journal.
        database.execute("pragma journal_mode = off")
        database.execute("pragma synchronous = off")
        database.execute("attach ? as source", (address,))
        for way in ("symbol", "text", "file", "message"):
            clean = getattr(cleaner, way)
            # Ranges and kernels are counted by their texts, so different texts must stay different.
            kept_apart = DistinctCleaner(clean) if way in ("symbol", "text") else clean
            database.create_function(way, 1, self._function(kept_apart), deterministic=True)
        database.create_function("program", 1, self._function(_program), deterministic=True)
        database.create_function("payload", 3, self._payload)

    def run(self, target: Path) -> Redaction:
        tables = self._export.columns
        self._database.execute("begin")
        for table in sorted(tables):
            if table in TABLES:
                self._copy(table, TABLES[table])
            elif table.startswith("ENUM_") and _COLUMN.fullmatch(table):
                self._copy(table, {"name": "text", "label": "text"})
        if _THREAD_NAMES in tables:
            self._copy(_THREAD_NAMES, {}, f"globalTid & ~0xffffff in ({self._processes()})")
        if _PROCESSES in tables:
            self._copy(_PROCESSES, {"name": "program"}, f"globalPid in ({self._processes()})")
        self._copy_options()
        texts = self._copy_texts()
        for table, values in self._more(self._cleaner).items():
            self._create(table, {"name": "TEXT", "value": "TEXT"})
            self._insert(table, [(name, json.dumps(value)) for name, value in sorted(values.items())])
        self._database.execute("commit")
        left_out = {name: self._rows("source", name) - self._kept.get(name, 0) for name in sorted(tables)}
        return Redaction(
            path=target,
            kept=dict(sorted(self._kept.items())),
            left_out={name: rows for name, rows in left_out.items() if rows > 0 and name != schema.STRINGS},
            texts_kept=texts,
            texts_changed=self._changed,
            texts_left_out=left_out.get(schema.STRINGS, 0),
        )

    def _copy(self, table: str, texts: Mapping[str, str], where: str = "1") -> None:
        """Copy a table's rows: numbers, and the named texts, cleaned."""
        columns = self._columns(table)
        parts = [_expression(name, columns, texts.get(name)) for name in columns]
        self._create(table, columns)
        order = "" if where == "1" else f" where {where}"
        self._database.execute(f'insert into main."{table}" select {", ".join(parts)} from source."{table}"{order}')  # noqa: S608
        self._kept[table] = self._rows("main", table)
        for column, way in _TEXT_IDS.items():
            if column in columns:
                way_here = "text" if table in ("NVTX_EVENTS", _THREAD_NAMES) else way
                self._refer(f'select distinct "{column}" from main."{table}" where "{column}" is not null', way_here)  # noqa: S608

    def _columns(self, table: str) -> dict[str, str]:
        """Return the columns of a table of the source with valid names, and their types."""
        rows = self._database.execute(f'pragma source.table_info("{table}")').fetchall()
        return {name: kind if kind in _TYPES else "TEXT" for _, name, kind, *_ in rows if _COLUMN.fullmatch(str(name))}

    def _create(self, table: str, columns: Mapping[str, str]) -> None:
        keyed = table == schema.STRINGS or table.startswith("ENUM_")
        parts = [f'"{name}" {kind}{" primary key" if keyed and name == "id" else ""}' for name, kind in columns.items()]
        self._database.execute(f'create table main."{table}" ({", ".join(parts)})')

    def _processes(self) -> str:
        """Return a query for the processes of the program."""
        parts = [
            f'select distinct {column} & ~0xffffff from source."{table}"'  # noqa: S608 - our own names
            for table, column in _OF_THE_PROGRAM.items()
            if self._export.has(table, column)
        ]
        return " union ".join(parts) or "select null"

    def _copy_options(self) -> None:
        """Copy the harmless rows of the descriptions of machine, capture and export."""
        shown = neutral_command(command_words(self._export))
        if schema.SYSTEM in self._export.columns:
            keep = [
                row
                for row in self._export.pairs(schema.SYSTEM)
                if row[0] in _SYSTEM_ROWS and _OPTION_VALUE.fullmatch(row[1])
            ]
            self._write_pairs(schema.SYSTEM, keep)
        if schema.CAPTURE_OPTIONS in self._export.columns:
            names = ["PROCESS_0:COMMAND", *(f"PROCESS_0:ARGUMENT_{index}" for index in range(len(shown)))]
            words = [self._cleaner.message(word) for word in shown]
            rows = [row for row in self._export.pairs(schema.CAPTURE_OPTIONS) if _harmless(row, _OPTION_ROWS)]
            self._write_pairs(schema.CAPTURE_OPTIONS, rows + list(zip(names, words, strict=False)))
        for table in schema.EXPORT_OPTIONS:
            if table in self._export.columns:
                rows = [
                    (name, self._cleaner.text(value))
                    for name, value in self._export.pairs(table)
                    if _EXPORT_ROWS.fullmatch(name)
                ]
                self._write_pairs(table, rows)

    def _write_pairs(self, table: str, rows: list[tuple[str, str]]) -> None:
        self._create(table, self._columns(table))
        self._insert(table, rows)

    def _insert(self, table: str, rows: list[tuple[str, str]]) -> None:
        self._database.executemany(f'insert into main."{table}" (name, value) values (?, ?)', rows)  # noqa: S608
        self._kept[table] = len(rows)

    def _copy_texts(self) -> int:
        """Copy the texts that kept rows refer to, cleaned, and return how many there are."""
        if not self._export.has(schema.STRINGS, "id", "value"):
            return 0
        self._create(schema.STRINGS, self._columns(schema.STRINGS))
        self._database.execute("create temp table wanted (id integer primary key, way text)")
        self._database.executemany("insert into wanted values (?, ?)", self._ways.items())
        columns = "id, case way when 'file' then file(raw) when 'text' then text(raw) else symbol(raw) end"
        joined = "select id, way, cast(value as blob) as raw from wanted join source.StringIds using (id)"
        self._database.execute(f"insert into main.StringIds (id, value) select {columns} from ({joined}) order by id")  # noqa: S608
        self._kept[schema.STRINGS] = self._rows("main", schema.STRINGS)
        changed = "select count(*) from main.StringIds m join source.StringIds s using (id) where m.value <> s.value"
        (self._changed,) = self._database.execute(changed).fetchone()
        return self._kept[schema.STRINGS]

    def _refer(self, query: str, way: str) -> None:
        rank = ("symbol", "text", "file")
        for (key,) in self._database.execute(query):
            self._ways[key] = max(way, self._ways.get(key, way), key=rank.index)

    def _rows(self, where: str, table: str) -> int:
        quoted = table.replace('"', '""')
        (count,) = self._database.execute(f'select count(*) from {where}."{quoted}"').fetchone()  # noqa: S608
        return int(count)

    @staticmethod
    def _function(clean: Callable[[str], str]) -> Callable[[bytes | None], str | None]:
        """Return a cleaner of bytes, which need not be UTF-8, from a cleaner of texts."""
        return lambda raw: None if raw is None else clean(text_of(raw))

    def _payload(self, raw: bytes | None, thread: object, domain: object) -> str | None:
        """Return what may stay of a payload: NCCL's numbers, or a sample of Python's stack, whose texts stay too."""
        if is_of_domain(self._nccl_domains, thread, domain):
            return nccl_payload(raw)
        sample = python_sample(raw)
        if sample is None:
            return None
        for function, file, _ in sample.frames:
            self._ways.setdefault(function, "symbol")
            self._ways[file] = "file"
        return sample.text


def _program(name: str) -> str:
    """Return the name of a process without folders where it is a well-known one; else "program"."""
    found = _PROGRAM.match(name.rpartition("/")[2])
    return found[0] if found else "program"


def _expression(name: str, columns: Mapping[str, str], way: str | None) -> str:
    """Return the SQL for the value of one of a table's columns: a number as it is, a text cleaned or NULL."""
    if way == "payload":
        thread, domain = (f'"{each}"' if each in columns else "null" for each in ("globalTid", "domainId"))
        return f'payload(cast("{name}" as blob), {thread}, {domain})'
    if way is not None:
        return f'{way}(cast("{name}" as blob))'
    if columns[name] == "TEXT" or name in _SERIAL_NUMBERS:
        return "null"
    # SQLite allows a text in a column of numbers. Such a text is left out.
    return f"case when typeof(\"{name}\") in ('integer', 'real') then \"{name}\" end"


def _harmless(row: tuple[str, str], names: re.Pattern[str]) -> bool:
    return bool(names.fullmatch(row[0]) and _OPTION_VALUE.fullmatch(row[1]))


def _failed(error: sqlite3.DatabaseError, source: Path, target: Path) -> NsyswrapError:
    """Return the error for a target that cannot be written or a source that cannot be read."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
        return _not_written(target, str(error))
    return ExportError(f"cannot read {source.name}: {error}", hint=AGAIN)


def _not_written(target: Path, reason: str) -> NsyswrapError:
    return NsyswrapError(f"cannot write {target}: {reason.lower()}", hint="give another file with -o")
