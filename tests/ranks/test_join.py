"""Reports of several ranks are joined, with the numbers of one report of all ranks. Refusals state a reason."""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from analysis_fixtures import run_section
from export_builder import trace_of
from hypothesis import given, settings
from hypothesis import strategies as st
from made_ranks import EPOCH, job, split
from real_captures import RealContext

from nsyswrap.base.errors import CannotTellError, UsageError
from nsyswrap.loop.context import NO_SETTINGS, TraceContext, find_context
from nsyswrap.model import Gpu
from nsyswrap.ranks.clocks import Clock, Ends, find_clocks
from nsyswrap.ranks.collectives import find_collectives
from nsyswrap.ranks.join import ReportIdentity, check_one_job, join
from nsyswrap.ranks.rank_report import Joined
from nsyswrap.report import choose_window
from nsyswrap.sections import ledger as ledger_section
from nsyswrap.trace import tables
from nsyswrap.trace.load import load_export
from nsyswrap.trace.tables import SPECS, Trace

RealTrace = Callable[[str], Trace]
LOADER = "ranks/loader"


def ledger(context: TraceContext) -> list[dict[str, int]]:
    section = run_section(ledger_section, context, choose_window(context))
    return [
        {str(key): int(value) for key, value in row.items()} for row in section.tables["devices"].to_dict("records")
    ]


def context_of(joined: Joined) -> TraceContext:
    return find_context(joined.trace, replace(NO_SETTINGS, launched_as=joined.launched_as))


def test_two_reports_have_the_ledger_of_one_report_of_both(real_trace: RealTrace, real_context: RealContext) -> None:
    """With one clock for both, all numbers are equal to the nanosecond."""
    whole = real_trace(LOADER)
    joined = join(split(whole, [0, 123_456_789]), "job")
    assert ledger(context_of(joined)) == ledger(real_context(LOADER))
    assert [clock.method for clock in joined.clocks] == ["one report", "UTC"]
    assert "UTC; they agree within" in joined.notes[-1]


@pytest.mark.parametrize("offset", [-5_000_000, 7_300_000])
def test_clocks_that_differ_are_joined_by_the_collectives(
    real_trace: RealTrace, real_context: RealContext, offset: int
) -> None:
    """The clock of another host is off by milliseconds. The ends of collectives correct it to microseconds (median)."""
    whole = real_trace("ddp_2gpu_slow_links")
    joined = join(split(whole, [0, offset], epochs=False), "job")
    found = joined.clocks[1]
    assert found.method == "collectives"
    assert found.error_ns is not None
    assert abs(found.offset_ns - offset) <= found.error_ns
    for mine, its in zip(ledger(context_of(joined)), ledger(real_context("ddp_2gpu_slow_links")), strict=True):
        for name in ("communication_wait_ns", "communication_transfer_ns"):
            assert mine[name] == pytest.approx(its[name], rel=0.02, abs=191 * found.error_ns)


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=3), st.integers(0, 300_000))
def test_the_split_does_not_depend_on_when_each_recording_began(offsets: list[int], late: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = job(len(offsets) + 1, 4, {1: late}).write(Path(folder) / "job.sqlite")
        whole = load_export(made)
    joined = join(split(whole, [0, *offsets]), "job")
    one, both = (find_collectives(find_context(trace)) for trace in (whole, joined.trace))
    assert (one.arrival - one.start).tolist() == (both.arrival - both.start).tolist()
    assert one.group.tolist() == both.group.tolist()


def test_ranks_keep_the_number_of_their_launcher() -> None:
    """This holds for reports in another order, and if each report has only GPU 0."""
    reports = split(trace_of(job(3, 4, {})), [0, 0, 0])
    alone = [
        replace(report, trace=_on_gpu_0(report.trace), rank=rank, world_size=3)
        for report, rank in zip(reports, (2, 0, 1), strict=True)
    ]
    joined = join(alone, "job")
    context = find_context(joined.trace, replace(NO_SETTINGS, launched_as=joined.launched_as))
    ranks = find_collectives(context).ranks
    assert [(rank.number, rank.device_id, rank.source) for rank in ranks.each] == [
        (0, 0, "launcher"),
        (1, 1, "launcher"),
        (2, 2, "launcher"),
    ]
    assert len(joined.trace.gpus) == 3


def _on_gpu_0(trace: Trace) -> Trace:
    """Return a trace whose only GPU has the number 0, as in a job in which each rank sees one GPU."""
    frames = {
        spec.name: trace[spec].assign(device_id=np.int32(0)) if "device_id" in spec.columns else trace[spec]
        for spec in SPECS
    }
    return replace(trace, frames=frames, gpus=(Gpu(0, "NVIDIA H200"),), gpu_uuids={})


def test_one_gpu_of_two_processes_is_one_gpu() -> None:
    reports = split(trace_of(job(2, 4, {})), [0, 0])
    same = [replace(each, trace=replace(_on_gpu_0(each.trace), gpu_uuids={0: "a1"})) for each in reports]
    assert [gpu.device_id for gpu in join(same, "job").trace.gpus] == [0]


def test_names_of_all_reports_have_one_number(real_trace: RealTrace) -> None:
    whole = real_trace(LOADER)
    joined = join(split(whole, [0, 0]), "job").trace
    for spec in (tables.KERNELS, tables.CALLS):
        assert len(joined[spec]) == len(whole[spec])
        texts = {joined.text(int(each)) for each in joined[spec]["name_id"].unique()}
        assert texts == {whole.text(int(each)) for each in whole[spec]["name_id"].unique()}
    assert joined[tables.RANGES]["text"].nunique() == whole[tables.RANGES]["text"].nunique()


def test_missing_ranks_are_noted() -> None:
    reports = [replace(each, world_size=8) for each in split(trace_of(job(2, 4, {})), [0, 0])]
    assert join(reports, "job").notes[0].startswith("2 of 8 ranks are here.")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([{"rank": 1}, {"rank": 1}], "rank-0 and rank-1 are both of rank 1"),
        ([{"world_size": 2}, {"world_size": 4}], "rank-0 is of a job with 2 ranks, rank-1 of one with 4"),
    ],
)
def test_reports_of_different_jobs_are_refused(changes: list[dict[str, int]], message: str) -> None:
    reports = split(trace_of(job(2, 4, {})), [0, 0])
    changed = [replace(report, **change) for report, change in zip(reports, changes, strict=True)]  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=message):
        join(changed, "job")


def test_a_job_has_at_most_1024_reports() -> None:
    reports = [ReportIdentity(f"rank-{rank}", rank, None, frozenset()) for rank in range(1025)]
    check_one_job(reports[:1024])
    with pytest.raises(UsageError, match="1025 reports"):
        check_one_job(reports)


def test_a_recording_is_not_given_twice(real_trace: RealTrace) -> None:
    """A copy under another name has no rank in its name, so only what was recorded tells."""
    one = split(real_trace(LOADER), [0, 0])[0]
    with pytest.raises(UsageError, match="rank-0 and copy are the same recording"):
        join([one, replace(one, name="copy", rank=None)], "job")


def test_reports_of_different_communicators_are_refused(real_trace: RealTrace) -> None:
    one = split(real_trace("ddp_2gpu_slow_links"), [0, 0])[0]
    other = split(real_trace(LOADER), [0, 0])[1]
    with pytest.raises(UsageError, match="shares no communicator"):
        join([one, other], "job")


def test_reports_of_different_times_are_refused() -> None:
    early, late = split(trace_of(job(2, 4, {})), [0, 0])
    kernels = late.trace[tables.KERNELS]
    late = replace(late, trace=replace(late.trace, frames={**late.trace.frames, "kernels": kernels.iloc[:-1]}))
    with pytest.raises(UsageError, match="rank-0 ended before rank-1 began"):
        join([early, replace(late, trace=replace(late.trace, epoch_ns=EPOCH + 10**12))], "job")


def test_clocks_without_any_relation_cannot_be_joined() -> None:
    early, late = split(trace_of(job(2, 4, {})), [0, 0])
    kernels = late.trace[tables.KERNELS].iloc[:-2]
    trace = replace(late.trace, frames={**late.trace.frames, "kernels": kernels}, epoch_ns=None)
    with pytest.raises(CannotTellError, match="how its clock differs"):
        join([early, replace(late, trace=trace)], "job")


def test_a_clock_has_the_error_of_what_it_is_joined_by() -> None:
    ends, kinds = np.arange(10, dtype=np.int64) * 10**6, ("AllReduce",) * 10
    reference = Ends(ends, kinds)
    near, far, other = Ends(ends - 700, kinds), Ends(ends - 5_000_000, kinds), Ends(ends, ("AllGather",) * 10)
    found = find_clocks([EPOCH, EPOCH, EPOCH, EPOCH + 9, None], [reference, near, far, other, far])
    assert found == (
        Clock(0, 0, "one report"),
        Clock(0, 700, "UTC"),
        Clock(5_000_000, 43_000, "collectives"),
        Clock(9, None, "UTC"),
        Clock(5_000_000, 43_000, "collectives"),
    )
