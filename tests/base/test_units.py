"""Numbers as text: three significant digits; small values, zero and unknown values stay distinct."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.base import units
from nsyswrap.base.interval import between


@pytest.mark.parametrize(
    ("ns", "shown"),
    [
        (0, "0"),
        (7, "7 ns"),
        (999, "999 ns"),
        (1_000, "1.00 µs"),
        (1_234, "1.23 µs"),
        (58_149_000, "58.1 ms"),
        (999_499, "999 µs"),
        (999_500, "1.00 ms"),
        (182_400_000, "182 ms"),
        (41_200_000_000, "41.2 s"),
        (1_234_567_000_000, "1,235 s"),
        (-2_500, "-2.50 µs"),
        (5.5, "5.50 ns"),
        (np.int64(12_300), "12.3 µs"),
    ],
)
def test_durations_have_three_significant_digits_and_the_unit_that_fits(ns: float, shown: str) -> None:
    assert units.duration(ns) == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (72, "72 B"),
        (1_023, "1023 B"),
        (1_536, "1.50 KiB"),
        (1_048_575, "1.00 MiB"),
        (150_754_820_096, "140 GiB"),
        (5 << 50, "5,120 TiB"),
    ],
)
def test_sizes_are_binary(number: int, shown: str) -> None:
    assert units.size(number) == shown


def test_frequencies_have_three_significant_digits() -> None:
    assert units.text(1_980_000_000, "hz") == "1.98 GHz"


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [
        (-0.0, "0.0 %"),
        (-0.0004, "<0.1 %"),
        (-0.02, "-2.0 %"),
        (0, "0.0 %"),
        (0.0004, "<0.1 %"),
        (0.0005, "0.1 %"),
        (0.386, "38.6 %"),
        (0.9996, ">99.9 %"),
        (1, "100.0 %"),
        (1.5, "150.0 %"),
    ],
)
def test_shares_have_one_decimal_and_never_round_to_0_or_100(ratio: float, shown: str) -> None:
    assert units.share(ratio) == shown


@given(st.integers(1, 10**15), st.integers(1, 10**15))
def test_only_nothing_prints_as_0_and_only_all_as_100(part: int, rest: int) -> None:
    """A part above zero never prints as 0.0 %, and one below the whole never as 100.0 %."""
    assert units.share_of(part, part + rest) not in ("0.0 %", "100.0 %")


def test_a_share_of_nothing_is_not_measured() -> None:
    assert units.share_of(0, 0) == units.NOT_MEASURED


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (0.41, 0.582, "41.0 to 58.2 %"),
        (0.41, 0.41, "41.0 %"),
        (0.41001, 0.41002, "41.0 %"),
        (0.0, 0.0001, "0.0 to <0.1 %"),
        (None, 0.5, units.NOT_MEASURED),
        (0.5, float("nan"), units.NOT_MEASURED),
    ],
)
def test_a_band_shows_both_bounds_unless_they_print_the_same(low: float | None, high: float | None, shown: str) -> None:
    assert units.share_band(low, high) == shown


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (0, 57_100_000, "up to 57.1 ms"),
        (9_800_000, 57_100_000, "9.80 to 57.1 ms"),
        (5_000, 5_001, "5.00 µs"),
        (0, 0, "none"),
    ],
)
def test_a_saving_is_a_range_with_an_upper_bound(low: int, high: int, shown: str) -> None:
    assert units.saving(between(low, high)) == shown


def test_a_saving_may_not_be_known() -> None:
    assert units.saving(None) == "not predicted"


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (2_500_000, 2_900_000, "2.50 to 2.90 ms"),
        (900_000, 1_500_000, "900 µs to 1.50 ms"),
        (2_500_000, 2_500_001, "2.50 ms"),
    ],
)
def test_a_range_names_a_shared_unit_once(low: int, high: int, shown: str) -> None:
    assert units.duration_range(low, high) == shown


@pytest.mark.parametrize(
    ("number", "noun", "several", "shown"),
    [
        (1, "step", "", "1 step"),
        (0, "step", "", "0 steps"),
        (1_000, "warm-up step", "", "1,000 warm-up steps"),
        (2, "process", "", "2 processes"),
        (3, "launch", "", "3 launches"),
        (2, "Host-to-Device copy", "", "2 Host-to-Device copies"),
        (2, "day", "", "2 days"),
        (1, "capture was", "captures were", "1 capture was"),
        (2, "capture was", "captures were", "2 captures were"),
    ],
)
def test_a_number_has_its_noun_in_singular_or_plural(number: int, noun: str, several: str, shown: str) -> None:
    assert units.counted(number, noun, several) == shown


@pytest.mark.parametrize(
    ("ratio", "shown"), [(2, "2.00"), (1.824, "1.82"), (14.02, "14.0"), (9_999.6, "10,000"), (0.5, "0.50")]
)
def test_factors_have_three_significant_digits(ratio: float, shown: str) -> None:
    assert units.factor(ratio) == shown


def test_counts_are_grouped_by_three() -> None:
    assert units.count(1_234_567) == "1,234,567"
    assert units.count(np.int64(1_234)) == "1,234"


@pytest.mark.parametrize(
    ("value", "shown"), [(3, "3"), (3.0, "3"), (12_345.678, "12346"), (0.01234, "0.0123"), (2.5, "2.50")]
)
def test_plain_numbers_have_three_significant_digits(value: float, shown: str) -> None:
    assert units.number(value) == shown


@pytest.mark.parametrize("value", [None, math.nan, np.float64("nan"), pd.NA, pd.NaT])
def test_a_missing_value_is_not_zero(value: object) -> None:
    assert units.text(value, "ns") == units.NOT_MEASURED


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (1_500, "ns", "1.50 µs"),
        (1_500, "point", "0.000002 s"),
        (2_048, "bytes", "2.00 KiB"),
        (0.5, "share", "50.0 %"),
        (1_000_000, "hz", "1.00 MHz"),
        (445_329_137_664.0, "flop", "445 GFLOP"),
        (1_500, "count", "1,500"),
        (1_500, "anything", "1,500"),
        ("Graph", "text", "Graph"),
        (True, "count", "yes"),
        (np.int64(1_500), "count", "1,500"),
    ],
)
def test_a_value_is_shown_in_its_unit(value: object, unit: str, shown: str) -> None:
    assert units.text(value, unit) == shown


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("idle_ns", "ns"),
        ("start_ns", "point"),
        ("bytes", "bytes"),
        ("memory_bytes", "bytes"),
        ("busy_share", "share"),
        ("share", "share"),
        ("gap_count", "count"),
        ("count", "count"),
        ("clock_hz", "hz"),
        ("theoretical_occupancy", "number"),
    ],
)
def test_the_suffix_of_a_column_is_its_unit(name: str, unit: str) -> None:
    assert units.column_unit(name, numeric=True) == unit


def test_a_column_of_texts_has_no_unit() -> None:
    assert units.column_unit("total_ns", numeric=False) == "text"


def test_a_scale_never_shows_a_value_above_zero_as_zero() -> None:
    scale = units.scale_for([31_000_000, 18_000_000, 2_000], "ns")
    assert scale.text(2_000) == "<0.1"
    assert scale.text(0) == "0"


def test_a_column_without_values_has_a_scale() -> None:
    assert units.scale_for([], "bytes").text(0) == "0"


def test_the_largest_of_a_column_has_at_most_four_digits() -> None:
    """Many small values do not force nanosecond precision on a few large ones."""
    scale = units.scale_for([476_000_000, 700, 700, 700], "ns")
    assert [scale.text(476_000_000), scale.text(700)] == ["476.0", "<0.1"]


def test_a_scale_ignores_missing_values() -> None:
    assert units.scale_for([math.nan, 2_048], "bytes").unit == "KiB"


@given(st.lists(st.integers(-(10**15), 10**15), max_size=20))
def test_a_column_has_one_number_of_decimals(values: list[int]) -> None:
    scale = units.scale_for(values, "ns")
    shown = [scale.text(value).lstrip("<").partition(".")[2] for value in values if value]
    assert {len(decimals) for decimals in shown} <= {scale.decimals}


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [
        (-0.566, "-56.6 %"),
        (0.031, "+3.1 %"),
        (0, "0.0 %"),
        (1.304, "+130.4 %"),
        (19.163, "+1,916.3 %"),
        (-1e-5, "<0.1 %"),
    ],
)
def test_a_change_has_its_sign(ratio: float, shown: str) -> None:
    """A change that is not zero never prints as zero."""
    assert units.change(ratio) == shown


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (-3_280_000, "ns", "-3.28 ms"),
        (2_000.0, "ns", "+2.00 µs"),
        (0, "ns", "0"),
        (1 << 20, "bytes", "+1.00 MiB"),
        (-0.114, "share", "-11.4 %"),
        (1.5, "share", "+150.0 %"),
        (-0.0004, "share", "<0.1 %"),
        (3, "count", "+3"),
    ],
)
def test_a_difference_has_its_sign_and_unit(value: float, unit: str, shown: str) -> None:
    assert units.difference(value, unit) == shown


def test_how_often_there_is_something_has_a_sign_and_not_a_letter() -> None:
    assert units.times(2, "NVIDIA H200") == "2 × NVIDIA H200"


@pytest.mark.parametrize(
    ("ns", "like", "text"),
    [
        (16_040_000, 18_500_000, "about 16"),
        (5_230_000, 207_000_000, "about 5.2"),
        (904_000, 18_500_000, "about 900 µs"),
        (104_000_000, 207_000_000, "about 100"),
        (999_600_000, 2_000_000_000, "about 1"),
        (12, 40, "about 12"),
    ],
)
def test_an_estimate_beside_a_time_has_two_digits_and_no_second_unit(ns: int, like: int, text: str) -> None:
    assert units.about(ns, like) == text
