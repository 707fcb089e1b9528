"""The steps of a job on its GPUs: they follow one another, agree with a plain loop, and one of them is typical."""

import numpy as np
import pytest
from export_builder import global_id, trace_of
from made_ranks import job
from real_captures import RealContext

from nsyswrap.base.intervals import Window
from nsyswrap.loop.context import TraceContext, find_context
from nsyswrap.ranks.collectives import find_collectives
from nsyswrap.ranks.identity import Rank
from nsyswrap.ranks.job_steps import JobSteps, find_job_steps
from nsyswrap.render.summary_model import records
from nsyswrap.report import choose_window
from nsyswrap.trace import tables


def steps_of(context: TraceContext) -> JobSteps:
    """Return the steps of a job in its default window."""
    found = find_job_steps(context, find_collectives(context).ranks, choose_window(context))
    assert found is not None
    return found


def ended_before(context: TraceContext, rank: Rank, at: int) -> int:
    """Return when the GPU of a rank ended all that its process had launched before a moment, by a plain loop."""
    operations, calls = context.operations, context.trace[tables.CALLS]
    found = at
    ends = []
    for row in operations.on(rank.device_id).tolist():
        call = int(operations.call[row])
        launched = int(calls["start"].iloc[call]) if call >= 0 else int(operations.start[row])
        if int(operations.process[row]) == rank.process and launched < at:
            ends.append(int(operations.end[row]))
    return max(ends, default=found)


def test_a_step_lasts_from_the_end_of_the_one_before() -> None:
    """On the GPUs of three ranks each step takes 1.4 ms: the late rank loads 0.4 ms longer."""
    found = steps_of(find_context(trace_of(job(3, 8, {1: 400_000}))))
    assert found.names == ("step 3", "step 4", "step 5", "step 6", "step 7")
    assert found.length.tolist() == [1_400_000] * 5
    assert (found.begin[1:] == found.end[:-1]).all()


@pytest.mark.parametrize("name", ["ranks/loader", "ranks/checkpoints"])
def test_steps_of_a_real_job_agree_with_a_plain_loop(name: str, real_context: RealContext) -> None:
    context = real_context(name)
    found = steps_of(context)
    frame = context.steps.counted
    for place, rank in enumerate(found.ranks):
        mine = frame[frame["process"] == rank.process]
        for at in (0, len(found.names) // 2):
            (step,) = records(mine[mine["name"] == found.names[at]])
            start, following = step["start"], mine["start"][mine["start"] >= step["end"]]
            assert int(found.begin[at, place]) == ended_before(context, rank, start)
            assert int(found.end[at, place]) == ended_before(context, rank, int(following.min()))


def test_waits_of_steps_are_those_of_their_collectives() -> None:
    """Two ranks wait 0.4 ms for the third in each step."""
    context = find_context(trace_of(job(3, 8, {1: 400_000})))
    collectives = find_collectives(context)
    exposed = collectives.arrival - collectives.start
    assert steps_of(context).waits(collectives, exposed).tolist() == [2 * 400_000] * 5


def test_the_median_step_stands_for_the_job() -> None:
    assert made([30, 10, 20]).chosen(np.array([5, 5, 5])) == (2,)


def test_a_median_step_without_waits_comes_with_the_one_that_has_most() -> None:
    """Every third step waits: the median step does not show it."""
    assert made([20, 21, 90]).chosen(np.array([0, 1, 80])) == (1, 2)


@pytest.mark.parametrize(("wait", "chosen"), [(18, (1, 2)), (24, (1,))])
def test_a_median_step_that_waits_half_as_long_as_the_mean_is_typical(wait: int, chosen: tuple[int, ...]) -> None:
    """The mean step waits 39 ns, or 41 ns."""
    assert made([20, 21, 90]).chosen(np.array([0, wait, 100])) == chosen


def made(lengths: list[int]) -> JobSteps:
    edges = np.cumsum([0, *lengths])[:, None]
    return JobSteps(tuple(map(str, lengths)), (Rank(0, 1, 0, "NCCL"),), edges[:-1], edges[1:])


def test_a_rank_without_steps_has_those_of_another() -> None:
    """Only rank 0 marks its steps."""
    built = job(2, 8, {})
    other = global_id(5001) | 5001
    built.rows["NVTX_EVENTS"] = [row for row in built.rows["NVTX_EVENTS"] if row["globalTid"] != other]
    found = steps_of(find_context(trace_of(built)))
    assert (found.begin[:, 0] == found.begin[:, 1]).all()


def test_without_steps_there_are_none() -> None:
    built = job(2, 8, {})
    built.rows["NVTX_EVENTS"] = []
    context = find_context(trace_of(built))
    window = Window(0, 8_000_000, "all", "user")
    if not len(context.steps.counted):
        assert find_job_steps(context, find_collectives(context).ranks, window) is None
