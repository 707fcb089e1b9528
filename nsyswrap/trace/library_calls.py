"""Calls of MPI, UCX and OpenACC that nsys records in tables of their own, or MPI as ranges of an NVTX domain."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.trace import queries, schema, tables
from nsyswrap.trace.connection import Export, Lookup
from nsyswrap.trace.payloads import is_of_domain, nccl_domains, nccl_payload

MPI = "MPI"
# Tables with the id of the call's name as text. MPI_Wait has a row for each of its requests, all with the same times.
_NAMED = (
    *("MPI_P2P_EVENTS", "MPI_COLLECTIVES_EVENTS", "MPI_START_WAIT_EVENTS", "MPI_OTHER_EVENTS"),
    *("UCP_SUBMIT_EVENTS", "UCP_PROGRESS_EVENTS", "UCP_EVENTS"),
)
# What each kind of event of OpenACC's runtime is called here. Source: CUpti_OpenAccEventKind in cupti_activity.h.
_OPENACC_KINDS = (
    *("device init", "device shutdown", "runtime shutdown", "enqueue launch", "enqueue upload", "enqueue download"),
    *("wait", "implicit wait", "compute construct", "update", "enter data", "exit data", "create", "delete"),
    *("alloc", "free"),
)
OPENACC_NAMES = {number: f"OpenACC {name}" for number, name in enumerate(_OPENACC_KINDS, start=1)}
_OPENACC = tuple(f"CUPTI_ACTIVITY_KIND_OPENACC_{kind}" for kind in ("DATA", "LAUNCH", "OTHER"))

Row = tuple[int, int, int, str]


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


class LibraryCalls(NamedTuple):
    """The calls of libraries.

    Attributes:
        columns: Columns of ``tables.LIBRARY_CALLS``, not sorted.
        strings: Text of each id in the column ``name_id``: negative, since they are no ids of the export.
    """

    columns: dict[str, npt.NDArray[Any]]
    strings: dict[int, str]


def read_library_calls(export: Export, lookup: Lookup, ranges: Mapping[str, Any]) -> LibraryCalls:
    """Return the calls of MPI, UCX and OpenACC that ended, each once.

    Args:
        export: The export.
        lookup: Function from string ids to their texts.
        ranges: Columns of the NVTX ranges, with their domains; may be empty.
    """
    rows = sorted({*_named(export, lookup), *_openacc(export), *_marked(ranges)})
    names = sorted({name for *_, name in rows})
    number = {name: -2 - at for at, name in enumerate(names)}
    columns = {
        name: np.array([row[at] for row in rows], np.int64) for at, name in enumerate(("start", "end", "thread"))
    }
    columns["name_id"] = np.array([number[row[3]] for row in rows], np.int64)
    return LibraryCalls(columns, {code: name for name, code in number.items()})


def _named(export: Export, lookup: Lookup) -> Iterator[Row]:
    """Yield the calls of MPI and UCX."""
    columns = ("start", "end", "globalTid", "textId")
    for table in _NAMED:
        if not export.has(table, *columns):
            continue
        rows = [row for row in export.rows(queries.columns_of(table, columns)) if _is_whole(row)]
        texts = lookup(sorted({row[3] for row in rows}))
        yield from ((*row[:3], texts.get(row[3], table.partition("_")[0])) for row in rows)


def _openacc(export: Export) -> Iterator[Row]:
    """Yield what the runtime of OpenACC did, named by its kind."""
    columns = ("start", "end", "globalTid", "eventKind")
    for table in _OPENACC:
        if export.has(table, *columns):
            for row in export.rows(queries.columns_of(table, columns)):
                if _is_whole(row) and row[3] in OPENACC_NAMES:
                    yield (*row[:3], OPENACC_NAMES[row[3]])


def _marked(ranges: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the calls of MPI that are ranges of its NVTX domain."""
    if not ranges or MPI not in ranges["domain"].categories:
        return
    mine = np.flatnonzero(np.asarray(ranges["domain"] == MPI) & (ranges["end_thread"] == 0))
    times = ([int(each) for each in ranges[name][mine]] for name in ("start", "end", "thread"))
    yield from zip(*times, (str(each) for each in ranges["text"][mine]), strict=True)


def _is_whole(row: tuple[Any, ...]) -> bool:
    """Return whether a row has whole numbers only, so that its call began and ended on a known thread."""
    return all(isinstance(each, int) for each in row)


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
