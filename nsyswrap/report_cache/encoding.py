"""A report as bytes and back.

Texts and single numbers are JSON; columns of numbers are compressed bytes behind it. Decoding calls nothing but the
types of a report, so a damaged file can raise an error but cannot run code.
"""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from nsyswrap.intervals import Window
from nsyswrap.model import (
    Capture,
    Fact,
    Finding,
    Gpu,
    KernelName,
    LongGap,
    Plan,
    PlannedChange,
    Report,
    Section,
    Session,
    Severity,
    StepTimes,
    TimelineData,
    TimelineItems,
    TimelineRow,
)
from nsyswrap.program_kind import Framework, ProgramKind

Array = npt.NDArray[Any]
Tree = dict[str, Any]

# The types that a report consists of.
_TYPES = {
    each.__name__: each
    for each in (
        *(Capture, Fact, Finding, Gpu, KernelName, LongGap, Plan, PlannedChange, Report, Section, Session),
        *(ProgramKind, StepTimes, TimelineData, TimelineItems, TimelineRow, Window),
    )
}
_ENUMS = {each.__name__: each for each in (Severity, Framework)}
_KIND, _MAPPING, _ARRAY, _FRAME, _FLOAT = "$", "mapping", "array", "frame", "float"
# A simulated change is needed to make the plan only; the report holds the plan.
_LEFT_OUT = frozenset({"what_if"})
# Kinds of numpy's types that arrays may have: truth values, whole numbers and floating point numbers.
_NUMBERS = "biuf"
_CODEC = "zstd"
# Of all arrays together. Source: ours; those of 50 million operations have 4 GB.
MOST_BYTES = 1 << 33


class CannotKeepError(ValueError):
    """The report holds a value that cannot be kept, or the bytes are no report."""


def encode(report: Report) -> bytes:
    """Return a report as bytes.

    Raises:
        CannotKeepError: It holds a value of another type than reports do.
    """
    arrays: list[Array] = []
    tree = _encoded(report, arrays)
    packed = [pa.compress(pa.py_buffer(each), codec=_CODEC, asbytes=True) for each in arrays]
    listed = [[each.dtype.str, list(each.shape), len(data)] for each, data in zip(arrays, packed, strict=True)]
    head = json.dumps({"arrays": listed, "report": tree}, separators=(",", ":"), allow_nan=False).encode()
    return b"".join([len(head).to_bytes(8, "little"), head, *packed])


def decode(data: memoryview, *, with_timeline: bool) -> Report:
    """Return the report in some bytes.

    Args:
        data: What ``encode`` returned.
        with_timeline: Whether to decode the timeline; None takes its place otherwise.

    Raises:
        CannotKeepError: The bytes are no report.
    """
    try:
        size = int.from_bytes(data[:8], "little")
        head = json.loads(bytes(data[8 : 8 + size]))
        tree = head["report"] if with_timeline else {**head["report"], "timeline": None}
        found = _Decoder(head["arrays"], data[8 + size :]).value(tree)
    except CannotKeepError:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError, OSError, pa.ArrowException) as error:
        raise CannotKeepError(f"no report: {error}") from error
    if not isinstance(found, Report):
        raise CannotKeepError("no report")
    return found


def _encoded(value: object, arrays: list[Array]) -> object:  # noqa: PLR0911 - one return a type
    """Return a value as JSON can hold it, and append its arrays."""
    if isinstance(value, tuple(_ENUMS.values())):
        return {_KIND: type(value).__name__, "value": str(value)}
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value) in {bool, int, str}:
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {_KIND: _FLOAT, "value": repr(value)}
    if isinstance(value, np.ndarray):
        return _encoded_array(value, arrays)
    if isinstance(value, pd.DataFrame):
        columns = [[str(name), _encoded_column(value[name], arrays)] for name in value.columns]
        return {_KIND: _FRAME, "rows": len(value), "columns": columns}
    if isinstance(value, Mapping):
        return {_KIND: _MAPPING, "value": {str(key): _encoded(each, arrays) for key, each in value.items()}}
    if type(value).__name__ in _TYPES:
        return {_KIND: type(value).__name__} | {n: _encoded(getattr(value, n), arrays) for n in _fields(type(value))}
    if type(value) in {tuple, list}:
        return [_encoded(each, arrays) for each in value]  # type: ignore[attr-defined]
    raise CannotKeepError(f"a {type(value).__name__} cannot be kept")


def _fields(kind: type) -> list[str]:
    """Return the names of the fields of a type of a report that are kept."""
    named = [each.name for each in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else kind._fields  # type: ignore[attr-defined]
    return [name for name in named if name not in _LEFT_OUT]


def _encoded_array(values: Array, arrays: list[Array]) -> Tree:
    if values.dtype.kind not in _NUMBERS:
        raise CannotKeepError(f"an array of {values.dtype} cannot be kept")
    arrays.append(np.ascontiguousarray(values))
    return {_KIND: _ARRAY, "at": len(arrays) - 1}


def _encoded_column(values: "pd.Series[Any]", arrays: list[Array]) -> Tree:
    """Return a column of a table: numbers as an array, categories as codes, all else as a list of values."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        categories = _encoded_column(pd.Series(values.cat.categories), arrays)
        codes = _encoded_array(values.cat.codes.to_numpy(), arrays)
        return {"dtype": "category", "codes": codes, "categories": categories, "ordered": bool(values.cat.ordered)}
    if isinstance(values.dtype, np.dtype) and values.dtype.kind in _NUMBERS:
        return {"dtype": values.dtype.str, "values": _encoded_array(values.to_numpy(), arrays)}
    if values.dtype != object:
        given = [None if missing else each for each, missing in zip(values.tolist(), values.isna(), strict=True)]
        return {"dtype": str(values.dtype), "values": _encoded(given, arrays)}
    return {"dtype": "object", "values": _encoded(values.tolist(), arrays)}


class _Decoder:
    """Decodes values.

    Args:
        listed: Type, shape and size in bytes of each array.
        data: The arrays.
    """

    def __init__(self, listed: Sequence[tuple[str, Sequence[int], int]], data: memoryview) -> None:
        self._places, begin, size = [], 0, 0
        for dtype, shape, stored in listed:
            kind = np.dtype(str(dtype))
            if kind.kind not in _NUMBERS or min(shape, default=0) < 0 or stored < 0:
                raise CannotKeepError("no array of numbers")
            raw = kind.itemsize * math.prod(shape)
            size += raw
            self._places.append((kind, tuple(map(int, shape)), data[begin : begin + stored], raw))
            begin += stored
        if size > MOST_BYTES or begin != len(data):
            raise CannotKeepError("arrays of a wrong size")

    def value(self, tree: object) -> Any:  # noqa: ANN401, PLR0911 - any value of a report, one return a type
        """Return the value of a part of the JSON."""
        if isinstance(tree, list):
            return tuple(map(self.value, tree))
        if not isinstance(tree, dict):
            return tree
        kind = tree[_KIND]
        if kind == _ARRAY:
            return self._array(tree)
        if kind == _FRAME:
            return self._frame(tree)
        if kind == _MAPPING:
            return {key: self.value(each) for key, each in tree["value"].items()}
        if kind in _ENUMS:
            return _ENUMS[kind](tree["value"])
        if kind == _FLOAT:
            return float(tree["value"])
        return _TYPES[kind](**{name: self.value(each) for name, each in tree.items() if name != _KIND})

    def _array(self, tree: Tree) -> Array:
        kind, shape, stored, raw = self._places[tree["at"]]
        data = pa.decompress(pa.py_buffer(stored), decompressed_size=raw, codec=_CODEC) if raw else b""
        return np.frombuffer(data, kind).reshape(shape)

    def _frame(self, tree: Tree) -> pd.DataFrame:
        columns = {name: self._column(column) for name, column in tree["columns"]}
        if any(len(each) != tree["rows"] for each in columns.values()):
            raise CannotKeepError("columns of different lengths")
        return pd.DataFrame(columns, index=range(tree["rows"]), copy=False)

    def _column(self, tree: Tree) -> Any:  # noqa: ANN401 - pandas has no public type for all its arrays
        values: Any
        if tree["dtype"] == "category":
            values = self._column(tree["categories"])
            # Without its type, pandas would guess one.
            categories = pd.Index(values, dtype=values.dtype)
            return pd.Categorical.from_codes(self._array(tree["codes"]), categories, ordered=tree["ordered"])
        values = self.value(tree["values"])
        if isinstance(values, np.ndarray):
            return values
        if tree["dtype"] == "object":
            found = np.empty(len(values), object)
            found[:] = values
            return pd.Series(found, dtype=object)
        return pd.array(values, dtype=tree["dtype"])
