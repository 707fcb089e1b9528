"""Kernels by the path of the program's own ranges around their launch."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from nsyswrap.base.intervals import Indices
from nsyswrap.base.rows import taken
from nsyswrap.loop.context import TraceContext
from nsyswrap.loop.phase_detection import of_library
from nsyswrap.loop.range_names import of_operators, plain_names
from nsyswrap.loop.range_projection import Pairs
from nsyswrap.trace import tables
from nsyswrap.trace.tables import array

# Between the parts of a path, as in a path of files.
SEPARATOR = " / "
_MODULES = ["module", "count", "total_ns", "self_ns"]


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
    codes = context.trace[tables.RANGES]["text"].cat.codes.to_numpy()
    kept = [(taken(context.operations.table, each.operation) == 0) & taken(own, each.range) for each in parts]
    chosen = [
        Pairs(taken(each.operation, some), taken(each.range, some)) for each, some in zip(parts, kept, strict=True)
    ]
    operation, rows = (np.concatenate(column) for column in zip(*chosen, strict=True))
    frame = pd.DataFrame({"operation": operation, "text": codes[rows]}, copy=False)
    found = frame.sort_values("operation", kind="stable", ignore_index=True)
    if found.empty:
        return pd.DataFrame({name: np.empty(0, kind) for name, kind in _kinds(_MODULES).items()})
    return _ordered(_by_path(found, _length(context, found), plain_names(ranges)), _MODULES)


def _by_path(found: pd.DataFrame, length: Indices, names: Sequence[str]) -> pd.DataFrame:
    """Return each path of names with its kernels: the columns of ``_MODULES``.

    Paths form a tree, level by level, so that a node comes after the one above it::

        a             0
        a / b         1  above: 0
        c             2
        a / b / d     3  above: 1

    Args:
        found: Operation and code of the text of each range around its launch, sorted by operation, the outermost first.
        length: Time of the operation of each row in ns.
        names: Name of each text.
    """
    operation = found["operation"].to_numpy()
    name_codes, words = pd.factorize(np.array(names, object))
    name = name_codes[found["text"].to_numpy()]
    first = np.flatnonzero(np.diff(operation, prepend=-1))
    sizes = np.diff(np.append(first, len(operation)))
    depth = np.arange(len(operation)) - np.repeat(first, sizes)
    place = np.repeat(np.arange(len(first)), sizes)
    by_depth = np.argsort(depth, kind="stable")
    node = np.full(len(first), -1, np.int64)
    paths: list[str] = []
    above: list[int] = []
    for here in np.split(by_depth, np.flatnonzero(np.diff(depth[by_depth])) + 1):
        new, unique = pd.factorize((node[place[here]] + 1) << 32 | name[here])
        node[place[here]] = new + len(paths)
        above += ((unique >> 32) - 1).tolist()
        for up, word in zip(((unique >> 32) - 1).tolist(), (unique & 0xFFFFFFFF).tolist(), strict=True):
            paths.append(f"{paths[up]}{SEPARATOR}{words[word]}" if up >= 0 else words[word])
    count = np.bincount(node, minlength=len(paths))
    own = np.zeros(len(paths), np.int64)
    np.add.at(own, node, length[first])
    total = own.copy()
    for low in range(len(paths) - 1, -1, -1):
        if above[low] >= 0:
            count[above[low]] += count[low]
            total[above[low]] += total[low]
    return pd.DataFrame({"module": paths, "count": count, "total_ns": total, "self_ns": own})


def _length(context: TraceContext, found: pd.DataFrame) -> Indices:
    at = found["operation"].to_numpy()
    length: Indices = context.operations.end[at] - context.operations.start[at]
    return length


def _kinds(columns: list[str]) -> dict[str, str]:
    return {name: "int64" if name in {"count", "total_ns", "self_ns"} else "object" for name in columns}


def _ordered(frame: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    kinds = _kinds(columns)
    keys = ["total_ns", *(name for name in columns if kinds[name] == "object")]
    ascending = [False, *([True] * (len(keys) - 1))]
    return frame[columns].astype(kinds).sort_values(keys, ascending=ascending, ignore_index=True)
