"""Make a capture small enough to commit: the steps and what belongs to them, packed.

Events before the first kept step and after the last one are removed, and so are texts without a reference. The counts
that nsys wrote are set to the remaining rows, so that the capture counts as complete.
"""

import lzma
import re
import shutil
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

MOST_BYTES = 200 * 1024
STEP, XRAY = "batch %", "xray"
# Events of a step may begin a little before it, or end a little after it.
MARGIN_NS = 1_000_000
# Start and end, in ns.
Span = tuple[int, int]
# The lower bits of a global id are the thread, the upper bits the process. Ids of launches are unique in one process.
PROCESS_BITS = 24
# At this step the libraries have started, also in captures of two processes, whose steps alternate.
BEGUN = 4

FAMILIES = {
    "CUDA": (
        "CUPTI_ACTIVITY_KIND_KERNEL",
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        "CUPTI_ACTIVITY_KIND_MEMSET",
        "CUPTI_ACTIVITY_KIND_RUNTIME",
    ),
    "NVTX": ("NVTX_EVENTS",),
    "OS runtime libraries": ("OSRT_API",),
}
OPERATIONS = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
)
# Tables that show which operation a wait for an event is for. nsys does not count their rows.
EVENTS = ("CUPTI_ACTIVITY_KIND_CUDA_EVENT", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION")
# Rows of these tables only repeat what other tables hold.
UNREAD = ("CUDA_GRAPH_NODE_EVENTS",)
TIMED = (*FAMILIES["CUDA"], "OSRT_API", "PROFILER_OVERHEAD", "NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE")
_COUNTED = re.compile(r"(Number of (CUDA|NVTX|OS runtime libraries) events collected:\s*)[\d,]+")


def pack(export: Path, target: Path, most_bytes: int = MOST_BYTES) -> int:
    """Write a redacted export as .sqlite.xz of at most that size, with as many steps as fit; return how many.

    These are the first steps. Where there is an X-ray step, they are the last ones before it, and the X-ray step stays.

    Raises:
        ValueError: Not even four steps fit, or there are none.
    """
    every, xray = step_starts(export), step_starts(export, XRAY)
    if xray:
        every = [each for each in every if each[0] < xray[0][0]][::-1]
    # Libraries start in the first steps. Where these steps alone are too large, they are removed.
    for steps in (every,) if xray else (every, every[BEGUN:]):
        kept = len(steps)
        while kept >= min(4, len(steps)) and kept > 0:
            small = target.with_suffix(".part")
            shutil.copyfile(export, small)
            cut(small, steps, kept, xray[-1][1] if xray else 0)
            packed = lzma.compress(small.read_bytes(), preset=9 | lzma.PRESET_EXTREME)
            small.unlink()
            if len(packed) <= most_bytes:
                target.write_bytes(packed)
                return kept
            kept = min(kept - 1, kept * most_bytes // len(packed))
    raise ValueError(f"{export}: no four steps of it fit into {most_bytes} bytes")


def unpack(packed: Path, folder: Path) -> Path:
    """Unpack an .sqlite.xz export into a folder; return the .sqlite file."""
    export = folder / packed.stem
    with lzma.open(packed) as source, export.open("wb") as target:
        shutil.copyfileobj(source, target)
    return export


def step_starts(export: Path, named: str = STEP) -> list[Span]:
    """Return start and end of each step, in order; ``named`` is the pattern of their names, as in SQL."""
    return sorted(span for steps in steps_of_processes(export, named).values() for span in steps)


def steps_of_processes(export: Path, named: str = STEP) -> dict[int, list[Span]]:
    """Return start and end of each step of each process that has some, in order."""
    query = (
        f'SELECT n.globalTid >> {PROCESS_BITS}, n.start, n."end" FROM NVTX_EVENTS n '  # noqa: S608 - our query
        "LEFT JOIN StringIds s ON s.id = n.textId "
        'WHERE n."end" IS NOT NULL AND coalesce(n.text, s.value) LIKE ? ORDER BY n.start'
    )
    found: dict[int, list[Span]] = {}
    with closing(sqlite3.connect(export)) as database:
        for process, start, end in database.execute(query, (named,)):
            found.setdefault(process, []).append((start, end))
    return found


def cut(export: Path, steps: Sequence[Span], kept: int, ends: int = 0) -> None:
    """Reduce an export, in place, to its first steps and the time between them; to its last ones up to an end."""
    if ends:
        cut_processes(export, {}, (steps[kept - 1][0] - MARGIN_NS, ends + MARGIN_NS))
        return
    low, high = steps[0][0] - MARGIN_NS, steps[kept - 1][1]
    cut_processes(export, {}, (low, high + MARGIN_NS if kept == len(steps) else high))


def cut_processes(export: Path, spans: Mapping[int, Span], others: Span) -> None:
    """Reduce an export, in place, to a span of each process, as if the programs had stopped then.

    What was launched by then still runs on the GPU. A range that had begun by then has no end: its work is not whole.
    """
    with closing(sqlite3.connect(export)) as database:
        present = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table in present & set(UNREAD):
            database.execute(f'DROP TABLE "{table}"')
        _note_launches(database, present)
        database.execute("CREATE TEMP TABLE spans (process INTEGER PRIMARY KEY, low INTEGER, high INTEGER)")
        database.executemany("INSERT INTO spans VALUES (?, ?, ?)", [(each, *span) for each, span in spans.items()])
        launched = set(OPERATIONS) if "CUPTI_ACTIVITY_KIND_RUNTIME" in present else set()
        for table in sorted(present & set(TIMED) - launched):
            low, high = _bounds(table, others)
            database.execute(f'DELETE FROM "{table}" WHERE "end" IS NOT NULL AND ("end" < {low} OR start > {high})')  # noqa: S608 - listed
            if table == "NVTX_EVENTS":
                database.execute(f'UPDATE "{table}" SET "end" = NULL WHERE "end" > {high}')  # noqa: S608 - as above
        _drop_unlaunched(database, present)
        _drop_launches(database, present)
        _drop_texts(database, present)
        _count_again(database, present)
        database.commit()
        database.execute("VACUUM")


def _bounds(table: str, others: Span) -> tuple[str, str]:
    """Return SQL for the first and the last ns that is kept of the process of a row."""
    owner = "globalPid" if table in OPERATIONS else "globalTid"
    own = f'(SELECT {{}} FROM spans WHERE process = "{table}".{owner} >> {PROCESS_BITS})'  # noqa: S608 - listed
    low, high = (
        f"coalesce({own.format(name)}, {int(other)})" for name, other in zip(("low", "high"), others, strict=True)
    )
    return low, high


def _note_launches(database: sqlite3.Connection, present: set[str]) -> None:
    """Note which calls launch an operation of the export, in a temporary table."""
    _note(database, "launching", "globalPid", present & set(OPERATIONS))


def _drop_launches(database: sqlite3.Connection, present: set[str]) -> None:
    """Drop calls whose operations lie beyond the cut: without these they would look like lost operations."""
    if "CUPTI_ACTIVITY_KIND_RUNTIME" not in present or not present & set(OPERATIONS):
        return
    _note(database, "left", "globalPid", present & set(OPERATIONS))
    is_lost = f"{_noted('launching', 'globalTid')} AND NOT {_noted('left', 'globalTid')}"
    database.execute(f"DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME AS row WHERE {is_lost}")  # noqa: S608 - our own query


def _drop_unlaunched(database: sqlite3.Connection, present: set[str]) -> None:
    """Drop operations and events whose call lies before the first step: without it they would look like a loss."""
    if "CUPTI_ACTIVITY_KIND_RUNTIME" not in present:
        return
    _note(database, "calls", "globalTid", {"CUPTI_ACTIVITY_KIND_RUNTIME"})
    for table in present & {*FAMILIES["CUDA"], *EVENTS} - {"CUPTI_ACTIVITY_KIND_RUNTIME"}:
        database.execute(f'DELETE FROM "{table}" AS row WHERE NOT {_noted("calls", "globalPid")}')  # noqa: S608 - listed


def _note(database: sqlite3.Connection, name: str, owner: str, tables: set[str]) -> None:
    """Note process and correlation id of each row of some tables, in a temporary table that is quick to search.

    ``NOT IN`` a query of two columns is not: SQLite goes through all its rows each time.
    """
    database.execute(
        f"CREATE TEMP TABLE {name} (process INTEGER, correlation INTEGER, PRIMARY KEY (process, correlation)) "
        "WITHOUT ROWID"
    )
    for table in sorted(tables):
        database.execute(
            f'INSERT OR IGNORE INTO {name} SELECT {owner} >> {PROCESS_BITS}, correlationId FROM "{table}" '  # noqa: S608
            f"WHERE {owner} IS NOT NULL AND correlationId IS NOT NULL"
        )


def _noted(name: str, owner: str) -> str:
    """Return SQL for whether a temporary table has the process and the correlation id of a row."""
    process = f"row.{owner} >> {PROCESS_BITS}"
    return f"EXISTS (SELECT 1 FROM {name} n WHERE n.process = {process} AND n.correlation = row.correlationId)"  # noqa: S608


def _drop_texts(database: sqlite3.Connection, present: set[str]) -> None:
    """Drop the texts that no row refers to any more."""
    columns = []
    for table in sorted(present - {"StringIds"}):
        names = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
        wanted = [name for name in names if name in {"nameId", "textId", "demangledName", "shortName", "mangledName"}]
        columns += [f'SELECT "{name}" FROM "{table}" WHERE "{name}" IS NOT NULL' for name in wanted]  # noqa: S608 - its own
    if columns:
        database.execute(f"DELETE FROM StringIds WHERE id NOT IN ({' UNION '.join(columns)})")  # noqa: S608 - as above


def _count_again(database: sqlite3.Connection, present: set[str]) -> None:
    """Set nsys's own event counts: the first of each family to the number of remaining rows, those after it to 0."""
    if "DIAGNOSTIC_EVENT" not in present:
        return
    counted_already: set[str] = set()
    for row, text in database.execute("SELECT rowid, text FROM DIAGNOSTIC_EVENT").fetchall():
        match = _COUNTED.search(text or "")
        if match is None:
            continue
        tables = present & set(FAMILIES[match[2]])
        left = sum(database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in tables)  # noqa: S608
        left = 0 if match[2] in counted_already else left
        counted_already.add(match[2])
        changed = f"{text[: match.start()]}{match[1]}{left}{text[match.end() :]}"
        database.execute("UPDATE DIAGNOSTIC_EVENT SET text = ? WHERE rowid = ?", (changed, row))
