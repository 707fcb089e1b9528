"""Values of our types in JSON: the codec of a type writes its values, reads them back, and gives their JSON Schema.

The codec of a record follows from its annotations, so that a field is described once.
"""

import inspect
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import EnumType
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

from nsyswrap.base.interval import NAMES, Interval

Tree = dict[str, Any]
_INT64_END = 1 << 63


class DamagedError(Exception):
    """A value is missing or wrong; the message names its place."""


@dataclass(frozen=True, slots=True)
class Codec:
    """How JSON holds the values of one type.

    Attributes:
        read: Returns the value for what JSON holds; its second argument is the place, for the ``DamagedError``.
        name: Its name among the definitions of a schema; empty for none.
    """

    schema: Tree
    read: Callable[..., Any]
    write: Callable[[Any], Any] = lambda value: value
    name: str = ""

    @property
    def reference(self) -> Tree:
        """Return the schema inside of another one."""
        return {"$ref": f"#/$defs/{self.name}"} if self.name else self.schema


class Field(NamedTuple):
    """A field of a record.

    Attributes:
        is_read: Whether the record is made with it; False for what follows from other fields.
    """

    codec: Codec
    get: Callable[[Any], Any]
    is_read: bool = True
    is_required: bool = True


def read_scalar(value: object, place: str, kinds: tuple[type, ...] = (), words: str = "") -> Any:  # noqa: ANN401
    """Return a value of some types, or any that is not nested; a whole number has 64 bits, and a number is finite.

    Raises:
        DamagedError: It is another one.
    """
    if type(value) not in kinds if kinds else isinstance(value, dict | list):
        raise DamagedError(f"{place} is {f'not {words}' if words else 'nested'}")
    if isinstance(value, float) and not math.isfinite(value):
        raise DamagedError(f"{place} is not finite")
    if type(value) is int and not -_INT64_END <= value < _INT64_END:
        raise DamagedError(f"{place} is not a 64-bit number")
    return value


def read_object(value: object, place: str) -> Tree:
    """Return an object.

    Raises:
        DamagedError: It is something else.
    """
    if not isinstance(value, dict):
        raise DamagedError(f"{place} is not an object")
    return value


TEXT = Codec({"type": "string"}, lambda value, place: read_scalar(value, place, (str,), "a text"))
WHOLE = Codec({"type": "integer"}, lambda value, place: read_scalar(value, place, (int,), "a whole number"), int)
FLAG = Codec({"type": "boolean"}, lambda value, place: read_scalar(value, place, (bool,), "true or false"))
NUMBER = Codec({"type": "number"}, lambda value, place: float(read_scalar(value, place, (int, float), "a number")))


def null_or(codec: Codec) -> Codec:
    """Return the codec of a value that may be None."""
    return Codec(
        {"anyOf": [codec.reference, {"type": "null"}]},
        lambda value, place: None if value is None else codec.read(value, place),
        lambda value: None if value is None else codec.write(value),
    )


def list_of(codec: Codec) -> Codec:
    """Return the codec of a tuple."""

    def read(value: object, place: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise DamagedError(f"{place} is not a list")
        return tuple(codec.read(each, f"{place}[{at}]") for at, each in enumerate(value))

    return Codec({"type": "array", "items": codec.reference}, read, lambda values: [*map(codec.write, values)])


def mapping_of(codec: Codec) -> Codec:
    """Return the codec of a mapping by texts."""
    return Codec(
        {"type": "object", "additionalProperties": codec.reference},
        lambda value, place: {
            key: codec.read(each, f"{place}.{key}") for key, each in read_object(value, place).items()
        },
        lambda values: {key: codec.write(each) for key, each in values.items()},
    )


def keyed(codec: Codec, key: str) -> Codec:
    """Return the codec of records as one object: one of their fields, a text, is the key of each."""
    return Codec(
        mapping_of(codec).schema,
        lambda value, place: tuple(
            codec.read(each, f"{place}.{label}", **{key: label}) for label, each in read_object(value, place).items()
        ),
        lambda values: {getattr(each, key): codec.write(each) for each in values},
    )


def one_of(*values: str) -> Codec:
    """Return the codec of one of some texts."""

    def read(value: object, place: str) -> object:
        if not isinstance(value, str) or value not in values:
            raise DamagedError(f"{place} is {json.dumps(value)[:40]}")
        return value

    return Codec({"enum": list(values)}, read)


def record_of(
    kind: type, fields: str = "", name: str = "", make: Callable[..., Any] | None = None, **given: Codec | Field
) -> Codec:
    """Return the codec of a dataclass or a named tuple; JSON may hold other fields, too.

    Args:
        kind: The class.
        fields: Names of the fields in the order of JSON, divided by spaces; empty for those of the class.
        name: The codec's name among the definitions of a schema.
        make: Returns the record for its fields, and for the arguments that ``keyed`` adds; None for the class.
        **given: Codecs that do not follow from the annotation, and fields that the class does not have.
    """
    hints = inspect.get_annotations(kind)
    codecs = {each: given[each] if each in given else codec_of(hints[each]) for each in fields.split() or hints}
    known = {key: each if isinstance(each, Field) else Field(each, attrgetter(key)) for key, each in codecs.items()}

    def read(value: object, place: str, **more: object) -> object:
        tree, found = read_object(value, place), {}
        for key, field in known.items():
            inner = f"{place}.{key}" if place else key
            if field.is_read and key in tree:
                found[key] = field.codec.read(tree[key], inner)
            elif field.is_read and field.is_required:
                raise DamagedError(f"{inner} is missing")
        try:
            return (make or kind)(**found, **more)
        except ValueError as error:
            raise DamagedError(f"{place}: {error}") from error

    schema = {
        "type": "object",
        "required": [key for key, field in known.items() if field.is_required],
        "properties": {key: field.codec.reference for key, field in known.items()},
    }
    return Codec(
        schema, read, lambda value: {key: each.codec.write(each.get(value)) for key, each in known.items()}, name
    )


def codec_of(kind: Any) -> Codec:  # noqa: ANN401, PLR0911 - a type, or what typing makes of types; one return for each
    """Return the codec that follows from a type."""
    inner, outer = get_args(kind), get_origin(kind)
    if kind in _OF_TYPES:
        return _OF_TYPES[kind]
    if outer is Literal:
        return one_of(*inner)
    if outer in {Union, UnionType}:
        return null_or(codec_of(next(each for each in inner if each is not NoneType)))
    if outer is tuple:
        return list_of(codec_of(inner[0]))
    if outer is Mapping:
        return mapping_of(codec_of(inner[1]))
    if isinstance(kind, EnumType):
        members: Mapping[str, Any] = kind.__members__
        text = one_of(*(each.value for each in members.values()))
        return replace(text, read=lambda value, place: kind(text.read(value, place)), write=attrgetter("value"))
    return record_of(kind)


_OF_TYPES: dict[object, Codec] = {str: TEXT, int: WHOLE, bool: FLAG, float: NUMBER}
NS_INTERVAL = _OF_TYPES[Interval[int]] = record_of(
    Interval,
    " ".join(f"{name}_ns" for name in NAMES),
    "interval",
    make=lambda **ends: Interval(*ends.values()),
    **{f"{name}_ns": Field(WHOLE, attrgetter(name)) for name in NAMES},
)
"""The codec of an interval of times."""
