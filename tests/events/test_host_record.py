"""host.json is read in the time of the capture. A file that cannot be read gives an empty record."""

from typing import Any

import numpy as np
import pytest
from export_builder import MAIN, PID, thread
from host_records import STARTED_NS, gpu_samples, record_of, recorded, thread_samples

from nsyswrap.events.host_record import NO_RECORD, read_record

MADE = recorded(
    [-100, 0, 100, 200],
    spent_ns=7,
    quota_cores=1.5,
    throttled={"at": [0, 2], "count": [1, 4], "ns": [10, 50]},
    threads=[thread_samples([0, 0, 30, 90])],
    processes=[{"process": PID, "at": [0, 3], "major_faults": [0, 3], "read_bytes": [0, 300], "written_bytes": [5, 5]}],
    gpus=[gpu_samples([1980, 1400], [0, 4])],
)


def test_times_are_those_of_the_capture() -> None:
    found = record_of(MADE)
    assert found.times.tolist() == [-100, 0, 100, 200]
    assert found.throttled.at.tolist() == [-100, 100]
    assert found.of_thread(MAIN).values["delay_ns"].tolist() == [0, 0, 30, 90]
    assert found.gpus[0].samples.values["reasons"].tolist() == [0, 4]
    assert (found.quota_cores, found.spent_ns, found.cores["allowed"]) == (1.5, 7, 2)


def test_growth_between_samples_is_even() -> None:
    """A growth of 300 bytes in 300 ns gives 100 bytes in 100 ns. Outside the samples nothing grows."""
    found = record_of(MADE).processes[PID]
    assert found.growth("read_bytes", 0, 100) == 100
    assert found.growth("read_bytes", -900, 900) == 300
    assert found.growth("written_bytes", -900, 900) == 0


def test_a_thread_without_samples_has_none() -> None:
    assert not len(record_of(MADE).of_thread(thread(99)).at)
    assert record_of(MADE).of_thread(thread(99)).growth("delay_ns", 0, 100) == 0


@pytest.mark.parametrize(
    "broken",
    [
        None,
        [],
        {},
        recorded([0, 100, 50]),
        {**MADE, "times_ns": "x"},
        {**MADE, "threads": [{"process": 1}]},
        {**MADE, "threads": [{**thread_samples([1, 2]), "delay_ns": [1]}]},
        {**MADE, "threads": [{**thread_samples([1, 2]), "at": [0, 99]}]},
        {**MADE, "cores": None},
        {**MADE, "times_ns": [1e308]},
        {**MADE, "spent_ns": 1e999},
    ],
)
def test_a_broken_record_is_no_record(broken: Any) -> None:  # noqa: ANN401 - anything may be in a file
    assert read_record(broken, STARTED_NS) is NO_RECORD


def test_without_the_start_of_the_capture_samples_cannot_be_placed() -> None:
    assert read_record(MADE, None) is NO_RECORD


def test_samples_keep_their_times_where_the_times_of_the_capture_are_utc() -> None:
    np.testing.assert_array_equal(read_record(MADE, 0).times, MADE["times_ns"])
