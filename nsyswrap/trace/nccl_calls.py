"""The calls of NCCL with communicator, rank and size, from the payloads of its NVTX ranges."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.trace import queries, schema, tables
from nsyswrap.trace.connection import Export, Lookup
from nsyswrap.trace.payloads import is_of_domain, nccl_domains, nccl_payload

COLUMNS = ("start", "end", "globalTid", "domainId", "text", "textId", "eventType", "jsonText")
UNKNOWN = -1
COMMUNICATOR = "NCCL communicator ID"
# Our columns and the fields of NCCL that they come from.
FIELDS: Mapping[str, str] = {
    "bytes": "Message size [bytes]",
    "rank": "Rank",
    "rank_count": "No. of ranks",
    "device": "CUDA device",
    "peer": "Peer rank",
}
# More bytes than any memory has. A size beyond it is not a size.
_LARGEST = 1 << 48
_SIGN, _MODULUS = 1 << 63, 1 << 64


def read_nccl_calls(export: Export, lookup: Lookup) -> dict[str, npt.NDArray[Any]]:
    """Return the calls of NCCL that have a payload, as the columns of ``tables.NCCL_CALLS``, by start."""
    rows = _rows(export)
    codes, payloads = pd.factorize(np.array([row[-1] for row in rows], dtype=object))
    parsed = [_fields(text) for text in payloads]
    texts = lookup(sorted({row[5] for row in rows if row[4] is None and isinstance(row[5], int)}))
    names = [str(row[4]) if row[4] is not None else texts.get(row[5], "") for row in rows]
    order = np.array(sorted(range(len(rows)), key=lambda at: rows[at][:3]), np.intp)
    columns: dict[str, npt.NDArray[Any]] = {
        name: np.array([row[at] for row in rows], np.int64)[order] for at, name in enumerate(("start", "end", "thread"))
    }
    for name in ("communicator", *FIELDS):
        values = np.array([each[name] for each in parsed], np.int64)
        columns[name] = (values[codes] if len(rows) else values).astype(tables.NCCL_CALLS.columns[name])[order]
    texts_of_rows: Any = pd.Categorical(np.array(names, dtype=object)[order])
    return {**columns, "name": texts_of_rows}


def _rows(export: Export) -> list[tuple[Any, ...]]:
    """Return the ranges in domains of NCCL that ended and have a payload."""
    if not export.has(schema.NVTX, *COLUMNS):
        return []
    domains = nccl_domains(export)
    if not domains:
        return []
    return [
        row
        for row in export.rows(queries.range_payloads())
        if is_of_domain(domains, row[2], row[3]) and all(isinstance(each, int) for each in row[:3])
    ]


def _fields(payload: str) -> dict[str, int]:
    """Return the numbers of one payload; those that it does not state are -1."""
    found: dict[str, Any] = json.loads(nccl_payload(payload.encode()) or "{}")
    numbers = {name: int(found.get(field, UNKNOWN)) for name, field in FIELDS.items()}
    communicator = int(found.get(COMMUNICATOR, UNKNOWN))
    return {
        **numbers,
        "bytes": numbers["bytes"] if numbers["bytes"] < _LARGEST else UNKNOWN,
        "communicator": communicator - _MODULUS if communicator >= _SIGN else communicator,
    }
