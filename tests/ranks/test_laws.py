"""Laws of jobs with planted stragglers: exact splits and ledgers, whole charges, errors that are not exceeded."""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from analysis_fixtures import attributions_of
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rank_generator import FORWARD, LAUNCH, PART, Clock, Job, reports, schedule

from nsyswrap.base.intervals import Window
from nsyswrap.loop.context import NO_SETTINGS, find_context
from nsyswrap.ranks.collectives import find_collectives
from nsyswrap.ranks.join import join
from nsyswrap.ranks.late_ranks import find_late_ranks
from nsyswrap.ranks.lateness import find_lateness
from nsyswrap.ranks.rank_report import Joined
from nsyswrap.report import choose_window
from nsyswrap.sections.ledger import ledger_rows

WARM_UP = 2
SPLIT = ("communication_wait_ns", "communication_transfer_ns")
delays = st.integers(0, 600_000) | st.sampled_from([0, 0, 400_000])
jobs = st.tuples(st.integers(2, 4), st.integers(4, 7)).flatmap(
    lambda shape: st.lists(st.lists(delays, min_size=shape[1], max_size=shape[1]), min_size=shape[0], max_size=shape[0])
)
clocks = st.builds(
    Clock,
    ahead_ns=st.integers(-5_000_000, 5_000_000),
    drift_ppm=st.floats(-50, 50),
    recording_ns=st.integers(-3_000_000, -1_000),
)


def looped(job: Job) -> dict[int, tuple[int, int]]:
    """Return exposed wait and transfer of each rank over the measured steps, by a plain loop over true times, in ns."""
    times, seen = schedule(job), [rank for rank in range(job.ranks) if rank not in job.lost]
    found = {}
    for rank in seen:
        wait = transfer = 0
        for step in range(WARM_UP, job.steps):
            first = int(times.ready[step, rank]) + 2 * LAUNCH
            over = first + FORWARD + job.buckets * PART
            for bucket in range(job.buckets):
                start, end = int(times.starts[step, rank, bucket]), int(times.ends[step, rank, bucket])
                arrived = min(max(int(times.starts[step, other, bucket]) for other in seen), end)
                wait += max(arrived - max(start, over), 0)
                transfer += max(end - max(arrived, over), 0)
        found[rank] = wait, transfer
    return found


@dataclass(frozen=True)
class Found:
    """What is found in the joined reports of a job.

    Attributes:
        window: The measured steps.
        ledgers: Ledger of each rank, in ns.
        charged: Waits that are charged to others, by waiting rank, in ns.
        late: Ranks that others wait for beyond chance and beyond the error of the clocks.
    """

    joined: Joined
    window: Window
    ledgers: dict[int, dict[str, int]]
    charged: dict[int, int]
    late: list[int]


def found_in(job: Job) -> Found:
    """Return what is found in the joined reports of a job."""
    with tempfile.TemporaryDirectory() as folder:
        whole = join(reports(job, Path(folder)), "job")
    settings_ = replace(NO_SETTINGS, launched_as=whole.launched_as, clock_errors=whole.clock_errors)
    context = find_context(whole.trace, settings_)
    window, collectives = choose_window(context), find_collectives(context)
    charges = find_lateness(context, window, collectives, attributions_of(context, window)).charges
    ranks = {rank.device_id: rank.number for rank in collectives.ranks.each}
    return Found(
        whole,
        window,
        {ranks[each]: ledger_rows(context.operations, each, window, collectives) for each in ranks},
        {ranks[each]: int(charges.wait_ns[charges.waiting == each].sum()) for each in ranks},
        [
            ranks[each.device_id]
            for each in find_late_ranks(context.steps, context.settings.clock_errors, window, collectives, charges)
        ],
    )


def check_sums(found: Found) -> None:
    """Check that each ledger adds up to its window, and the charges to the waits of the ledgers."""
    for rank, ledger in found.ledgers.items():
        assert sum(ledger.values()) == found.window.length_ns
        assert found.charged[rank] == ledger["communication_wait_ns"]


def split(found: Found) -> dict[int, tuple[int, ...]]:
    """Return exposed wait and transfer of each rank, in ns."""
    return {rank: tuple(each[name] for name in SPLIT) for rank, each in found.ledgers.items()}


@settings(max_examples=10, deadline=None)
@given(jobs, st.integers(1, 3), st.integers(0, 40_000))
def test_with_one_clock_the_split_is_that_of_a_plain_loop(planted: list[list[int]], buckets: int, jitter: int) -> None:
    job = Job(planted, buckets=buckets, jitter=jitter)
    found = found_in(job)
    check_sums(found)
    assert split(found) == looped(job)


@settings(max_examples=10, deadline=None)
@given(jobs, st.lists(clocks, min_size=4, max_size=4), st.integers(0, 20_000), st.sampled_from([0, 300_000_000]))
def test_with_several_clocks_the_split_is_within_the_stated_error(
    planted: list[list[int]], hosts: list[Clock], jitter: int, pause: int
) -> None:
    """Clocks differ by milliseconds and drift by 50 millionths; with pauses, the drift exceeds the error."""
    job = Job(planted, clocks=hosts, jitter=jitter, pause=pause)
    found = found_in(job)
    check_sums(found)
    errors = [clock.error_ns for clock in found.joined.clocks]
    assert None not in errors
    most = 2 * max(each for each in errors if each is not None) * (job.steps - WARM_UP) * job.buckets
    expected = looped(job)
    for rank, times in split(found).items():
        assert all(abs(time - true) <= most for time, true in zip(times, expected[rank], strict=True))


@settings(max_examples=6, deadline=None)
@given(st.integers(2, 4), st.integers(0, 400_000), st.integers(0, 30_000), st.booleans())
def test_a_balanced_job_names_nobody(ranks: int, delay: int, jitter: int, far: bool) -> None:  # noqa: FBT001
    hosts = [Clock(1_000_000 * rank, 20.0 * rank) for rank in range(ranks)] if far else []
    assert found_in(Job([[delay] * 8] * ranks, clocks=hosts, jitter=jitter)).late == []


@settings(max_examples=6, deadline=None)
@given(st.integers(3, 4), st.integers(0, 3), st.integers(0, 3), st.integers(200_000, 900_000))
def test_of_the_ranks_that_are_there_all_sums_hold(ranks: int, slow: int, lost: int, delay: int) -> None:
    """Waits for the lost rank count as waits for the last of the others, or as transfer; a note says so."""
    slow, lost = slow % ranks, lost % ranks
    job = Job([[delay if rank == slow else 0] * 9 for rank in range(ranks)], lost=frozenset({lost}))
    found = found_in(job)
    check_sums(found)
    assert split(found) == looped(job)
    assert found.joined.notes[0].startswith(f"{ranks - 1} of {ranks} ranks are here.")
    assert found.late == ([] if slow == lost else [slow])


@settings(max_examples=6, deadline=None)
@given(st.integers(5, 7), st.integers(0, 500_000), st.integers(-4_000_000, 4_000_000), st.integers(0, 99))
@example(recorded=5, delay=48_669, ahead=4_000_000, seed=45)
@example(recorded=5, delay=65_537, ahead=86_001, seed=13)
def test_a_rank_that_ends_early_keeps_its_place(recorded: int, delay: int, ahead: int, seed: int) -> None:
    """Its collectives are matched to the first ones of the others, also where its clock is far ahead.

    In both examples they fit the first ones of the others by chance elsewhere, too: then the error is unknown.
    """
    drawn = np.random.default_rng(seed).integers(900_000, size=(2, 9)) + np.array([[0], [delay]])
    job = Job(drawn.tolist(), ends_after={1: recorded}, clocks=[Clock(), Clock(ahead)])
    found = found_in(job)
    check_sums(found)
    clock = found.joined.clocks[1]
    # Both recordings began at the same true time, so the true offset is 0.
    assert clock.error_ns is None or abs(clock.offset_ns) <= clock.error_ns
