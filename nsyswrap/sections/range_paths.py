"""Kernels by what launched them: the innermost operator of PyTorch, and the path of the program's own ranges."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsyswrap import tables
from nsyswrap.compiled.rows import taken
from nsyswrap.intervals import Indices
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import of_library
from nsyswrap.loop.range_names import of_operators, plain_names
from nsyswrap.loop.range_projection import Pairs
from nsyswrap.tables import array, coded

# Between the parts of a path, as in a path of files.
SEPARATOR = " / "
_OPERATORS = ["operator", "name", "count", "total_ns"]
_MODULES = ["module", "count", "total_ns", "self_ns"]


def operators(context: TraceContext, pairs: Pairs) -> pd.DataFrame:
    """Return the kernels of each operator: the innermost one around their launch, the most time first.

    Args:
        context: The trace and its operations.
        pairs: Operations with the ranges around their launch, from the outermost to the innermost of each operation.
    """
    ranges = context.trace[tables.RANGES]
    found = _of_kernels(context, [pairs], of_operators(ranges))
    if found.empty:
        return _empty(_OPERATORS)
    # Of the ranges of an operation, the last one is the innermost.
    last = found[~found.duplicated("operation", keep="last")]
    names = plain_names(ranges)
    kernels = coded(context.trace[tables.KERNELS], "name_id")[context.operations.row[last["operation"]]]
    frame = pd.DataFrame({"text": last["text"].to_numpy(), "kernel": kernels, "ns": _length(context, last)})
    frame["operator"] = frame["text"].map(dict(enumerate(names)))
    grouped = frame.groupby(["operator", "kernel"], as_index=False).agg(count=("ns", "size"), total_ns=("ns", "sum"))
    grouped["name"] = [context.trace.text(int(one)) for one in grouped["kernel"]]
    merged = grouped.groupby(["operator", "name"], as_index=False)[["count", "total_ns"]].sum()
    return _ordered(merged, _OPERATORS)


def modules(context: TraceContext, *parts: Pairs) -> pd.DataFrame:
    """Return the kernels inside each path of the program's ranges that are neither steps nor phases nor operators.

    Where modules are marked, such as by a range around each ``forward``, a path is that of a module. ``total_ns`` has
    the kernels of all below it, ``self_ns`` only those that no range below it holds.

    Args:
        context: The trace and its operations.
        parts: Operations with the ranges around their launch, from the outermost to the innermost of each operation.
    """
    ranges = context.trace[tables.RANGES]
    own = ~of_operators(ranges) & ~of_library(ranges)
    own[context.phases.marked.index.to_numpy()] = False
    own &= ~np.isin(array(ranges, "start"), array(context.steps.frame, "start"))
    found = _of_kernels(context, parts, own)
    if found.empty:
        return _empty(_MODULES)
    names = plain_names(ranges)
    rows: dict[tuple[str, ...], list[int]] = {}
    for path, count, ns in _by_path(context, found):
        words = tuple(names[code] for code in path)
        for depth in range(1, len(words) + 1):
            row = rows.setdefault(words[:depth], [0, 0, 0])
            row[0] += count
            row[1] += ns
            row[2] += ns if depth == len(words) else 0
    frame = pd.DataFrame([(SEPARATOR.join(path), *row) for path, row in rows.items()], columns=_MODULES)
    return _ordered(frame, _MODULES)


def _of_kernels(context: TraceContext, parts: Sequence[Pairs], wanted: npt.NDArray[np.bool_]) -> pd.DataFrame:
    """Return kernels with those ranges around their launch that are wanted: operation and code of the text."""
    codes = context.trace[tables.RANGES]["text"].cat.codes.to_numpy()
    kept = [(taken(context.operations.table, each.operation) == 0) & taken(wanted, each.range) for each in parts]
    chosen = [
        Pairs(taken(each.operation, some), taken(each.range, some)) for each, some in zip(parts, kept, strict=True)
    ]
    operation, rows = (np.concatenate(column) for column in zip(*chosen, strict=True))
    frame = pd.DataFrame({"operation": operation, "text": codes[rows]}, copy=False)
    return frame.sort_values("operation", kind="stable", ignore_index=True)


def _by_path(context: TraceContext, found: pd.DataFrame) -> list[tuple[tuple[int, ...], int, int]]:
    """Return each path of texts with the number of its kernels and their time in ns."""
    operation, text = found["operation"].to_numpy(), found["text"].to_numpy()
    first = np.flatnonzero(np.diff(operation, prepend=-1))
    depth = np.arange(len(operation)) - np.repeat(first, np.diff(np.append(first, len(operation))))
    place = np.cumsum(np.diff(operation, prepend=-1) != 0) - 1
    code = np.zeros(len(first), np.int64)
    paths: list[tuple[int, ...]] = [()]
    for level in range(int(depth.max()) + 1):
        here = depth == level
        keys = code[place[here]] << 32 | text[here]
        new, unique = pd.factorize(keys)
        code[place[here]] = new + len(paths)
        paths += [(*paths[key >> 32], key & 0xFFFFFFFF) for key in unique.tolist()]
    frame = pd.DataFrame({"path": code, "ns": _length(context, found.iloc[first])})
    sums = frame.groupby("path")["ns"].agg(["size", "sum"])
    return [(paths[at], int(count), int(ns)) for at, count, ns in sums.itertuples()]


def _length(context: TraceContext, found: pd.DataFrame) -> Indices:
    at = found["operation"].to_numpy()
    length: Indices = context.operations.end[at] - context.operations.start[at]
    return length


def _empty(columns: list[str]) -> pd.DataFrame:
    return pd.DataFrame({name: np.empty(0, kind) for name, kind in _kinds(columns).items()})


def _kinds(columns: list[str]) -> dict[str, str]:
    return {name: "int64" if name in {"count", "total_ns", "self_ns"} else "object" for name in columns}


def _ordered(frame: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    kinds = _kinds(columns)
    keys = ["total_ns", *(name for name in columns if kinds[name] == "object")]
    ascending = [False, *([True] * (len(keys) - 1))]
    return frame[columns].astype(kinds).sort_values(keys, ascending=ascending, ignore_index=True)
