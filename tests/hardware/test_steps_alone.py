"""The steps that were timed alone, as they lie beside a capture."""

from typing import Any

import pytest

from nsyswrap.hardware.steps_alone import NO_STEPS_ALONE, read_steps_alone, steps_of_job


def file(**changes: object) -> dict[str, Any]:
    """Return what a file holds, for one process with changes."""
    process = {"pid": 7, "rank": 1, "first_step": 3, "host_ns": [9, 9], "gpu_ns": [10, 11], "data_ns": [1, 2]}
    return {"version": 1, "processes": [process | changes]}


def test_times_of_the_gpu_come_before_those_of_the_host() -> None:
    (timed,) = read_steps_alone(file()).processes
    (by_host,) = read_steps_alone(file(gpu_ns=None)).processes
    assert (timed.pid, timed.rank, timed.lengths.tolist()) == (7, 1, [10, 11])
    assert by_host.lengths.tolist() == [9, 9]
    assert timed.data is not None
    assert timed.data.tolist() == [1, 2]


def test_times_of_the_loader_count_only_where_there_is_one_a_step() -> None:
    (timed,) = read_steps_alone(file(data_ns=[1])).processes
    assert timed.data is None


@pytest.mark.parametrize(
    "wrong",
    [
        *(None, [], "text", {"version": 2}, {"version": 1}, {"version": 1, "processes": "text"}),
        *(file(pid="7"), file(gpu_ns=None, host_ns=None), file(gpu_ns=None, host_ns=[1.5]), file(gpu_ns=[0])),
    ],
)
def test_what_is_no_time_is_left_out(wrong: object) -> None:
    assert read_steps_alone(wrong) == NO_STEPS_ALONE


def test_a_process_without_steps_takes_those_of_its_rank_or_else_of_all() -> None:
    both = read_steps_alone({"version": 1, "processes": [*file()["processes"], *file(pid=8, rank=2)["processes"]]})
    assert [each.pid for each in both.of(7, None)] == [7]
    assert [each.pid for each in both.of(9, 2)] == [8]
    assert [each.pid for each in both.of(9, None)] == [7, 8]


def test_the_steps_of_a_job_have_the_ranks_of_its_reports() -> None:
    """Two hosts may give their processes the same number."""
    one, other = read_steps_alone(file(rank=None)), read_steps_alone(file(rank=None, gpu_ns=[20, 20]))
    job = steps_of_job([(0, one), (1, other)])
    assert [each.lengths.tolist() for each in job.of(7, 1)] == [[20, 20]]
