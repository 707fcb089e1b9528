"""Samples of Python's stack. They are NVTX marks with a JSON payload in which functions and files are string ids."""

import html
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap.trace import queries, schema
from nsyswrap.trace.connection import Export, Lookup
from nsyswrap.trace.payloads import python_sample
from nsyswrap.trace.tables import Frame

DOMAIN = "Python Periodic Sampling"
# Function id, file id and line of each frame, innermost first.
Ids = tuple[tuple[int, int, int], ...]


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
