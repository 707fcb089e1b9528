"""A rank is named as late only beyond chance, weighted by time, and never for the pace of its host alone."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from analysis_fixtures import attributions_of
from export_builder import trace_of
from made_ranks import job
from real_captures import RealReport, of_captures

from nsyswrap.base.intervals import Window
from nsyswrap.loop.context import find_context
from nsyswrap.loop.step_detection import Steps
from nsyswrap.model import Finding, Report
from nsyswrap.ranks.charging import Charges
from nsyswrap.ranks.collectives import NO_COLLECTIVES, find_collectives
from nsyswrap.ranks.late_ranks import find_late_ranks
from nsyswrap.ranks.lateness import find_lateness
from nsyswrap.report import choose_window, report_of
from nsyswrap.sections import late_ranks
from nsyswrap.trace.tables import Trace

NAMED = {
    "ranks/loader": "its data loader; rank 0 waits.",
    "ranks/uneven_input": "it has more to compute; rank 0 waits.",
    "ranks/host_in_backward": "CPU outside CUDA calls in backward; rank 0 waits.",
    "ranks/slower_gpu": "its GPU takes longer for the same kernels; rank 0 waits.",
}


def communication_of(trace: Trace) -> Report:
    """Return the report of a trace with the one section that has the findings on late ranks."""
    return report_of(find_context(trace), keys=("communication",))


def late(report: Report) -> list[Finding]:
    return [each for each in report.findings if each.rule == "ranks/late"]


@pytest.mark.parametrize("name", NAMED)
def test_the_first_finding_of_a_real_job_names_the_late_rank_and_why(name: str, real_report: RealReport) -> None:
    report = real_report(name)
    first = report.findings[0]
    assert (first.rule, first.device_id, first.severity) == ("ranks/late", 1, "problem")
    assert first.headline.endswith(NAMED[name])
    assert report.verdict.startswith(first.headline)
    assert "if the late rank were in time" in report.verdict


def test_of_ranks_with_more_steps_as_many_count_as_the_others_have(real_report: RealReport) -> None:
    """Rank 0 takes nine steps after its warm-up and rank 1 eight: each number is about eight of both."""
    report = real_report("ranks/loader")
    assert report.window.label.startswith("8 measured steps ")
    assert report.findings[0].evidence[0].endswith(" of the 8 steps")
    steps = report.section("steps")
    assert steps is not None
    assert "The 16 measured steps are those of 2 processes together." in steps.notes


def test_two_checkpoints_in_eight_steps_may_be_chance(real_report: RealReport) -> None:
    """The waits are charged to rank 0, but with so few steps the confidence interval contains zero."""
    assert late(real_report("ranks/checkpoints")) == []


@of_captures(
    ["ranks/balanced", "ddp_2gpu_slow_links", "alexnet_data_parallel_2gpu"],
    few={"ranks/balanced", "alexnet_data_parallel_2gpu"},
)
def test_a_job_without_a_late_rank_names_none(name: str, real_report: RealReport) -> None:
    assert late(real_report(name)) == []


def test_waits_for_slow_links_are_no_lateness(real_report: RealReport) -> None:
    assert real_report("ddp_2gpu_slow_links").verdict_rule == "communication/slow_links"


def test_hosts_that_work_equally_long_and_keep_a_distance_are_not_late(real_report: RealReport) -> None:
    """Both work 25 ms inside forward. The GPU of one waits 12 ms a step for the other, else it would wait for its host.

    A change of both saves 26 ms a step, as measured without that work.
    """
    report = real_report("ranks/host_on_all")
    assert report.findings[0].rule == "idle/cpu"
    assert late(report) == []


def test_a_rank_that_is_late_in_all_steps_is_named_with_those_that_wait() -> None:
    (found,) = late(communication_of(trace_of(job(4, 12, {2: 400_000}))))
    assert found.headline == "Rank 2 is late by 400 µs a step: its data loader; ranks 0, 1 and 3 wait."
    assert found.lost_ns == 10 * 400_000
    assert found.evidence[0] == "others wait for it in 100.0 % of the 10 steps"


def test_two_late_ranks_lose_what_fixing_each_would_save() -> None:
    """If rank 2 were in time, the job would still wait 300 us for rank 1."""
    context = find_context(trace_of(job(4, 12, {1: 300_000, 2: 400_000})))
    window, collectives = choose_window(context), find_collectives(context)
    charges = find_lateness(context, window, collectives, attributions_of(context, window)).charges
    found = find_late_ranks(context.steps, {}, window, collectives, charges)
    assert [(each.device_id, each.lost_ns) for each in found] == [(2, 10 * 100_000)]


def test_a_rank_that_is_late_once_is_not_named() -> None:
    """One late step of ten may be chance: the confidence interval contains zero."""
    built = job(2, 11, {})
    for table in ("CUPTI_ACTIVITY_KIND_KERNEL",):
        rows = built.rows[table]
        starts = [int(str(row["start"])) for row in rows]
        mine = [row["deviceId"] == 1 and row["streamId"] == 8 for row in rows]
        place = next(at for at, start in enumerate(starts) if mine[at] and start > 6_000_000)
        rows[place]["start"] = starts[place] + 99
    assert late(communication_of(trace_of(built))) == []


@pytest.mark.parametrize(("steps", "waits", "late"), [(7, 3, True), (12, 3, False), (0, 3, False), (0, 4, True)])
def test_a_rank_is_late_where_chance_explains_its_waits_in_one_of_forty_runs(
    steps: int, waits: int, *, late: bool
) -> None:
    """Of n steps drawn at random, none has one of three waits in (1 - 3 / n) ** n of all cases.

    That is 2.0 % of seven steps and 3.2 % of twelve. Without steps, the window has twenty parts: 3.9 % for waits in
    three of them, and 1.2 % in four.
    """
    start, group, none = np.arange(steps) * 1_000, np.arange(waits), np.zeros(waits, np.intp)
    columns = {"process": 1, "thread": 1, "name": "step", "start": start, "end": start + 1_000, "warm_up": False}
    window = Window(0, (steps or 20) * 1_000, "", "steps" if steps else "operations")
    collectives = replace(NO_COLLECTIVES, group=group, arrival=1_000 * group + 300, row=none)
    charges = Charges(none, none + 1, np.array(["idle/data_wait"] * waits, object), none, none + 100, group, none)
    found = find_late_ranks(Steps(pd.DataFrame(columns).assign(number=range(steps))), {}, window, collectives, charges)
    assert [(each.device_id, each.steps, each.net.point) for each in found] == [(1, steps or 20, 100 * waits)] * late
    assert all(each.net.high > 1.4 * each.net.point for each in found)


def test_equal_ranks_have_no_late_one() -> None:
    assert late(communication_of(trace_of(job(4, 12, {})))) == []


def test_the_five_accounts_that_kept_a_rank_longest_are_its_evidence() -> None:
    accounts = [("idle/cpu", 0, 9 - at, None) for at in range(8)]
    context = SimpleNamespace(steps=SimpleNamespace(measured_count=0))
    lateness, window = SimpleNamespace(phase_name=str), SimpleNamespace(is_of_steps=False, length_ns=100)
    assert len(late_ranks._kept(context, lateness, window, accounts, 44)) == 5  # type: ignore[arg-type]  # noqa: SLF001
