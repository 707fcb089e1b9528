"""The codec of a type: what it writes is read back, is valid by its schema, and a wrong value is named."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Literal, NamedTuple

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from nsyswrap.base.interval import Interval
from nsyswrap.base.json_codec import NS_INTERVAL, DamagedError, codec_of, keyed, record_of


class Colour(Enum):
    """An enumeration."""

    RED = "red"


class Point(NamedTuple):
    """A named tuple."""

    x: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class Shape:
    """A record with a field of each kind."""

    points: tuple[Point, ...]
    colour: Colour
    size: float
    is_open: bool
    side: Literal["left", "right"] | None
    took: Interval[int] | None
    more: Mapping[str, int]


SHAPE = Shape(
    (Point(1, "a"), Point(-2, "b")), Colour.RED, 0.5, is_open=True, side=None, took=Interval(1, 2, 3), more={"a": 1}
)
CODEC = codec_of(Shape)
SCHEMA = {**CODEC.schema, "$defs": {"interval": NS_INTERVAL.schema}}


@pytest.mark.parametrize("shape", [SHAPE, replace(SHAPE, points=(), side="left", took=None, more={})])
def test_a_record_is_read_as_it_was_written(shape: Shape) -> None:
    tree = json.loads(json.dumps(CODEC.write(shape)))
    Draft202012Validator(SCHEMA).validate(tree)
    assert CODEC.read({**tree, "a newer field": 1}, "") == shape


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"points": [{"x": 1, "name": "a"}, {"x": True, "name": ""}]}, "points[1].x is not a whole number"),
        ({"points": [{"x": 1}]}, "points[0].name is missing"),
        ({"points": {}}, "points is not a list"),
        ({"colour": "blue"}, 'colour is "blue"'),
        ({"size": "large"}, "size is not a number"),
        ({"side": 3}, "side is 3"),
        ({"took": {"low_ns": 3, "point_ns": 2, "high_ns": 1}}, "took: not in order: 3, 2, 1"),
        ({"took": []}, "took is not an object"),
        ({"more": {"b": 1 << 63}}, "more.b is not a 64-bit number"),
    ],
)
def test_a_wrong_value_is_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(DamagedError) as caught:
        CODEC.read({**CODEC.write(SHAPE), **change}, "")
    assert str(caught.value) == words


def test_records_may_stand_by_one_of_their_fields() -> None:
    codec = keyed(record_of(Point, "x"), "name")
    assert codec.write(SHAPE.points) == {"a": {"x": 1}, "b": {"x": -2}}
    assert codec.read({"a": {"x": 1}, "b": {"x": -2}}, "points") == SHAPE.points
