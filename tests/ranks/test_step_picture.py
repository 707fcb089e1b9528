"""The picture of a step: segments with the exact time of each kind, and collectives from arrival to end."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from analysis_fixtures import attributions_of
from export_builder import ExportBuilder, global_id, trace_of
from made_ranks import REDUCE, job
from real_captures import RealTrace

from nsyswrap.base.intervals import Window
from nsyswrap.loop.context import TraceContext, find_context
from nsyswrap.ranks.collectives import Collectives, find_collectives
from nsyswrap.ranks.job_steps import JobSteps, find_job_steps
from nsyswrap.ranks.lateness import Lateness, find_lateness
from nsyswrap.ranks.step_picture import (
    COLLECTIVES,
    KINDS,
    NO_RANK,
    SEGMENTS,
    find_collectives_of,
    find_segments,
)
from nsyswrap.report import choose_window
from nsyswrap.sections.ledger import ledger_rows
from nsyswrap.trace.tables import Trace

Job = tuple[TraceContext, Collectives, Lateness, JobSteps]
TIMES = [f"{kind}_ns" for kind in KINDS]


def job_of(trace: Trace) -> Job:
    context = find_context(trace)
    window, collectives = choose_window(context), find_collectives(context)
    steps = find_job_steps(context, collectives.ranks, window)
    assert steps is not None
    return context, collectives, find_lateness(context, window, collectives, attributions_of(context, window)), steps


def segments_of(made: Job, step: int = 0) -> pd.DataFrame:
    return find_segments(*made, step, made[1].ranks.each)


def test_a_late_rank_loads_while_the_others_wait() -> None:
    found = segments_of(job_of(trace_of(job(3, 8, {1: 400_000}))))
    assert tuple(found.columns) == SEGMENTS
    rank_0, rank_1 = (found[found["rank"] == rank] for rank in (0, 1))
    assert list(zip(rank_0["what"], rank_0["phase"], strict=True)) == [
        ("phase", "data"),
        ("phase", "forward"),
        ("wait", ""),
        ("phase", "forward"),
    ]
    assert rank_1["what"].tolist() == ["phase", "phase"]
    assert rank_0["waits_for_rank"].tolist() == [NO_RANK, NO_RANK, 1, NO_RANK]
    assert rank_1["rule"].iloc[0] == "idle/data_wait"
    assert int(rank_1["idle_ns"].iloc[0]) >= 490_000


@pytest.mark.parametrize("name", ["ranks/loader", "ranks/checkpoints", "alexnet_data_parallel_2gpu"])
def test_segments_follow_one_another_and_have_the_time_of_the_ledger(name: str, real_trace: RealTrace) -> None:
    """For each rank and step the parts are the ledger of the step, to the nanosecond."""
    made = job_of(real_trace(name))
    context, collectives, _, steps = made
    for step in (0, len(steps.names) - 1):
        found = segments_of(made, step)
        for place, rank in enumerate(steps.ranks):
            mine = found[found["rank"] == rank.number]
            begin, end = int(steps.begin[step, place]), int(steps.end[step, place])
            assert [begin, *mine["end_ns"].tolist()] == [*mine["start_ns"].tolist(), end]
            ledger = ledger_rows(context.operations, rank.device_id, Window(begin, end, "step", "user"), collectives)
            copies = ledger["copy_exposed_ns"] + ledger["memset_exposed_ns"]
            wait, transfer = ledger["communication_wait_ns"], ledger["communication_transfer_ns"]
            expected = [ledger["compute_ns"], copies, transfer, wait, ledger["idle_ns"]]
            assert mine[TIMES].sum().tolist() == expected


def test_a_segment_is_what_takes_most_of_each_of_its_bins(real_trace: RealTrace) -> None:
    """No two neighbours are the same, and waiting takes most of a segment of waiting."""
    found = segments_of(job_of(real_trace("ranks/loader")))
    keys = list(zip(found["rank"], found["what"], found["phase"], strict=True))
    assert all(one != other for one, other in pairwise(keys))
    waits = found[found["what"] == "wait"]
    assert (waits["wait_ns"] * 2 > waits["end_ns"] - waits["start_ns"]).all()
    assert set(waits["waits_for_rank"]) == {1}


def test_ranks_without_activity_have_no_segments() -> None:
    context, collectives, lateness, steps = job_of(trace_of(job(2, 8, {})))
    nothing = Lateness(lateness.charges, {}, lateness.exposed_wait, lateness.exposed_transfer)
    assert len(find_segments(context, collectives, nothing, steps, 0, steps.ranks)) == 0


def test_collectives_of_a_step_are_those_of_a_plain_loop(real_trace: RealTrace) -> None:
    _, collectives, _, steps = job_of(real_trace("ranks/loader"))
    found, count = find_collectives_of(collectives, steps, 2, steps.ranks)
    expected = set()
    for place, rank in enumerate(steps.ranks):
        for index in range(len(collectives.start)):
            ended = steps.begin[2, place] < collectives.end[index] <= steps.end[2, place]
            if collectives.device_id[index] == rank.device_id and ended and collectives.group[index] >= 0:
                group = int(collectives.group[index])
                others = np.flatnonzero(collectives.group == group)
                last = int(others[np.argmax(collectives.start[others])]) == index
                arrival = min(int(collectives.start[others].max()), int(collectives.end[index]))
                expected.add((group, rank.number, int(collectives.start[index]), arrival, last))
    columns = ["collective", "rank", "start_ns", "arrival_ns", "is_last"]
    assert {tuple(row) for row in found[columns].itertuples(index=False)} == expected
    assert tuple(found.columns) == COLLECTIVES
    assert count == len({group for group, *_ in expected})


def test_the_24_longest_collectives_of_a_step_are_kept() -> None:
    built = ExportBuilder()
    for rank in range(2):
        process = global_id(5000 + rank)
        for step in range(4):
            at = 1_000 + step * 1_000_000
            built.range(f"step {step}", at, at + 900_000, thread=process | 1)
            for number in range(30):
                start, launched = at + number * 20_000, (at + number * 20, at + number * 20 + 10)
                about = {"device": rank, "process": process, "thread": process | 1}
                built.kernel(start, start + 100 * (number + 1), REDUCE, launched=launched, **about)
    _, collectives, _, steps = job_of(trace_of(built))
    kept, count = find_collectives_of(collectives, steps, 0, steps.ranks)
    assert (count, kept["collective"].nunique()) == (30, 24)
    assert (kept["end_ns"] - kept["start_ns"]).min() == 700


def test_segments_lie_on_240_bins_of_the_step() -> None:
    """A step takes 1 ms and a wait 4.3 us, a little longer than a bin."""
    found = segments_of(job_of(trace_of(job(2, 8, {1: 4_300}))))
    wait = found.loc[found["what"] == "wait", ["start_ns", "end_ns"]].to_numpy()
    axis = np.linspace(found["start_ns"].min(), found["end_ns"].max(), 241).round()
    assert wait.shape == (1, 2)
    assert np.isin(wait, axis).all()
