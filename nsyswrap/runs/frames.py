"""The history as pandas data frames, and as Parquet files of the same rows."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

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
    SmallInteger,
    cast,
    func,
    select,
)

from nsyswrap.runs.database import HistoryError, check_rows, reading
from nsyswrap.runs.run import Program
from nsyswrap.runs.tables import (
    ACCOUNT_COLUMNS,
    ACCOUNTS,
    FACT_COLUMNS,
    FACTS,
    FINDING_COLUMNS,
    FINDINGS,
    RUN_COLUMNS,
    RUNS,
    is_of,
)

# Rows that are in memory at once while Parquet is written.
ROWS_AT_ONCE = 200_000

_PER_GPU = func.nullif(RUNS.c.step_count * RUNS.c.gpu_count, 0)
_STEP_NS = cast(ACCOUNTS.c.total_ns, Double) / _PER_GPU
_LOST_STEP_NS = cast(FINDINGS.c.lost_ns, Double) / func.nullif(RUNS.c.step_count, 0)
_SELECTS: Mapping[str, tuple[Any, ...]] = {
    "runs": RUN_COLUMNS,
    "accounts": (RUNS.c.run_id, *ACCOUNT_COLUMNS, _STEP_NS.label("step_ns")),
    "findings": (RUNS.c.run_id, *FINDING_COLUMNS, _LOST_STEP_NS.label("lost_step_ns")),
    "facts": (RUNS.c.run_id, *FACT_COLUMNS),
}
_OF_SUMS = {
    "step_ns": "time per step, mean over GPUs, ns; missing without steps",
    "lost_step_ns": "time lost per step, ns; missing without steps",
}
COLUMNS: Mapping[str, Mapping[str, str]] = {
    name: {each.name: getattr(each, "doc", None) or _OF_SUMS[each.name] for each in columns}
    for name, columns in _SELECTS.items()
}
"""What each column of each frame holds."""
_TABLES = {"accounts": ACCOUNTS, "findings": FINDINGS, "facts": FACTS}


Equal = Mapping[str, str | float | None]
"""Values that columns have, by name, such as ``{"section": "steps"}``."""
NO_VALUES: Equal = MappingProxyType({})


def frame(
    engine: Engine, name: str, program: Program | None = None, names: Sequence[str] = (), equal: Equal = NO_VALUES
) -> pd.DataFrame:
    """Return a table of the history as a data frame, the oldest run first; the database leaves out the rest.

    Args:
        engine: The database.
        name: A key of ``COLUMNS``.
        program: Which runs; None for all.
        names: Names of columns, in the order of the frame; empty for all.
        equal: Values that columns have.

    Raises:
        HistoryError: The history cannot be read, or the table has no such column.
    """
    of_table = {column.name: column for column in _SELECTS[name]}
    if unknown := [each for each in (*names, *equal) if each not in of_table]:
        raise HistoryError(f"the frame {name!r} has no column {unknown[0]!r}", hint=f"it has {', '.join(of_table)}")
    columns = tuple(of_table[each] for each in names) or _SELECTS[name]
    parts = list(_parts(engine, name, columns, program, equal))
    table = pa.concat_tables(parts) if parts else _schema(columns).empty_table()
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
            for part in _parts(engine, name, _SELECTS[name], program):
                writer.write_table(part.cast(schema))
                rows[name] += part.num_rows
    return rows


def _parts(
    engine: Engine, name: str, columns: Sequence[Any], program: Program | None, equal: Equal = NO_VALUES
) -> Iterator[pa.Table]:
    """Yield the rows of a table as Arrow, in parts."""
    schema = _schema(columns)
    with reading(engine) as connection:
        of_table = {column.name: column for column in _SELECTS[name]}
        # A column of a sum has a label, and a condition is about the sum itself.
        wanted = (getattr(of_table[key], "element", of_table[key]) == value for key, value in equal.items())
        query = select(*columns).where(is_of(program), *wanted)
        if name == "runs":
            query = query.order_by(RUNS.c.started_utc, RUNS.c.run_id)
        else:
            query = query.join_from(_TABLES[name], RUNS).order_by(*_TABLES[name].primary_key.columns)
        for rows in connection.execution_options(yield_per=ROWS_AT_ONCE).execute(query).partitions():
            check_rows(query, rows)
            arrays = [pa.array(values, each.type) for values, each in zip(zip(*rows, strict=True), schema, strict=True)]
            yield pa.table(arrays, schema)


def _schema(columns: Sequence[Any]) -> pa.Schema:
    return pa.schema([(column.name, _type(column)) for column in columns])


def _type(column: ColumnElement[Any]) -> pa.DataType:
    if isinstance(column.type, Boolean):
        return pa.bool_()
    if isinstance(column.type, Integer | BigInteger | SmallInteger):
        return pa.int64()
    return pa.float64() if isinstance(column.type, Double) else pa.string()
