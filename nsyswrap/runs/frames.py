"""The history as pandas data frames, and as Parquet files of the same rows."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Double,
    Engine,
    Integer,
    Select,
    SmallInteger,
    cast,
    func,
    select,
)

from nsyswrap.runs.checked_rows import check_rows
from nsyswrap.runs.database import HistoryError, reading
from nsyswrap.runs.run import Program
from nsyswrap.runs.select import is_of
from nsyswrap.runs.tables import (
    ACCOUNT_COLUMNS,
    ACCOUNTS,
    FACT_COLUMNS,
    FACTS,
    FINDING_COLUMNS,
    FINDINGS,
    RUN_COLUMNS,
    RUNS,
)

# Rows that are in memory at once while Parquet is written.
ROWS_AT_ONCE = 200_000

_RUN_ID = {"run_id": "id of the run"}
COLUMNS: Mapping[str, Mapping[str, str]] = {
    "runs": {
        **_RUN_ID,
        "started_utc": "start of the capture in UTC; empty if unknown",
        "added_utc": "when it was added, in UTC",
        "program": "the script, or the program where there is none",
        "arguments": "the other words of the command",
        "gpu": "name of the GPUs; empty without a GPU",
        "gpu_count": "GPUs that ran something",
        "ranks": "ranks of the job",
        "rank": "the rank that the report is about; empty for all",
        "host": "kind of the machine: processor, cores, memory; empty if unknown",
        "commit": "git commit of the program; empty if unknown",
        "committed_s": "when it was committed, seconds since 1970; missing if unknown",
        "is_dirty": "whether tracked files differed from the commit; missing if unknown",
        "driver": "version of the NVIDIA driver",
        "cuda": "CUDA version that the driver supports",
        "torch": "version of torch",
        "python": "version of Python",
        "nsys": "version of nsys",
        "nsyswrap": "version of nsyswrap",
        "window": "label of the report's window",
        "window_ns": "length of the window, ns",
        "verdict": "verdict of the report",
        "verdict_rule": "rule of its first finding; empty without one",
        "exit_code": "exit code of the program; missing if unknown",
        "wall_ns": "time that the program took, ns; missing if unknown",
        "folder": "folder of the report inside the project; empty where it is elsewhere",
        "step_count": "measured steps; 0 without steps",
        "mean_ns": "time per step, start to start, ns",
        "median_ns": "median length of the steps, ns",
        "p05_ns": "5 % of the steps are at most so long, ns",
        "p25_ns": "25 % of the steps are at most so long, ns",
        "p75_ns": "75 % of the steps are at most so long, ns",
        "p95_ns": "95 % of the steps are at most so long, ns",
        "stddev_ns": "standard deviation of the lengths of the steps, ns",
        "cpu_share": "share of the time in which no kernel runs",
    },
    "accounts": {
        **_RUN_ID,
        "kind": "ledger, idle or wait",
        "name": "row of the ledger, cause of idle time, or the late rank",
        "rule": "rule of the finding it belongs to; empty in the ledger",
        "phase": "phase; empty in the ledger",
        "total_ns": "time in the window, sum over GPUs, ns",
        "step_ns": "time per step, mean over GPUs, ns; missing without steps",
    },
    "findings": {
        **_RUN_ID,
        "position": "0 for the first finding of the report",
        "rule": "rule of the finding",
        "severity": "note, warning or problem",
        "headline": "what is wrong",
        "device_id": "its GPU; missing for all",
        "lost_ns": "time lost in the window, ns",
        "saving_low_ns": "least predicted saving in the window, ns; missing without a prediction",
        "saving_point_ns": "predicted saving in the window, ns; missing without a prediction",
        "saving_high_ns": "largest predicted saving in the window, ns; missing without a prediction",
        "lost_step_ns": "time lost per step, ns; missing without steps",
    },
    "facts": {
        **_RUN_ID,
        "section": "key of the section",
        "label": "label of the fact",
        "value": "its number; missing for a text",
        "text": "its text; missing for a number",
        "unit": "ns, share, count, bytes or text",
    },
}
"""What each column of each frame holds."""

_PER_GPU = func.nullif(RUNS.c.step_count * RUNS.c.gpu_count, 0)
_SELECTS: Mapping[str, tuple[Any, ...]] = {
    "runs": RUN_COLUMNS,
    "accounts": (RUNS.c.run_id, *ACCOUNT_COLUMNS, (cast(ACCOUNTS.c.total_ns, Double) / _PER_GPU).label("step_ns")),
    "findings": (
        RUNS.c.run_id,
        *FINDING_COLUMNS,
        (cast(FINDINGS.c.lost_ns, Double) / func.nullif(RUNS.c.step_count, 0)).label("lost_step_ns"),
    ),
    "facts": (RUNS.c.run_id, *FACT_COLUMNS),
}
_TABLES = {"accounts": ACCOUNTS, "findings": FINDINGS, "facts": FACTS}


class FrameQuery(NamedTuple):
    """What is read of a table: the database leaves out the rest.

    Attributes:
        program: Which runs; None for all.
        columns: Names of columns, in the order of the frame; empty for all.
        equal: Values that columns have, by name, such as ``{"section": "steps"}``.
    """

    program: Program | None = None
    columns: Sequence[str] = ()
    equal: Mapping[str, str | float | None] = {}


def frame(engine: Engine, name: str, wanted: FrameQuery | None = None) -> pd.DataFrame:
    """Return a table of the history as a data frame, the oldest run first.

    Args:
        engine: The database.
        name: A key of ``COLUMNS``.
        wanted: What is read of it; None for all.

    Raises:
        HistoryError: The history cannot be read.
    """
    chosen = wanted or FrameQuery()
    parts = list(_parts(engine, name, chosen))
    table = pa.concat_tables(parts) if parts else _schema(_columns(name, chosen)).empty_table()
    read: pd.DataFrame = table.to_pandas(types_mapper=_MISSING.get)
    return read


# Columns in which a value may be missing stay whole numbers and truth values.
_MISSING: Mapping[pa.DataType, Any] = {
    pa.int64(): pd.Int64Dtype(),
    pa.bool_(): pd.BooleanDtype(),
}


def write_parquet(engine: Engine, folder: Path, program: Program | None = None) -> dict[str, int]:
    """Write each table to a Parquet file in a folder, and return the rows of each.

    Raises:
        HistoryError: The history cannot be read.
        OSError: A file cannot be written.
    """
    rows = {}
    for name in COLUMNS:
        schema = pa.schema(
            [each.with_metadata({"description": COLUMNS[name][each.name]}) for each in _schema(_SELECTS[name])]
        )
        with pq.ParquetWriter(folder / f"{name}.parquet", schema, compression="zstd") as writer:
            rows[name] = 0
            for part in _parts(engine, name, FrameQuery(program)):
                writer.write_table(part.cast(schema))
                rows[name] += part.num_rows
    return rows


def _parts(engine: Engine, name: str, wanted: FrameQuery) -> Iterator[pa.Table]:
    """Yield the rows of a table as Arrow, in parts."""
    schema = _schema(_columns(name, wanted))
    with reading(engine) as connection:
        query = _query(name, wanted)
        for rows in connection.execution_options(yield_per=ROWS_AT_ONCE).execute(query).partitions():
            check_rows(query, rows)
            columns = zip(*rows, strict=True)
            yield pa.table([pa.array(values, each.type) for values, each in zip(columns, schema, strict=True)], schema)


def _columns(name: str, wanted: FrameQuery) -> tuple[Any, ...]:
    """Return the columns that are read.

    Raises:
        HistoryError: The table has no such column.
    """
    of_table = {column.name: column for column in _SELECTS[name]}
    unknown = [each for each in (*wanted.columns, *wanted.equal) if each not in of_table]
    if unknown:
        raise HistoryError(f"the frame {name!r} has no column {unknown[0]!r}", hint=f"it has {', '.join(of_table)}")
    return tuple(of_table[each] for each in wanted.columns) or _SELECTS[name]


def _query(name: str, wanted: FrameQuery) -> Select[Any]:
    of_table = {column.name: column for column in _SELECTS[name]}
    # A column of a sum has a label, and a condition is about the sum itself.
    equal = (getattr(of_table[key], "element", of_table[key]) == value for key, value in wanted.equal.items())
    query = select(*_columns(name, wanted)).where(is_of(wanted.program), *equal)
    if name == "runs":
        return query.order_by(RUNS.c.started_utc, RUNS.c.run_id)
    table = _TABLES[name]
    return query.join_from(table, RUNS).order_by(*table.primary_key.columns)


def _schema(columns: Sequence[Any]) -> pa.Schema:
    return pa.schema([(column.name, _type(column)) for column in columns])


def _type(column: ColumnElement[Any]) -> pa.DataType:
    """Return the Arrow type of a column."""
    if isinstance(column.type, Boolean):
        return pa.bool_()
    if isinstance(column.type, Integer | BigInteger | SmallInteger):
        return pa.int64()
    return pa.float64() if isinstance(column.type, Double) else pa.string()
