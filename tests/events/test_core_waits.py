"""Waits for a core are placed in intervals without a call and never exceed the run-queue time of the kernel."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.events.core_waits import Moments, find_core_waits
from nsyswrap.events.host_record import Samples
from nsyswrap.intervals import NOTHING, Spans, merge, overlap, times, total


def samples(*delays: int, every: int = 100) -> Samples:
    """Return samples with the time without a core so far."""
    at = times([number * every for number in range(len(delays))])
    return Samples(at, {"delay_ns": times(delays), "on_cpu_ns": np.zeros_like(at)})


def placed(found: Spans) -> list[tuple[int, int]]:
    """Return spans as pairs."""
    return list(zip(found.start.tolist(), found.end.tolist(), strict=True))


def test_the_longest_intervals_without_a_call_come_first() -> None:
    """40 ns without a core are placed: all of the interval from 10 to 40, and 10 ns of the interval from 60 to 80.

    ::

        calls    ||........||||||..||||.....|||||||||||||
                 0 10      40     60  80   100
    """
    moments = Moments(times([5, 10, 40, 45, 50, 55, 60, 80, 85, 90, 95]), NOTHING)
    assert placed(find_core_waits(samples(0, 40), moments, 0, 100)) == [(10, 40), (60, 70)]


def test_a_wait_is_not_time_without_a_core() -> None:
    """From 10 to 80 the thread waits for something else, so it is not ready to run there."""
    moments = Moments(times([10, 80]), Spans(times([10]), times([80])))
    assert placed(find_core_waits(samples(0, 25), moments, 0, 100)) == [(0, 5), (80, 100)]


def test_what_does_not_fit_belongs_to_the_interval_before() -> None:
    """The kernel counts a wait at its end. 130 ns are more than an interval of 100 ns, so the wait began earlier."""
    assert total(find_core_waits(samples(0, 0, 130), Moments(times([]), NOTHING), 0, 200)) == 130
    assert placed(find_core_waits(samples(0, 0, 130), Moments(times([]), NOTHING), 0, 200)) == [(0, 30), (100, 200)]


def test_an_interval_across_the_bounds_has_its_share() -> None:
    """Half of the interval from 0 to 100 lies inside the bounds, so half of its 40 ns without a core count."""
    assert total(find_core_waits(samples(0, 40), Moments(times([]), NOTHING), 50, 400)) == 20


def test_one_sample_says_nothing() -> None:
    assert find_core_waits(samples(5), Moments(times([]), NOTHING), 0, 100) is NOTHING


@given(
    delays=st.lists(st.integers(0, 150), min_size=2, max_size=6),
    calls=st.lists(st.integers(0, 600), max_size=20),
    waits=st.lists(st.tuples(st.integers(0, 600), st.integers(0, 600)), max_size=4),
    bounds=st.tuples(st.integers(0, 600), st.integers(0, 600)),
)
def test_it_never_exceeds_the_measured_time(
    delays: list[int], calls: list[int], waits: list[tuple[int, int]], bounds: tuple[int, int]
) -> None:
    """The placed time lies inside the bounds and outside waits, and is at most the time that the kernel counted."""
    low, high = min(bounds), max(bounds)
    blocked = merge([start for start, _ in waits], [end for _, end in waits])
    made = samples(*np.cumsum(delays).tolist())
    found = find_core_waits(made, Moments(times(sorted(calls)), blocked), low, high)
    assert total(found) <= sum(delays[1:]) + len(delays)
    assert overlap(found, blocked) == 0
    assert not len(found.start) or (found.start[0] >= low and found.end[-1] <= high)
