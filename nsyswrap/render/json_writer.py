"""Nested values as JSON, every number unrounded; a row of a table is one line, so that two files can be compared."""

import json
from collections.abc import Mapping

import numpy as np

from nsyswrap.base import units
from nsyswrap.base.json_codec import Tree
from nsyswrap.render.escape import escape_in_json

_INFINITE = (float("inf"), -float("inf"))


def plain(value: object) -> object:
    """Return a number of numpy as Python's own, so that it is not written as a text; None for a missing number."""
    found = value.item() if isinstance(value, np.generic) else value
    return None if units.is_missing(found) or found in _INFINITE else found


def _of_other(value: object) -> object:
    """Return what stands for a value that JSON does not have: a number of numpy, or a text."""
    return plain(value) if isinstance(value, np.generic) else str(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(", ", ": "), default=_of_other)
_COLUMN_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=("\n", ": "), default=_of_other)


def write(tree: Tree) -> str:
    """Return JSON that ends in a line break: nested objects take several lines, a row of a table takes one."""
    return escape_in_json(_format(tree, "")) + "\n"


def _format(value: object, indent: str) -> str:
    """Return JSON in which a nested dictionary takes several lines and a row of a table takes one."""
    inner = indent + "  "
    if isinstance(value, Mapping) and any(isinstance(item, Mapping | list) for item in value.values()):
        lines = [f"{inner}{_ENCODER.encode(key)}: {_format(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        lines = [inner + line for line in _one_line_each(value)]
        return "[\n" + ",\n".join(lines) + f"\n{indent}]"
    return _ENCODER.encode(value)


def _one_line_each(items: list[Tree]) -> list[str]:
    """Return each item on one line.

    Items are encoded column by column: encoding row by row would take seconds.
    """
    keys = list(items[0])
    columns = [_cells([item[key] for item in items]) for key in keys]
    form = ", ".join(_ENCODER.encode(key).replace("%", "%%") + ": %s" for key in keys)
    return [f"{{{form % row}}}" for row in zip(*columns, strict=True)]


def _cells(values: list[object]) -> list[str]:
    """Return each value as JSON.

    The JSON of a text or a number holds no line break, so all values of a column are encoded at once.
    """
    if any(issubclass(kind, Mapping | list | tuple) for kind in set(map(type, values))):
        return [_ENCODER.encode(value) for value in values]
    return _COLUMN_ENCODER.encode(values)[1:-1].split("\n")
