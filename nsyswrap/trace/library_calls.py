"""Calls of MPI, UCX and OpenACC that nsys records in tables of their own, or MPI as ranges of an NVTX domain."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nsyswrap.trace import queries
from nsyswrap.trace.connection import Export, Lookup

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
