"""Which interval is read: as much about the middle as fits, and never nothing."""

import numpy as np
import pytest

from nsyswrap.loop.large_capture import (
    BASE_BYTES,
    IntervalSizes,
    ReadInterval,
    bytes_of_rows,
    choose_steps,
    choose_time,
)


class Even(IntervalSizes):
    """A capture in which each nanosecond takes a byte."""

    def __init__(self) -> None:
        super().__init__({})

    def needed_bytes(self, start_ns: int, end_ns: int) -> int:
        """Return the length of an interval as bytes."""
        return end_ns - start_ns


STARTS = np.arange(0, 1_000, 10)


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        (0, ReadInterval(490, 500, 10, is_wanted=False)),
        (30, ReadInterval(490, 500, 10, is_wanted=False)),
        (50, ReadInterval(480, 510, 10, is_wanted=False)),
        (520, ReadInterval(250, 750, 10, is_wanted=False)),
        (1_019, ReadInterval(0, 990, 10, is_wanted=False)),
        (1_020, ReadInterval(0, 1_000, 10, is_wanted=True)),
    ],
)
def test_steps_about_the_middle_are_chosen(memory: int, expected: ReadInterval) -> None:
    """Of a hundred steps of 10 ns, with one step around them; at least one, also where it does not fit."""
    assert choose_steps(Even(), STARTS, STARTS + 10, memory) == expected


@pytest.mark.parametrize("memory", [10_000, 500_000, 900_000])
def test_an_interval_about_the_middle_is_chosen(memory: int) -> None:
    """It fits with what is around it, and a little more would not."""
    found = choose_time(Even(), 0, 10**6, memory)
    length = found.end_ns - found.start_ns
    assert found.start_ns == pytest.approx(10**6 - found.end_ns, abs=1)
    assert memory * 0.999 - 100 <= length + 2 * found.around_ns <= memory
    assert not found.is_wanted


def test_all_of_an_interval_is_chosen_where_it_fits() -> None:
    assert choose_time(Even(), 5, 105, 1_000) == ReadInterval(5, 105, 1, is_wanted=True)


def test_an_operation_takes_more_than_another_row() -> None:
    assert bytes_of_rows({"kernels": 10, "calls": 10}) == BASE_BYTES + 6_500
