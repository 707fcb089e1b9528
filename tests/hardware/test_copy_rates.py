"""The rates of pinned copies in a run.json are read, and damaged values are left out."""

import pytest

from nsyswrap.hardware.link_rates import CopyRate, read_rates

UP, DOWN = "Host-to-Device", "Device-to-Host"
GOOD = {"low_bytes_per_second": 20e9, "high_bytes_per_second": 25e9}


def test_rates_are_read_by_direction() -> None:
    """The numbers may be integers, and the low rate may equal the high rate."""
    measured = {UP: GOOD, DOWN: {"low_bytes_per_second": 7, "high_bytes_per_second": 7}}
    assert read_rates(measured) == {UP: CopyRate(20e9, 25e9), DOWN: CopyRate(7.0, 7.0)}


@pytest.mark.parametrize("measured", [None, [], "fast", 25e9, {}])
def test_what_holds_no_rates_has_none(measured: object) -> None:
    assert read_rates(measured) == {}


@pytest.mark.parametrize(
    "damaged",
    [
        None,
        25e9,
        "fast",
        [20e9, 25e9],
        {},
        {"low_bytes_per_second": 20e9},
        {**GOOD, "low_bytes_per_second": None},
        {**GOOD, "low_bytes_per_second": "slow"},
        {**GOOD, "low_bytes_per_second": 0},
        {**GOOD, "low_bytes_per_second": -1},
        {**GOOD, "low_bytes_per_second": 26e9},
        {**GOOD, "high_bytes_per_second": float("inf")},
        {**GOOD, "high_bytes_per_second": float("nan")},
        {**GOOD, "low_bytes_per_second": float("nan")},
    ],
)
def test_a_damaged_rate_is_left_out_and_the_other_kept(damaged: object) -> None:
    """A rate is damaged if it is missing, if it is not a positive finite number, or if low is above high."""
    assert read_rates({UP: damaged, DOWN: GOOD}) == {DOWN: CopyRate(20e9, 25e9)}
