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


def drifting(ppm: float, seconds: float = 0.5, count: int = 100, noise: int = 0) -> Clock:
    """Return the clock of a report that drifts; every second collective ends later by twice the noise, in ns."""
    true = np.linspace(10**6, seconds * 10**9, count).astype(np.int64)
    other = np.rint(true * (1 + ppm / 1e6)).astype(np.int64) + noise * (-1) ** np.arange(count)
    return find_clocks([EPOCH, EPOCH], [ends(true), ends(other)])[1]


@pytest.mark.parametrize(("ppm", "drifts"), [(80, False), (100, True), (600, True), (800, False)])
def test_a_drift_is_longer_than_the_ends_differ_and_no_more_than_clocks_can(ppm: float, drifts: bool) -> None:  # noqa: FBT001
    """Over half a second, 80 millionths are 40 us, and 100 are 50; a collective ends within 43 us on all ranks."""
    assert bool(drifting(ppm).drift) == drifts


@pytest.mark.parametrize(("count", "drifts"), [(7, False), (8, True)])
def test_few_collectives_show_no_drift(count: int, drifts: bool) -> None:  # noqa: FBT001
    assert bool(drifting(100, count=count).drift) == drifts


@pytest.mark.parametrize(("noise", "drifts"), [(36_000, True), (52_000, False)])
def test_a_drift_is_three_times_its_standard_error(noise: int, drifts: bool) -> None:  # noqa: FBT001
    """In a second, 20 collectives drift by 0.1 ms. They end 36 us early and late in turn, or 52 us."""
    assert bool(drifting(100, 1, 20, noise).drift) == drifts


@pytest.mark.parametrize(("times", "kept"), [(4, True), (6.5, False)])
def test_ends_far_from_the_line_do_not_change_the_drift(times: float, kept: bool) -> None:  # noqa: FBT001
    """The last ends are more than five times as far from the line as half of all are. They would make it steeper."""
    true = np.linspace(10**6, 10**9, 400).astype(np.int64)
    other = np.rint(true * (1 + 1e-4)).astype(np.int64)
    other[:-4] += np.random.default_rng(5).integers(-20_000, 20_000, size=396)
    other[-4:] += int(times * 10_000)
    drift = find_clocks([EPOCH, EPOCH], [ends(true), ends(other)])[1].drift
    assert (drift < -100e-6) == kept


@pytest.mark.parametrize(
    ("ahead", "clock"),
    [
        (80_000, Clock(0, 80_000, "UTC")),
        (90_000, Clock(90_000, 43_000, "collectives")),
        (59 * 10**9, Clock(59 * 10**9, 43_000, "collectives")),
        (61 * 10**9, Clock(0, None, "UTC")),
    ],
)
def test_clocks_of_one_host_are_kept_and_those_of_others_shifted(ahead: int, clock: Clock) -> None:
    """Clocks that differ by a minute are not of one job."""
    true = np.arange(1, 41, dtype=np.int64) * 10**7
    assert find_clocks([EPOCH, EPOCH], [ends(true), ends(true - ahead)])[1] == clock


@pytest.mark.parametrize(("outlying", "error_ns"), [(8, 43_000), (12, 500_000)])
def test_the_stated_error_holds_for_nine_of_ten_collectives(outlying: int, error_ns: int) -> None:
    """Of 100 collectives some end half a millisecond later on one rank."""
    true = np.arange(1, 101, dtype=np.int64) * 10**7
    late = true.copy()
    late[50 : 50 + outlying] += 500_000
    assert find_clocks([None, None], [ends(true), ends(late)])[1].error_ns == error_ns


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


@pytest.mark.parametrize(("uneven_ns", "method"), [(100_000, "unknown"), (150_000, "collectives")])
def test_the_right_place_fits_twice_as_well_as_the_next(uneven_ns: int, method: str) -> None:
    """The ends differ by 0.1 ms at the right place. The less uneven the steps, the better the other places fit."""
    random = np.random.default_rng(5)
    true = np.cumsum(10_000_000 + uneven_ns * random.choice([-1, 1], size=60))
    other = true[5:45] + 100_000 * (-1) ** np.arange(40)
    assert find_clocks([None, None], [ends(true), ends(other)])[1].method == method


@pytest.mark.parametrize(("second", "method"), [(196, "collectives"), (197, "unknown")])
def test_at_most_400_places_are_tried(second: int, method: str) -> None:
    true = np.cumsum(np.random.default_rng(5).integers(9_000_000, 11_000_000, size=205))
    assert find_clocks([None, None], [ends(true), ends(true[5 : 5 + second])])[1].method == method
