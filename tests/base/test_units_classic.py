"""Numbers in the format of nvprof, and milliseconds for columns of a comparison."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.base import units

NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


@pytest.mark.parametrize(
    ("ns", "shown"),
    [
        (0, "0ns"),
        (992, "992ns"),
        (999.6, "1.0000us"),
        (1_000, "1.0000us"),
        (1_120, "1.1200us"),
        (99_999.6, "100.00us"),
        (424_770, "424.77us"),
        (999_996, "1.0000ms"),
        (1_140_500, "1.1405ms"),
        (23_450_000, "23.450ms"),
        (737_970_000, "737.97ms"),
        (999_999_999, "1.0000s"),
        (1_102_850_000, "1.1029s"),
        (123_456_000_000, "123.46s"),
        (123_456_789_000_000, "123457s"),
    ],
)
def test_a_classic_duration_has_five_significant_digits_and_its_unit_attached(ns: float, shown: str) -> None:
    assert units.classic_duration(ns) == shown


@given(ns=st.integers(0, 10**15))
def test_a_classic_duration_is_right_to_five_digits(ns: int) -> None:
    """A printed duration that is parsed again differs by less than one in the fifth digit."""
    shown = units.classic_duration(ns)
    unit = next(sign for sign in ("ns", "us", "ms", "s") if shown.endswith(sign))
    assert float(shown.removesuffix(unit)) * NS[unit] == pytest.approx(ns, rel=0.5e-4, abs=0)


@pytest.mark.parametrize(("ratio", "shown"), [(0.58731, "58.73%"), (1, "100.00%"), (0, "0.00%"), (0.00001, "0.00%")])
def test_a_classic_share_has_two_decimals(ratio: float, shown: str) -> None:
    assert units.classic_share(ratio) == shown


@pytest.mark.parametrize(("ns", "shown"), [(3_250_700, "3.251"), (0, "0.000"), (1_234_567_890, "1,234.568")])
def test_milliseconds_have_three_decimals(ns: int, shown: str) -> None:
    assert units.milliseconds(ns) == shown
