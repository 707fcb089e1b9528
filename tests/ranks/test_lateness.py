"""Each wait is charged to a late rank and a cause: exact sums, real jobs with one fault, and chains of ranks."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from analysis_fixtures import attributions_of
from export_builder import ExportBuilder, global_id, trace_of
from hypothesis import given, settings
from hypothesis import strategies as st
from made_ranks import REDUCE, job
from rank_generator import pipeline
from real_captures import RealContext, of_captures

from nsyswrap.base.intervals import Window, total
from nsyswrap.loop.context import TraceContext, find_context
from nsyswrap.loop.own_windows import find_own_windows
from nsyswrap.ranks.charging import charged as charged_waits
from nsyswrap.ranks.collectives import NO_COLLECTIVES, find_collectives
from nsyswrap.ranks.in_step import NEVER
from nsyswrap.ranks.late_ranks import find_late_ranks
from nsyswrap.ranks.lateness import Lateness, find_lateness
from nsyswrap.ranks.rank_times import RankTimes
from nsyswrap.ranks.same_work import MORE_WORK, PACE, SLOWER_GPU, UNKNOWN
from nsyswrap.report import choose_window
from nsyswrap.trace.tables import Trace

WHY = {
    "ranks/loader": (1, "idle/data_wait", "data"),
    "ranks/uneven_input": (1, MORE_WORK, ""),
    "ranks/host_in_backward": (1, "idle/cpu", "backward"),
    "ranks/slower_gpu": (1, SLOWER_GPU, ""),
    "ranks/checkpoints": (0, "", "batch"),
}


def written(built: ExportBuilder) -> Trace:
    return trace_of(built)


def lateness_of(context: TraceContext) -> Lateness:
    """Return the lateness of the ranks in the default window."""
    window = choose_window(context)
    return find_lateness(context, window, find_collectives(context), attributions_of(context, window))


def charged(context: TraceContext) -> "pd.Series[int]":
    """Return the waits by waiting GPU, late GPU, rule and phase, the longest first."""
    found = lateness_of(context).charges
    frame = pd.DataFrame(
        {
            "waiting": found.waiting,
            "late": found.late,
            "rule": found.rule,
            "phase": [context.phases.name(int(each)) for each in found.phase],
            "ns": found.wait_ns,
        }
    )
    return frame.groupby(["waiting", "late", "rule", "phase"])["ns"].sum().sort_values(ascending=False)


@of_captures([*WHY, "ranks/balanced", "ddp_2gpu_slow_links", "alexnet_data_parallel_2gpu"])
def test_charges_add_up_to_the_waits_of_the_ledger(name: str, real_context: RealContext) -> None:
    """The ledger of a rank is that of its own steps."""
    context = real_context(name)
    window, collectives = choose_window(context), find_collectives(context)
    charges = lateness_of(context).charges
    for device in context.operations.devices:
        own = find_own_windows(context, window).on(device)
        waiting = total(collectives.exclusive(context.operations, device, own)[1])
        assert int(charges.wait_ns[charges.waiting == device].sum()) == waiting
    assert (charges.wait_ns > 0).all()


@pytest.mark.parametrize("name", WHY)
def test_most_of_a_real_wait_is_charged_to_the_planted_fault(name: str, real_context: RealContext) -> None:
    late, rule, phase = WHY[name]
    found = charged(real_context(name)).reset_index()
    right = found[(found["late"] == late) & (rule in {"", *found["rule"]})]
    right = right[(right["rule"] == rule) | (rule == "")]
    right = right[(right["phase"] == phase) | (phase == "")]
    assert right["ns"].sum() > 0.7 * found["ns"].sum()


def test_the_loader_of_a_late_rank_explains_all_waits_for_it() -> None:
    found = charged(find_context(trace_of(job(3, 6, {1: 400_000}))))
    assert found.to_dict() == {(0, 1, "idle/data_wait", "data"): 1_600_000, (2, 1, "idle/data_wait", "data"): 1_600_000}


def test_ranks_that_are_late_by_turns_are_each_charged() -> None:
    """Rank 2 is later than rank 1, so all ranks wait for it, and rank 1 waits less."""
    found = charged(find_context(trace_of(job(3, 6, {1: 300_000, 2: 400_000}))))
    assert found.groupby(["waiting", "late"]).sum().to_dict() == {(0, 2): 1_600_000, (1, 2): 400_000}


def chain() -> ExportBuilder:
    """Return three ranks: rank 1 waits for rank 0 in one communicator, and rank 2 for rank 1 in another.

    ::

        rank 0    |..... load ......|#A#|
        rank 1    |load|......A.....|#A#|#gemm#|#B#|
        rank 2    |load|...............B.......|#B#|
    """
    built = ExportBuilder()
    for number in range(6):
        at = 1000 + 10_000_000 * number
        for rank in range(3):
            process, main = global_id(50 + rank), global_id(50 + rank, 50 + rank)
            ready = at + (4_000_000 if rank == 0 else 100_000)
            built.range(f"step {number}", at, at + 10_000_000, thread=main).range("data", at, ready, thread=main)
            built.os_call("poll", at + 10, ready - 10, thread=main)
            about = {"device": rank, "process": process, "thread": main}
            sent = []
            if rank < 2:
                sent.append((ready + 1000, at + 4_002_000, 8))
            if rank > 0:
                sent.append(((at + 6_000_000) if rank == 1 else ready + 1000, at + 6_001_000, 9))
            for place, (start, end, stream) in enumerate(sent):
                begun = ready + 100 + 10 * place
                built.kernel(start, end, REDUCE, launched=(begun, begun + 5), stream=stream, **about)
            if rank == 1:
                built.kernel(at + 4_002_100, at + 5_999_000, "gemm", launched=(ready + 150, ready + 155), **about)
            built.kernel(at + 6_002_000, at + 9_999_000, "adam", launched=(ready + 200, ready + 205), **about)
    return built


def test_a_wait_for_a_rank_that_waited_itself_goes_on_to_the_first_cause() -> None:
    found = charged(find_context(trace_of(chain())))
    of_rank_2 = found.xs(2, level="waiting").groupby(["late", "rule"]).sum()
    assert of_rank_2[0, "idle/data_wait"] > 0.5 * of_rank_2.sum()
    assert found.xs(1, level="waiting").groupby(["late", "rule"]).sum().idxmax() == (0, "idle/data_wait")


def test_a_stage_of_a_pipeline_that_waits_for_a_message_has_a_bubble() -> None:
    """Each stage waits for the one before it, which computes: no rank is late."""
    context = find_context(trace_of(pipeline(8)[0]))
    found = charged(context).reset_index()
    bubbles = found[found["rule"] == "ranks/pipeline"]
    assert bubbles["ns"].sum() > 0.8 * found["ns"].sum() > 0
    assert set(found["rule"]) <= {"ranks/pipeline", PACE, UNKNOWN}
    window, collectives = choose_window(context), find_collectives(context)
    assert find_late_ranks(context.steps, {}, window, collectives, lateness_of(context).charges) == ()


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(st.lists(st.integers(0, 500_000), min_size=2, max_size=5), st.integers(3, 6))
def test_every_wait_is_charged_once_whoever_is_late(delays: list[int], steps: int) -> None:
    """In each measured step, the wait of a rank is the time from its arrival to that of the latest rank."""
    context = find_context(written(job(len(delays), steps, dict(enumerate(delays)))))
    found = lateness_of(context).charges
    measured = context.steps.measured_count
    for device, delay in enumerate(delays):
        assert int(found.wait_ns[found.waiting == device].sum()) == measured * (max(delays) - delay)
    assert {delays[each] for each in found.late.tolist()} <= {max(delays)}


def test_some_charges_are_chosen_by_a_mask() -> None:
    found = lateness_of(find_context(trace_of(job(3, 6, {1: 400_000})))).charges
    assert set(found.of(found.waiting == 2).waiting.tolist()) == {2}
    assert len(found.of(np.zeros(len(found.waiting), bool)).wait_ns) == 0


@pytest.mark.parametrize(("left", "loading"), [(240, 0), (260, 231)])
def test_ranks_are_in_step_where_one_has_a_quarter_of_the_wait_left_to_compute(left: int, loading: int) -> None:
    """Rank 1 loads 300 us longer before the first collective, and its host works 1 ms longer before the second.

    Rank 0 waits 1 ms in the second one: for the host alone where both were in step after the first one.
    """
    us = 1000
    at = np.array([0, 400, 2_000, 3_000], np.int64) * us
    collectives = replace(
        NO_COLLECTIVES,
        row=np.arange(4),
        start=at,
        end=np.array([410, 410, 3_010, 3_010]) * us,
        device_id=np.array([0, 1, 0, 1], np.int32),
        group=np.array([0, 0, 1, 1]),
        arrival=at[[1, 1, 3, 3]],
        last=np.array([1, 1, 3, 3]),
        kind=np.zeros(4, np.intp),
        kinds=("AllReduce",),
    )
    times = []
    for device, wait, lag, more in ((0, 1_000, 0, 0), (1, 0, left, 1)):
        spent = more * np.array([[300, 0], [300, 1_000]]) * us
        rules = (("idle/data_wait", "data"), ("idle/cpu", "data"))
        lags = np.array([lag * us, NEVER])
        waits = np.array([0, wait]) * us
        times.append(RankTimes(device, {}, rules, spent, spent, waits, 0 * waits, lags, {}, pd.DataFrame()))
    found = charged_waits(collectives, times, Window(0, 4_000 * us, "", "operations"), ("data",))
    assert found.wait_ns.sum() == 1_000 * us
    assert round(found.wait_ns[found.rule == "idle/data_wait"].sum() / us) == loading
