"""Waits for a core and for pages of memory lie outside calls and never exceed what the kernel counted."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nsyswrap.base.intervals import NOTHING, Spans, Window, merge, overlap, times, total
from nsyswrap.events.host_record import Samples
from nsyswrap.events.off_cpu import TICK_NS, Moments, find_core_waits, find_fault_waits


def samples(*delays: int, every: int = 100) -> Samples:
    """Return samples with the time without a core so far."""
    at = times([number * every for number in range(len(delays))])
    return Samples(at, {"delay_ns": times(delays), "on_cpu_ns": np.zeros_like(at)})


def placed(found: Spans) -> list[tuple[int, int]]:
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


MS = 10**6
QUIET = Moments(times([]), NOTHING)


def running(*ran_ms: int) -> Samples:
    """Return samples every 100 ms of a thread that always had a core, with its run time so far."""
    at = times([number * 100 * MS for number in range(len(ran_ms))])
    return Samples(at, {"delay_ns": np.zeros_like(at), "on_cpu_ns": times([each * MS for each in ran_ms])})


def faults(*counts: int) -> Samples:
    """Return the page faults of a process so far, sampled every 100 ms."""
    at = times([number * 100 * MS for number in range(len(counts))])
    return Samples(at, {"major_faults": times(counts)})


def fault_waits(samples: Samples, faulted: Samples, moments: Moments = QUIET, taken: Spans = NOTHING) -> Spans:
    """Return the waits for pages in the first 400 ms."""
    return find_fault_waits(samples, faulted, moments, taken, Window(0, 400 * MS, "whole", "user"))


def test_a_thread_that_does_not_run_while_pages_are_read_waits_for_them() -> None:
    """From 100 to 200 ms it runs for 30 ms and the kernel reads pages; what a sample may lack is left out."""
    found = fault_waits(running(0, 100, 130, 230), faults(4, 4, 6, 6))
    assert placed(found) == [(100 * MS, 170 * MS - TICK_NS)]


def test_without_page_faults_nothing_is_known() -> None:
    assert not len(fault_waits(running(0, 100, 130, 230), faults(4, 4, 4, 4)).start)
    assert not len(fault_waits(running(0, 100, 130, 230), Samples(times([]), {"major_faults": times([])})).start)


def test_time_in_calls_and_without_a_core_is_no_wait_for_pages() -> None:
    """A call waits from 110 to 150 ms; the other calls, from 180 ms on, only keep the place."""
    waits = Spans(times([110 * MS]), times([150 * MS]))
    taken = Spans(times([110 * MS, 180 * MS]), times([150 * MS, 200 * MS]))
    found = fault_waits(running(0, 100, 130, 230), faults(4, 4, 6, 6), Moments(times([]), waits), taken)
    assert placed(found) == [(150 * MS, 170 * MS)]


def test_a_sample_across_the_bounds_is_left_out() -> None:
    """What the thread did before the window is not known."""
    found = find_fault_waits(
        running(0, 10, 20), faults(0, 1, 2), QUIET, NOTHING, Window(50 * MS, 200 * MS, "part", "user")
    )
    assert total(found) == 90 * MS - TICK_NS
    assert found.start.min() >= 100 * MS


@given(
    ran=st.lists(st.integers(0, 100), min_size=1, max_size=5),
    counts=st.lists(st.integers(0, 2), min_size=5, max_size=5),
    taken=st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), max_size=4),
)
def test_waits_for_pages_never_exceed_the_time_without_running(
    ran: list[int], counts: list[int], taken: list[tuple[int, int]]
) -> None:
    sums = np.cumsum([0, *ran]).tolist()
    starts, ends = times([min(each) * MS for each in taken]), times([max(each) * MS for each in taken])
    busy = merge(starts, ends)
    found = fault_waits(running(*sums), faults(*np.cumsum([0, *counts[: len(ran)]]).tolist()), taken=busy)
    assert total(found) <= sum(100 - each for each, count in zip(ran, counts, strict=False) if count) * MS
    assert overlap(found, busy) == 0
