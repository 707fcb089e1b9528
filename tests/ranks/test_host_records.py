"""The samples of hosts and the cost of recording of several ranks, as one."""

import numpy as np
from host_records import gpu_samples, record_of, recorded, thread_samples

from nsyswrap.base.interval import Interval
from nsyswrap.events.host_record import NO_RECORD, HostRecord
from nsyswrap.hardware.profiler_cost import CallCost, ProfilerCost
from nsyswrap.ranks.clocks import Clock
from nsyswrap.ranks.host_records import cost_of_job, host_of_job

FIRST, LATER = Clock(0, 0, "one report"), Clock(5_000, 10, "UTC")
ONE, OTHER = frozenset({"gpu-a", "gpu-b"}), frozenset({"gpu-c"})


def host(pid: int, delay: int) -> HostRecord:
    """Return the samples of a rank whose thread waits for a core, and of a GPU."""
    threads = [thread_samples([0, delay], thread=pid, process=pid)]
    return record_of(recorded([1_000, 2_000], threads=threads, gpus=[gpu_samples([1500, 1400], [0, 0])], spent_ns=7))


def test_ranks_of_one_host_are_in_one_clock() -> None:
    """The second report began 5 us later, so its samples are 5 us later, too."""
    found = host_of_job([host(50, 400), host(51, 600)], [FIRST, LATER], [ONE, ONE | OTHER])
    assert found.threads[50, 50].at.tolist() == [1_000, 2_000]
    assert found.threads[51, 51].at.tolist() == [6_000, 7_000]
    assert found.threads[51, 51].growth("delay_ns", 6_000, 7_000) == 600
    assert found.spent_ns == 14
    assert len(found.gpus) == 1
    assert found.cores == {"machine": 8, "allowed": 2}


def test_of_several_hosts_only_what_is_of_one_process_is_kept() -> None:
    """Process 50 is there twice, so nothing tells which one a thread of the capture is of."""
    found = host_of_job([host(50, 400), host(50, 600), host(52, 100)], [FIRST, LATER, LATER], [ONE, OTHER, OTHER])
    assert set(found.threads) == {(52, 52)}
    assert (found.gpus, found.cores, found.quota_cores) == ((), {}, None)


def test_reports_without_samples_have_none() -> None:
    assert host_of_job([NO_RECORD, NO_RECORD], [FIRST, LATER], [ONE, ONE]) is NO_RECORD


def test_samples_of_one_rank_are_those_of_the_job() -> None:
    found = host_of_job([NO_RECORD, host(51, 600)], [FIRST, LATER], [ONE, ONE])
    assert np.array_equal(found.times, [6_000, 7_000])


def test_the_cost_of_recording_has_bounds_of_all_ranks() -> None:
    one = ProfilerCost({"launch": CallCost(Interval(1.0, 2.0, 3.0), 4.0)}, pace_range=1.2)
    other = ProfilerCost({"launch": CallCost(Interval(2.0, 4.0, 5.0), 6.0)}, pace_range=1.7)
    found = cost_of_job([one, None, other])
    assert found is not None
    assert found["launch"] == CallCost(Interval(1.0, 3.0, 5.0), 5.0)
    assert found.pace_range == 1.7
    assert cost_of_job([None, None]) is None
