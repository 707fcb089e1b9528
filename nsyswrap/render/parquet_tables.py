"""The events of a capture as Arrow tables for Parquet; names are dictionary columns, so each is stored once."""

from collections.abc import Mapping

import pandas as pd
import pyarrow as pa

from nsyswrap.model import Report
from nsyswrap.timeline.event_frames import COLUMNS


def arrow_tables(report: Report, frames: Mapping[str, pd.DataFrame]) -> dict[str, pa.Table]:
    """Return each frame as a table, with a description of each column and the origin of the table in its metadata."""
    window = report.window
    about = {
        "capture": report.capture.name,
        "window": window.label,
        "window_start_ns": str(window.start_ns),
        "window_end_ns": str(window.end_ns),
    }
    return {key: _table(frame, COLUMNS[key], about) for key, frame in frames.items()}


def _table(frame: pd.DataFrame, columns: Mapping[str, str], about: Mapping[str, str]) -> pa.Table:
    plain = pa.Table.from_pandas(frame, preserve_index=False)
    fields = [plain.schema.field(name).with_metadata({"description": columns[name]}) for name in columns]
    return plain.select(list(columns)).cast(pa.schema(fields)).replace_schema_metadata(about)
