"""Clocks drift: the drift is found from the ends of collectives, and the error that is stated is not exceeded."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.ranks.clocks import Clock, Ends, find_clocks

EPOCH = 10**18


def ends(times: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> Ends:
    """Return collectives that end at some times and last a millisecond."""
    return Ends(times, ("AllReduce",) * len(times), times - 1_000_000)


@given(st.floats(-50, 50), st.integers(-(10**7), 10**7), st.integers(1, 60), st.integers(0, 20_000))
def test_a_drift_of_hosts_is_corrected_within_the_stated_error(
    ppm: float, ahead: int, seconds: int, jitter: int
) -> None:
    random = np.random.default_rng(3)
    true = np.linspace(10**8, seconds * 10**9, 200).astype(np.int64)
    other = np.rint((true + ahead) * (1 + ppm / 1e6)).astype(np.int64) + random.integers(jitter + 1, size=200)
    clock = find_clocks([EPOCH, EPOCH], [ends(true), ends(other)])[1]
    assert clock.error_ns is not None
    shown = np.rint((true + ahead) * (1 + ppm / 1e6)).astype(np.int64)
    # The error holds for 90 % of the collectives. The noise has one sign, so its median is half of it.
    assert np.percentile(np.abs(clock.to_first(shown) - true), 90) <= clock.error_ns + jitter // 2 + 2
    assert np.abs(clock.from_first(clock.to_first(shown)) - shown).max() <= 1


def test_a_drift_below_the_error_is_not_corrected() -> None:
    """Over half a second, 20 millionths are 10 us: less than the ends of collectives differ."""
    true = np.linspace(10**6, 5 * 10**8, 100).astype(np.int64)
    clock = find_clocks([EPOCH, EPOCH], [ends(true), ends(np.rint(true * (1 + 20e-6)).astype(np.int64))])[1]
    assert clock.drift == 0
    assert clock.method == "UTC"


def test_a_line_that_ends_a_collective_before_it_began_is_wrong_by_as_much() -> None:
    """One collective of ten ends 1 ms after it began, and 5 ms earlier than the line says."""
    true = np.arange(1, 41, dtype=np.int64) * 10**7
    late = true.copy()
    late[7] += 5_000_000
    clock = find_clocks([None, None], [ends(true), ends(late)])[1]
    assert clock.error_ns == 5_000_000 - 1_000_000


def test_steps_of_equal_length_do_not_tell_where_a_report_begins() -> None:
    """The second report lacks some collectives. Each place fits, so only equal starts in UTC can tell."""
    true = np.arange(1, 31, dtype=np.int64) * 10**7
    known, far, unknown = (
        find_clocks([EPOCH, epoch], [ends(true), ends(true[:25])])[1] for epoch in (EPOCH, EPOCH + 4_000_000, None)
    )
    assert known == Clock(0, 1, "UTC")
    assert far == Clock(4_000_000, None, "UTC")
    assert unknown.method == "unknown"


@pytest.mark.parametrize("first", [0, 5])
def test_steps_of_unequal_length_tell_where_a_report_begins(first: int) -> None:
    true = np.cumsum(np.random.default_rng(5).integers(9_000_000, 11_000_000, size=60))
    clock = find_clocks([EPOCH, EPOCH], [ends(true), ends(true[first : first + 40] - 3_000_000)])[1]
    assert (clock.offset_ns, clock.method) == (3_000_000, "collectives")
