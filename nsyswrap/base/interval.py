"""An estimate with its range; `intervals` has intervals of time."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Generic, TypeVar

Value = TypeVar("Value", int, float)
Other = TypeVar("Other", int, float)


@dataclass(frozen=True, slots=True)
class Interval(Generic[Value]):
    """An estimate, and the range that holds the truth in nine of ten cases.

    Raises:
        ValueError: The estimate is outside of the range.
    """

    low: Value
    point: Value
    high: Value

    def __post_init__(self) -> None:
        if not self.low <= self.point <= self.high:
            raise ValueError(f"not in order: {self.low}, {self.point}, {self.high}")

    @property
    def width(self) -> Value:
        """Return the width of the range."""
        return self.high - self.low

    @property
    def ends(self) -> tuple[Value, Value]:
        """Return the lower and the upper end."""
        return self.low, self.high

    @property
    def in_order(self) -> tuple[Value, Value, Value]:
        """Return the lower end, the estimate and the upper end."""
        return self.low, self.point, self.high

    def __contains__(self, value: float) -> bool:
        """Return whether a value is in the range."""
        return self.low <= value <= self.high

    def map(self, function: Callable[[Value], Other]) -> "Interval[Other]":
        """Return the interval of a function of the value, which must rise or fall everywhere."""
        first, point, last = function(self.low), function(self.point), function(self.high)
        return Interval(min(first, last), point, max(first, last))


# Of a normal distribution, nine of ten cases lie within so many standard deviations.
NINE_OF_TEN = 1.645
NAMES = tuple(each.name for each in fields(Interval))
"""The names of its values, in order, for keys and columns."""


def around(point: Value, *others: Value) -> Interval[Value]:
    """Return the smallest interval around an estimate that holds some other values."""
    return Interval(min(point, min(others, default=point)), point, max(point, max(others, default=point)))


def between(first: int, last: int) -> Interval[int]:
    """Return the interval between two values, in either order, with the middle as estimate: nothing better is known."""
    low, high = sorted((first, last))
    return Interval(low, (low + high) // 2, high)
