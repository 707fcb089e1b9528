"""The payloads of NVTX events that may stay in a redacted export: Python samples, and numbers that NCCL records.

A payload is JSON. It is parsed, and only known fields with values of a known form are written again. Everything else is
dropped.
"""

import html
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.trace import queries, schema
from nsyswrap.trace.connection import Export, Lookup
from nsyswrap.trace.tables import Frame

_PROCESS_MASK = ~0xFFFFFF

_SAMPLE_DOMAINS = ("Python Periodic Sampling", "Python Backtrace on CUDA")
_FRAME = ("Function", "File", "Line")
_SAMPLE_STATE = re.compile(r"[A-Za-z ]{0,40}", re.ASCII)
_LARGEST_ID = 1 << 63

NCCL = "NCCL"
_INT32 = range(-(1 << 31), 1 << 31)
_UINT64 = range(1 << 64)
# The fields of NCCL's ranges and the values that each may have. Source: NVIDIA/nccl,
# src/include/nvtx_payload_schemas.h and src/misc/nvtx.cc, version 2.27.
NCCL_FIELDS: Mapping[str, range] = {
    "NCCL communicator ID": _UINT64,
    "Parent NCCL communicator ID": _UINT64,
    "No. of ranks": _INT32,
    "No. of devices": _INT32,
    "Rank": _INT32,
    "Peer rank": _INT32,
    "CUDA device": _INT32,
    "Root": _INT32,
    "Color": _INT32,
    "Key": _INT32,
    "num_exclude": _INT32,
    "Message size [bytes]": _UINT64,
}
NCCL_REDUCTION = "Reduction operation"
NCCL_REDUCTIONS = frozenset({"Sum", "Product", "Max", "Min", "Avg"})


DOMAIN = "Python Periodic Sampling"
# Function id, file id and line of each frame, innermost first.
Ids = tuple[tuple[int, int, int], ...]


class PythonSample(NamedTuple):
    """A sample of Python's stack.

    Attributes:
        text: The payload, with known fields only.
        frames: String id of the function, string id of the file, and line of each frame.
    """

    text: str
    frames: tuple[tuple[int, int, int], ...]


def python_sample(raw: bytes | None) -> PythonSample | None:
    """Return a sample of Python's stack from its payload; None where the payload is anything else."""
    try:
        ((domain, sample),) = json.loads(raw or b"").items()
        frames = tuple((int(frame["Function"]), int(frame["File"]), int(frame["Line"])) for frame in sample["Frames"])
        state, number = str(sample["Thread state"]), int(sample["Thread state ID"])
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None
    known = domain in _SAMPLE_DOMAINS and _SAMPLE_STATE.fullmatch(state) and number in _UINT64
    if not known or any(not 0 <= part < _LARGEST_ID for frame in frames for part in frame):
        return None
    stack = [dict(zip(_FRAME, frame, strict=True)) for frame in frames]
    kept = {"Thread state ID": number, "Thread state": state, "Frames count": len(stack), "Frames": stack}
    return PythonSample(_written({domain: kept}), frames)


def nccl_payload(raw: bytes | None) -> str | None:
    """Return the known fields of the payload of an NCCL range; None where it has none."""
    try:
        fields = json.loads(raw or b"").items()
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    kept = {name: value for name, value in fields if _is_nccl_field(name, value)}
    return _written(kept) if kept else None


def _is_nccl_field(name: str, value: object) -> bool:
    if name == NCCL_REDUCTION and isinstance(value, str):
        return value in NCCL_REDUCTIONS
    # A reduction that a program defines is a number.
    allowed = _INT32 if name == NCCL_REDUCTION else NCCL_FIELDS.get(name)
    # type() and not isinstance(): True and False are instances of int.
    return allowed is not None and type(value) is int and value in allowed


def domain_rows(export: Export) -> list[tuple[Any, ...]]:
    """Return thread, number, text and text id of each NVTX domain; nothing where nsys recorded no domains."""
    if not export.has(schema.NVTX, "globalTid", "domainId", "text", "textId", "eventType"):
        return []
    return export.rows(queries.domains())


def nccl_domains(export: Export) -> frozenset[tuple[int, int]]:
    """Return the NVTX domains of NCCL: global id of the process and number of the domain."""
    rows = domain_rows(export)
    ids = {text_id for *_, text, text_id in rows if text is None and isinstance(text_id, int)}
    names = dict(export.rows(queries.strings(ids))) if ids else {}
    named = (row[:2] for row in rows if (names.get(row[3]) if row[2] is None else row[2]) == NCCL)
    return frozenset(
        (thread & _PROCESS_MASK, domain)
        for thread, domain in named
        if isinstance(thread, int) and isinstance(domain, int)
    )


def is_of_domain(domains: frozenset[tuple[int, int]], thread: object, domain: object) -> bool:
    """Return whether an event's thread and domain number name one of these domains."""
    return isinstance(thread, int) and isinstance(domain, int) and (thread & _PROCESS_MASK, domain) in domains


def _written(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def read_samples(
    export: Export, lookup: Lookup
) -> tuple[dict[str, npt.NDArray[Any]], tuple[tuple[Frame, ...], ...], int]:
    """Return the samples as columns, the stack of each stack code, and how many samples could not be read.

    Args:
        export: The export; samples without their payload do not count.
        lookup: Function from string ids to their texts.
    """
    rows = _rows(export)
    codes, texts = pd.factorize(np.array([text for _, _, text in rows], dtype=object))
    # A waiting thread repeats the same payload, so each distinct payload is parsed once.
    parsed = [python_sample(text.encode()) for text in texts]
    stacks = [sample.frames if (sample := parsed[code]) else () for code in codes]
    good = [index for index, stack in enumerate(stacks) if stack]
    order = sorted(good, key=lambda index: rows[index][:2])
    distinct = {stack: code for code, stack in enumerate(dict.fromkeys(stacks[index] for index in order))}
    columns: dict[str, npt.NDArray[Any]] = {
        "start": np.array([rows[index][0] for index in order], np.int64),
        "thread": np.array([rows[index][1] for index in order], np.int64),
        "stack": np.array([distinct[stacks[index]] for index in order], np.int32),
    }
    return columns, _frames(list(distinct), lookup), len(rows) - len(good)


def _rows(export: Export) -> list[tuple[int, int, str]]:
    """Return time, thread and payload of each mark that is a sample of Python."""
    if not export.has(schema.NVTX, "start", "globalTid", "eventType", "jsonText"):
        return []
    return [
        (export.whole(start, schema.NVTX, "start"), export.whole(thread, schema.NVTX, "globalTid"), text)
        for start, thread, text in export.rows(queries.payloads())
        if text.startswith('{"' + DOMAIN)
    ]


def _frames(stacks: list[Ids], lookup: Lookup) -> tuple[tuple[Frame, ...], ...]:
    found = lookup(sorted({part for stack in stacks for frame in stack for part in frame[:2]}))
    # nsys writes "&lt;module&gt;" for "<module>".
    texts = {key: html.unescape(text) for key, text in found.items()}
    names = {
        frame: Frame(texts.get(frame[0], f"[id {frame[0]}]"), texts.get(frame[1], f"[id {frame[1]}]"), frame[2])
        for frame in {frame for stack in stacks for frame in stack}
    }
    return tuple(tuple(names[frame] for frame in stack) for stack in stacks)
